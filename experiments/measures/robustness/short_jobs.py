"""One short job on the local runtime with any source and sink, and four ways for its process to end.

python short_jobs.py SOURCE SINK ENDING DIRECTORY      (SOURCE is `files` to write the files of the others)
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pyarrow import feather

import shoal
from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import RawBatch, Slice, Source
from shoal.session.digest import result_digest

SCHEMA = {"ts": "timestamp", "k": "int64", "name": "string"}
ROWS, KEYS, FILES = 20_000, 10, 4
STEP_US = 10_000
RESULTS = KEYS * ROWS * STEP_US // 10_000_000
"""One per key and window of ten seconds."""


class Events:
    """A hundred events per second of event time."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number start .. stop - 1."""
        number = np.arange(start, stop)
        names = pa.array(["a", "b", "c"]).take(pa.array(number % 3))
        return pa.record_batch(
            {"ts": pa.array(number * STEP_US, pa.timestamp("us")), "k": pa.array(number % KEYS), "name": names}
        )


class OwnSource:
    """A source as a user may write it: the same events, a thousand at a time."""

    def start(self) -> dict[str, Any]:
        """Before event 0."""
        return {"position": 0, "ended": False}

    def cursor(self, _directory: str) -> "OwnSource":
        """Nothing has to be kept."""
        return self

    def latest(self, start: Any) -> dict[str, Any]:
        """The next thousand events."""
        end = min(ROWS, start["position"] + 1_000)
        return {"position": end, "ended": end == ROWS}

    def slices(self, start: Any, end: Any, _parallelism: int) -> list[Slice]:
        """All in one."""
        at = {"from": start["position"], "to": end["position"]}
        return [Slice("own", at["to"] - at["from"], at)]

    def read(self, piece: Slice, columns: Any) -> Any:
        """The events of a slice."""
        rows = Events().batch(piece.data["from"], piece.data["to"])
        yield RawBatch(rows.select(list(columns)), "own", piece.data["from"])


class Callback:
    """A sink that calls a function and keeps nothing."""

    def __init__(self, called: Callable[[pa.Table], object]) -> None:
        self.called = called

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Call the function."""
        del table, epoch
        self.called(rows)


def files(kind: Any, directory: Path) -> shoal.Files:
    """Files of a format that `write_files` has written."""
    return shoal.Files(str(directory / kind), format=kind, follow=False)


SOURCES: dict[str, Callable[[Path], Source]] = {
    "parquet": lambda directory: files("parquet", directory),
    "arrow": lambda directory: files("arrow", directory),
    "csv": lambda directory: files("csv", directory),
    "generator": lambda _: shoal.Generator(Events(), ROWS, rows_per_epoch=5_000),
    "rate": lambda _: shoal.Generator(Events(), ROWS, 200_000.0, 5_000),
    "own": lambda _: OwnSource(),
}
SINKS: dict[str, Callable[[str], Sink]] = {
    "parquet": shoal.ParquetSink,
    "memory": lambda _: shoal.MemorySink(),
    "console": lambda _: shoal.ConsoleSink(),
    "callback": lambda _: Callback(lambda rows: rows.to_pylist()),
}
ENDINGS = ("done", "stopped", "failed", "left")


def write_files(directory: Path) -> None:
    """The same events in every format."""
    share = ROWS // FILES
    for kind in ("parquet", "arrow", "csv"):
        (directory / kind).mkdir()
        for number in range(FILES):
            rows = pa.Table.from_batches([Events().batch(number * share, (number + 1) * share)])
            path = f"{directory}/{kind}/{number}.{kind}"
            if kind == "parquet":
                pq.write_table(rows, path, row_group_size=1_000)
            elif kind == "arrow":
                feather.write_feather(rows, path, chunksize=1_000)
            else:
                pacsv.write_csv(rows.set_column(0, "ts", rows["ts"].cast("string")), path)


def failing(_rows: pa.Table) -> None:
    """What a sink calls that fails."""
    raise OSError("the sink has failed on purpose")


def job_over(source: Source) -> shoal.Job:
    """Events counted by key and window."""
    stream = shoal.Stream("s", SCHEMA, time="ts")
    query = stream.key_by("k").window(shoal.tumbling(10)).aggregate(n=shoal.count()).sink("counts")
    return shoal.Job.of("short", [query], {"s": source})


def one(source: str, sink: str, ending: str, directory: Path) -> None:
    """One job in this process, or the files for all others."""
    if source == "files":
        write_files(directory)
        return
    job = job_over(SOURCES[source](directory))
    with tempfile.TemporaryDirectory() as results:
        target = Callback(failing) if ending == "failed" else SINKS[sink](results)
        run = shoal.start(job, on="local", workers=2, sink=target)
        if ending == "left":
            return
        try:
            run.wait(lambda run, _: run.stop() if ending == "stopped" else None)
        except OSError as error:
            if ending != "failed" or "on purpose" not in str(error):
                raise
        if ending == "done":
            read_back(run.sink)
            if run.tally.results != RESULTS:
                sys.exit(f"{run.tally.results} results instead of {RESULTS}")


def read_back(sink: Sink) -> None:
    """Read the results as the command line does."""
    if isinstance(sink, shoal.ParquetSink | shoal.MemorySink):
        result_digest({name: sink.table(name) for name in sink.names()})


if __name__ == "__main__":
    one(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
