"""The end of a local run: whatever it reads and writes, and however it ends, no thread of it is left."""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from tests.runtimes.local.row_source import RowSource

from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink, Sink
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Offset, RawBatch, Slice, Source
from shoal.errors import QueryError, RunError, SourceError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.functions import udf
from shoal.model.query.schema import Schema
from shoal.model.query.window import tumbling
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import start

SCHEMA = {"ts": "timestamp", "k": "int64"}
ROWS = 3_000
WRITERS: dict[str, Callable[[pa.Table, str], None]] = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=500),
    "arrow": lambda table, path: feather.write_feather(table, path, chunksize=500),
    "csv": lambda table, path: pacsv.write_csv(table.set_column(0, "ts", table["ts"].cast("string")), path),
}


class Events:
    """A hundred events per second of event time."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        number = np.arange(start, stop)
        return pa.record_batch({"ts": pa.array(number * 10_000, pa.timestamp("us")), "k": pa.array(number % 7)})


def files(kind: Any, directory: Path) -> Source:
    directory.mkdir()
    for part in range(3):
        rows = pa.Table.from_batches([Events().batch(part * ROWS // 3, (part + 1) * ROWS // 3)])
        WRITERS[kind](rows, f"{directory}/{part}.{kind}")
    return Files(str(directory), format=kind, follow=False)


def own_rows() -> RowSource:
    rows = [{"ts": n * 10_000, "k": n % 7} for n in range(ROWS)]
    return RowSource(rows, arrow_schema(Schema.of(SCHEMA)), at_once=500)


SOURCES: dict[str, Callable[[Path], Source]] = {
    **{kind: lambda path, kind=kind: files(kind, path / "in") for kind in WRITERS},  # type: ignore[misc]
    "generator": lambda path: Generator(Events(), ROWS, rows_per_epoch=500),
    "rate": lambda path: Generator(Events(), ROWS, 200_000.0, 500),
    "own source": lambda path: own_rows(),
}


@dataclass
class Callback:
    """A sink that calls a function."""

    on_rows: Callable[[str, pa.Table], object]

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        self.on_rows(table, rows)


SINKS: dict[str, Callable[[Path], Sink]] = {
    "memory": lambda path: MemorySink(),
    "parquet": lambda path: ParquetSink(str(path / "out")),
    "console": lambda path: ConsoleSink(stream=StringIO()),
    "callback": lambda path: Callback(lambda table, rows: rows.to_pylist()),
}


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Every thread that a test has started must have exited."""
    before = set(threading.enumerate())
    yield
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert left == set()


def job(source: Source, broken: Any = None) -> Job:
    stream = Stream("s", SCHEMA, time="ts")
    counted = stream.key_by("k").window(tumbling(1)).aggregate(n=count()).sink("counts")
    also = [] if broken is None else [stream.select("ts", x=broken("k")).sink("broken")]
    return Job.of("ending", [counted, *also], {"s": source})


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("source", SOURCES)
def test_no_thread_is_left_after_a_run(source: str, sink: str, tmp_path: Path) -> None:
    run = start(job(SOURCES[source](tmp_path)), on="local", sink=SINKS[sink](tmp_path))
    run.wait()
    assert run.consumed == ROWS


@pytest.mark.parametrize("kind", ["state-based", "threads"])
@pytest.mark.parametrize("source", SOURCES)
def test_no_thread_is_left_after_a_function_has_failed(source: str, kind: str, tmp_path: Path) -> None:
    @udf("int64")
    def broken(k: Any) -> Any:
        raise ValueError("the user's own mistake")

    local = LocalSettings(scheduling=kind, block_rows=64)
    with pytest.raises(QueryError, match="the user's own mistake"):
        start(job(SOURCES[source](tmp_path), broken), on="local", local=local).wait()


