"""Trace which files of ours an event passes, from the source that hands it over to the sink that has its result.

    python -m tests.architecture.event_trace spark|local|reference|simulated [--json]

The rule is in docs/design/map.md. Spark is the stand-in of the tests, which runs every task in this process, behind the
real reading task.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from tests.runtimes.spark import small_spark
from tests.small_city import city_events

import shoal
from shoal import Generator, Graph, Job, MemorySink, col, hop, mean, start
from shoal.runtimes.spark.tasks import source as reading
from shoal.workloads.traffic.queries import STREAM, vehicles

ROWS_PER_EPOCH, EPOCHS, WORKERS = 1_500, 6, 2
PACKAGE = f"{Path(shoal.__file__).parent}/"
ROOT = Path(__file__).parents[2]
ENDS = ("connectors/sources/", "connectors/sinks", "workloads/")
"""The two ends of the way: what hands rows over, and what has the results."""
TASKS = {"source.py:read": "reading task", "task.py:work": "worker task", "epoch.py:run": "driver"}
TURNS = {"turn", "deliver"}
"""Functions of the local runtime that are scheduled: each is a hop of its own."""
SIZES = {"nbytes", "state_bytes"}
"""Measurements, which look at rows but are no part of their way."""


class CheckedEvents:
    """Events that must pass admission, as those of a file must."""

    def batch(self, start_: int, stop: int) -> pa.RecordBatch:
        """Events number start .. stop - 1."""
        return city_events().batch(start_, stop)


SOURCE = Generator(CheckedEvents(), EPOCHS * ROWS_PER_EPOCH, rows_per_epoch=ROWS_PER_EPOCH)


def graph() -> Graph:
    """A filter, a hop window and an aggregate, for each of two regions."""
    parts = [vehicles().filter((col("region") == region) & (col("speed") > 1)) for region in range(2)]
    means = [part.key_by("vehicle_type").window(hop(4, 2)).aggregate(speed=mean("speed")) for part in parts]
    return Graph.of(each.sink(f"speed[{region}]", table="speed") for region, each in enumerate(means))


def has_rows(value: object, depth: int = 3) -> bool:
    """Whether a value is rows of events, state or results, or a collection that has some."""
    if isinstance(value, pa.RecordBatch | pa.Table):
        return value.num_rows > 0
    kind = type(value)
    if kind.__module__.startswith("shoal.") and kind.__name__.endswith(("Block", "RawBatch", "Packet", "Table")):
        return True
    if depth and isinstance(value, dict | list | tuple):
        return any(has_rows(each, depth - 1) for each in list(value.values() if isinstance(value, dict) else value))
    return False


class Trace:
    """The files that rows pass, by hop; `stations` are those that hand rows on to another file."""

    def __init__(self) -> None:
        """Nothing traced yet."""
        self.hops: dict[str, set[str]] = defaultdict(set)
        self.stations: set[str] = set()
        self._handed_over = False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Take note of a function of ours that is called with rows or returns rows, and of its caller."""
        code = frame.f_code
        if event not in {"call", "return"} or not code.co_filename.startswith(PACKAGE):
            return
        self._handed_over = self._handed_over or code.co_name == "batch"
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        carried = value if event == "return" else tuple(frame.f_locals.get(name) for name in arguments)
        if self._handed_over and code.co_name not in SIZES and has_rows(carried):
            hop_, (file, caller) = _hop(frame), [*map(_file, _stack(frame)), ""][:2]
            self.hops[hop_].add(file)
            if caller not in {"", file} and not _begins_hop(frame):
                self.hops[hop_].add(caller)
                self.stations.add(caller)

    @property
    def files(self) -> set[str]:
        """All files between the two ends."""
        return {file for files in self.hops.values() for file in files if not file.startswith(ENDS)}

    @property
    def twice(self) -> set[str]:
        """The files that are passed in more than one hop."""
        return {file for file in self.files if sum(file in files for files in self.hops.values()) > 1}


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(PACKAGE)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """A function of ours and those of ours that wait for it, innermost first."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def _task(frame: FrameType) -> str:
    """The task that a function is the begin of, if any."""
    return TASKS.get(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}", "")


def _begins_hop(frame: FrameType) -> bool:
    return bool(_task(frame)) or frame.f_code.co_name in TURNS


def _hop(frame: FrameType) -> str:
    """The task, or the node's turn, that a function runs in; the driver if it is none."""
    begin = next(filter(_begins_hop, _stack(frame)), None)
    if begin is None:
        return "driver"
    return _task(begin) or f"{type(begin.f_locals['self']).__name__}.{begin.f_code.co_name}"


class TracedRun(small_spark.SmallRun):
    """The stand-in for Spark, behind the real reading task."""

    def rows(self, epoch: int) -> DataFrame:
        """What the reading task makes of an epoch's events."""
        reader = reading.ShoalStreamReader(reading.SourceFeed(STREAM, SOURCE, self.uri, 1))
        first, last = self.noted(epoch - 1), self.noted(epoch)
        end: dict[str, object] = {"position": last, "ended": last >= self.epochs * self.rows_per_epoch}
        pieces = reader.partitions({"position": first, "ended": False}, end)

        def make() -> pa.Table:
            return pa.Table.from_batches([batch for piece in pieces for batch in reader.read(piece)])

        return cast(DataFrame, small_spark.Rows(make))


def run_small_spark(directory: str) -> None:
    """Run the query on the stand-in for Spark."""
    with pytest.MonkeyPatch.context() as patched:
        small_spark.pretend(patched)
        run = TracedRun(Path(directory), EPOCHS, ROWS_PER_EPOCH, WORKERS, graph=graph())
        patched.setattr(reading, "epoch_of_task", run.next_epoch)
        run.go(until=EPOCHS - 1)


def traced(runtime: str) -> Trace:
    """Run the query on a runtime; on Spark on the stand-in."""
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        if runtime == "spark":
            with tempfile.TemporaryDirectory() as directory:
                run_small_spark(directory)
        else:
            start(Job("map", graph(), {STREAM: SOURCE}), on=runtime, sink=MemorySink(), workers=WORKERS).wait()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


def traced_elsewhere(runtime: str) -> Trace:
    """The same in a process of its own: threads that outlive a traced run keep what they were traced with alive."""
    command = [sys.executable, "-m", "tests.architecture.event_trace", runtime, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tracing {runtime} failed: {done.stderr[-2000:]}")
    found, trace = json.loads(done.stdout), Trace()
    trace.hops.update({hop_: set(files) for hop_, files in found["hops"].items()})
    trace.stations.update(found["stations"])
    return trace


def main() -> None:
    """Print what was traced."""
    found = traced(sys.argv[1])
    if "--json" in sys.argv:
        hops = {hop_: sorted(files) for hop_, files in found.hops.items()}
        sys.stdout.write(json.dumps({"hops": hops, "stations": sorted(found.stations)}))
        return
    lines = []
    for hop_, files in found.hops.items():
        lines += [hop_, *(f"  {'hands on' if f in found.stations else 'works on'} {f}" for f in sorted(files))]
    stations = found.files & found.stations
    lines.append(f"{len(found.files)} files, {len(stations)} hand rows on; twice: {', '.join(sorted(found.twice))}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
