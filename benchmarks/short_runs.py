"""Short runs in fresh processes, every source with every sink: do all of them exit cleanly?

    python benchmarks/short_runs.py --quick
    python benchmarks/short_runs.py --runs 1000
    python benchmarks/short_runs.py --runs 1000 --fork
    python benchmarks/short_runs.py --runs 200 --source parquet --sink parquet

A process that ends while one of its threads is inside of native code may abort after its work is done. Each process
runs one job on the local runtime and reads its results back, and leaves in one of four ways: after the run, after
stopping it, after a sink has failed, or without waiting for it. An exit code other than 0 is a fault, and so is a
wrong number of results.
"""

import argparse
import gc
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import table as text_table
from pyarrow import feather

import shoal
from shoal.compiler.program import compile_graph
from shoal.compiler.warm_up import warm_up
from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import RawBatch, Slice, Source
from shoal.runtimes.registry import runtime_kind
from shoal.session.digest import result_digest

SCHEMA = {"ts": "timestamp", "k": "int64", "name": "string"}
ROWS, KEYS, FILES = 20_000, 10, 4
STEP_US = 10_000
RESULTS = KEYS * ROWS * STEP_US // 10_000_000
"""One per key and window of ten seconds."""
MOST_S = 120
Kind = tuple[str, str, str]
"""Source, sink and ending."""


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
        """Call this with the rows of every write."""
        self.called = called

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Call the function."""
        del table, epoch
        self.called(rows)


def files(kind: Any, directory: Path) -> shoal.Files:
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
    raise OSError("the sink has failed on purpose")


def job_over(source: Source) -> shoal.Job:
    """Events counted by key and window."""
    stream = shoal.Stream("s", SCHEMA, time="ts")
    query = stream.key_by("k").window(shoal.tumbling(10)).aggregate(n=shoal.count()).sink("counts")
    return shoal.Job.of("short", [query], {"s": source})


def prepare_forks() -> None:
    """Import and load what every run needs, in this thread: otherwise that is nearly all that a forked process does.

    Nor is a forked process to look for garbage among all that, which takes it ten times as long as its run.
    """
    runtime_kind("local")
    warm_up(compile_graph(job_over(SOURCES["generator"](Path())).graph))
    if threading.active_count() > 1:
        sys.exit("a process with threads must not be forked; expected only the main thread")
    gc.collect()
    gc.freeze()


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


def fresh(kind: Kind, directory: str) -> str:
    """What becomes of a new process."""
    command = [sys.executable, __file__, "--one", *kind, directory]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return f"does not end within {MOST_S} s"
    return described(ended.returncode, ended.stderr)


def forked(kind: Kind, directory: str) -> str:
    """What becomes of a copy of this process, which has loaded everything and started no thread."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            signal.alarm(MOST_S)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(said.fileno(), 2)
            one(*kind, Path(directory))
            sys.exit(0)  # up through main, and out as any other process
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return described(os.waitstatus_to_exitcode(status), said.read().decode())


def described(code: int, said: str) -> str:
    """An exit code, with the last line written if it is not 0."""
    lines = said.strip().splitlines()
    return "0" if code == 0 else f"{code}: {lines[-1] if lines else 'nothing said'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of every source, sink and ending, forked")
    parser.add_argument("--runs", type=int, default=1_000, help="runs in all")
    parser.add_argument("--fork", action="store_true", help="import once and fork, which takes a twentieth of the time")
    parser.add_argument("--source", choices=SOURCES)
    parser.add_argument("--sink", choices=SINKS)
    parser.add_argument("--ending", choices=ENDINGS)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one[:3], Path(options.one[3]))
        return
    asked = ((options.source, SOURCES), (options.sink, SINKS), (options.ending, ENDINGS))
    kinds: list[Kind] = list(itertools.product(*([given] if given else list(all_) for given, all_ in asked)))
    directory = tempfile.mkdtemp(prefix="shoal-short-")  # a forked process must not remove it when it exits
    subprocess.run([sys.executable, __file__, "--one", "files", "", "", directory], check=True)
    runs, tried = len(kinds) if options.quick else options.runs, forked if options.fork or options.quick else fresh
    if tried is forked:
        prepare_forks()
    counts: Counter[tuple[Kind, str]] = Counter()
    began_s = time.monotonic()
    for number in range(runs):
        kind = kinds[number % len(kinds)]
        counts[kind, tried(kind, directory)] += 1
    shutil.rmtree(directory)
    report(counts, time.monotonic() - began_s)


def report(counts: Counter[tuple[Kind, str]], took_s: float) -> None:
    """Print a line per source and sink, and every fault."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    for ((source, sink, _), result), number in counts.items():
        of_pair = rows.setdefault((source, sink), Counter())
        of_pair["runs"] += number
        of_pair["faults"] += number if result != "0" else 0
    print(
        text_table.plain(
            ["source", "sink", "runs", "faults"],
            [[source, sink, str(found["runs"]), str(found["faults"])] for (source, sink), found in rows.items()],
        )
    )
    faults = {key: number for key, number in counts.items() if key[1] != "0"}
    for (kind, result), number in faults.items():
        print(f"{number} x {', '.join(kind)}: exit code {result}")
    print(f"{sum(counts.values())} runs in {took_s:.0f} s, {sum(faults.values())} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