@dataclass(frozen=True)
class Endless(RowSource):
    """Rows without end, and whether all readers have been closed."""

    opened: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    def latest(self, start: Offset) -> Offset:
        return {"position": start["position"] + 1_000, "ended": False}

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        start = piece.data["from"]
        self.opened.append(start)
        try:
            for begin in range(start, start + 1_000, 100):
                yield RawBatch(Events().batch(begin, begin + 100).select(list(columns)), "endless", begin)
        finally:
            self.closed.append(start)


def endless() -> Endless:
    return Endless([{"ts": 0, "k": 0}], arrow_schema(Schema.of(SCHEMA)))


class Lost(BaseException):
    """Not even an `Exception`."""


@pytest.mark.parametrize("queues", ["none", "worker-queue"])
@pytest.mark.parametrize(
    ("error", "ends_with"),
    [
        pytest.param(OSError("disk full"), OSError, id="an error"),
        pytest.param(Lost("good-bye"), RunError, id="what is not even an error"),
    ],
)
def test_no_thread_is_left_after_a_sink_has_failed(error: BaseException, ends_with: type, queues: str) -> None:
    def fail(table: str, rows: pa.Table) -> None:
        raise error

    source = endless()
    run = start(job(source), on="local", sink=Callback(fail), local=LocalSettings(queues=queues, block_rows=64))
    with pytest.raises(ends_with, match=str(error)):
        run.wait()
    assert sorted(source.opened) == sorted(source.closed)


@pytest.mark.parametrize("sink", SINKS)
def test_no_thread_is_left_after_a_source_has_failed(sink: str, tmp_path: Path) -> None:
    source = files("parquet", tmp_path / "in")
    (tmp_path / "in" / "1.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(SourceError, match=r"cannot read .*1\.parquet"):
        start(job(source), on="local", sink=SINKS[sink](tmp_path)).wait()


@pytest.mark.parametrize("sink", SINKS)
def test_no_thread_is_left_after_a_run_was_stopped(sink: str, tmp_path: Path) -> None:
    run = start(job(endless()), on="local", sink=SINKS[sink](tmp_path), local=LocalSettings(block_rows=64))
    run.wait(lambda run, event: run.stop())
    assert run.consumed


def test_no_thread_is_left_after_a_watcher_was_interrupted() -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(job(endless()), on="local").wait(interrupted)


def test_no_thread_is_left_after_a_start_that_failed() -> None:
    @dataclass(frozen=True)
    class Closed(RowSource):
        def cursor(self, directory: str) -> "Closed":
            raise SourceError("the source is closed")

    with pytest.raises(SourceError, match="the source is closed"):
        start(job(Closed(own_rows().rows, own_rows().schema)), on="local")


ABANDONED = """
from shoal import Generator, Job, Stream, count, start, tumbling
from tests.runtimes.local.test_ending import Events

stream = Stream("s", {"ts": "timestamp", "k": "int64"}, time="ts")
query = stream.key_by("k").window(tumbling(1)).aggregate(n=count()).sink("t")
run = start(Job.of("j", [query], {"s": Generator(Events())}), on="local")
for event in run.runtime.events():
    if run.consumed:
        break
print("leaving")
"""


def test_a_process_that_leaves_a_run_behind_ends_it_and_says_so() -> None:
    ended = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "leaving\n")
    assert ended.stderr == (
        "the process exits while a run goes on, so its results are incomplete; call Run.wait before\n"
    )


class Frozen(MemorySink):
    """Remembers how many objects are left out of garbage collections when it gets results."""

    counts: list[int]

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        self.counts = [*getattr(self, "counts", []), gc.get_freeze_count()]
        super().write(table, epoch, rows)


def test_what_was_there_before_a_run_is_not_looked_at_by_garbage_collections_until_it_ends() -> None:
    stream = Stream("events", SCHEMA, time="ts")
    query = stream.key_by("k").window(tumbling(1)).aggregate(n=count()).sink("n")
    sink = Frozen()
    start(Job.of("job", [query], {"events": Generator(Events(), ROWS)}), on="local", sink=sink).wait()
    assert min(sink.counts) > 10_000
    assert gc.get_freeze_count() == 0
