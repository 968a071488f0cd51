"""Files in any order: the same results and the same late rows on every runtime, with any number of workers."""

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from tests.runtimes.spark.small_spark import Rows, Session, pretend

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import Offset
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Query
from shoal.model.query.window import hop, sessions
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.settings import LocalSettings
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.runtimes.spark.tasks import source as reading
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import start

Times = Sequence[tuple[int, int]]
"""Seconds and keys of the rows of a file, in the order in which they stand there."""
COLUMNS = {"ts": "timestamp", "k": "int64"}


def queries(lateness_s: float) -> list[Query]:
    clicks = Stream("clicks", COLUMNS, time="ts", lateness_s=lateness_s)
    views = Stream("views", COLUMNS, time="ts", lateness_s=lateness_s)
    return [
        clicks.key_by("k").window(sessions(3)).aggregate(n=count()).sink("visits"),
        clicks.partition_by("k", groups=3).window(hop(6, 2)).aggregate(n=count()).sink("counts"),
        clicks.join(views, on="k", within_s=(-2, 2)).sink("pairs"),
    ]


def written(directory: Path, files: Sequence[Times]) -> str:
    """Parquet files with a row group for every four rows; their names give the order."""
    directory.mkdir()
    for number, rows in enumerate(files):
        times = pa.array([second * 1_000_000 for second, _ in rows], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "k": pa.array([key for _, key in rows], pa.int64())})
        path = directory / f"{number % 2}-{number:03}.parquet"
        pq.write_table(table, path, row_group_size=4)
        path.touch()
    return str(directory)


def outcome(sink: MemorySink) -> Mapping[str, str]:
    """The digest of every table that has rows, late rows included."""
    return {name: result_digest({name: sink.table(name)}) for name in sink.names() if sink.table(name).num_rows}


def wire_rows(ranges: Sequence[tuple[reading.ShoalStreamReader, Offset, Offset]]) -> pa.Table:
    """What the reading tasks make of ranges of offsets."""
    return pa.Table.from_batches(
        [
            batch
            for reader, start, end in ranges
            for piece in reader.partitions(dict(start), dict(end))
            for batch in reader.read(piece)
        ]
    )


def run_on_stand_in(job: Job, checkpoint: str, workers: int, sink: MemorySink) -> None:
    """The Spark runtime with all tasks in this process, behind the real reading tasks."""
    graph, binding = job.graph, round_robin(job.graph, workers)
    setup = SparkSetup(cast(SparkSession, Session()), checkpoint, job.sources, sink, hot=False)
    runtime = SparkRuntime(setup)
    runtime._runner = EpochRunner(Checkpoint(checkpoint), sink, runtime._begin(graph, binding), hot=False)
    readers = {
        stream: reading.ShoalStreamReader(reading.SourceFeed(stream, source, checkpoint, parallelism=3))
        for stream, source in job.sources.items()
    }
    start_at = {stream: reader.initialOffset() for stream, reader in readers.items()}
    while not runtime._all_ended():
        epoch = runtime._last + 1
        end_at = {stream: reader.latestOffset(start_at[stream], None) for stream, reader in readers.items()}
        ranges = [(reader, start_at[s], end_at[s]) for s, reader in readers.items() if start_at[s] != end_at[s]]
        noted = Path(checkpoint, "spark", "offsets", str(epoch))
        noted.parent.mkdir(parents=True, exist_ok=True)
        noted.write_text("read")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reading, "epoch_of_task", lambda epoch=epoch: epoch)
            runtime._epoch(cast(DataFrame, Rows(partial(wire_rows, ranges))), epoch)
        start_at = end_at
    runtime._flush()


def check(
    clicks: Sequence[Times], views: Sequence[Times], lateness_s: float, rows: int | None, partition: str | None
) -> Mapping[str, str]:
    """Run on all runtimes; returns what all of them agree on."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        pretend(patched)
        patched.setattr(reading, "freeze_what_stays", lambda: None)
        root = Path(name)
        sources = {
            stream: Files(written(root / stream, files), follow=False, rows_per_epoch=rows, partition=partition)
            for stream, files in (("clicks", clicks), ("views", views))
        }
        job = Job.of("unordered", queries(lateness_s), sources)
        sink = MemorySink()
        start(job, on="reference", sink=sink).wait()
        expected = outcome(sink)
        for workers, options in (
            (1, {}),
            (2, {"local": LocalSettings(block_rows=3)}),
            (3, {}),
            (2, {"policy": "round-robin"}),
            (3, {"policy": "round-robin"}),
        ):
            sink = MemorySink()
            start(job, on="local", workers=workers, sink=sink, **options).wait()
            assert outcome(sink) == expected, f"local, {workers} workers, {options}"
        for workers in (1, 2):
            sink = MemorySink()
            run_on_stand_in(job, str(root / f"checkpoint-{workers}"), workers, sink)
            assert outcome(sink) == expected, f"spark, {workers} workers"
        return expected


rows_of_files = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), max_size=12), min_size=1, max_size=5
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows_of_files,
    rows_of_files,
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([4, 12, None]),
    st.sampled_from([None, "^."]),
)
def test_unordered_files_have_the_same_results_and_late_rows_everywhere(
    clicks: Sequence[Times], views: Sequence[Times], lateness_s: float, rows: int | None, partition: str | None
) -> None:
    check(clicks, views, lateness_s, rows, partition)


def test_rows_that_are_late_everywhere_are_the_same() -> None:
    files = [[(second, 0) for second in range(start, start + 8)] for start in (30, 0, 40, 10)]
    assert DEAD_LETTERS in check(files, files, 0.0, 8, None)


def test_rows_of_files_that_one_epoch_reads_are_not_late_by_each_other() -> None:
    files = [[(second, 0) for second in range(start, start + 8)] for start in (30, 0, 40, 10)]
    assert DEAD_LETTERS not in check(files, files, 0.0, None, None)


def test_a_partition_is_not_late_by_another() -> None:
    ahead_and_behind = [
        [(second + 1000 * (part % 2 == 0), 0) for second in range(part * 8, part * 8 + 8)] for part in range(4)
    ]
    assert DEAD_LETTERS in check(ahead_and_behind, ahead_and_behind, 0.0, 8, None)
    assert DEAD_LETTERS not in check(ahead_and_behind, ahead_and_behind, 0.0, 8, "^.")
