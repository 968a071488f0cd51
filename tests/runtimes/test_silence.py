"""Runs whose sources have no new rows: time goes on, and commands are carried out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.script import Script, Step, until

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.files import Files
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Query
from shoal.model.query.window import tumbling
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import rectangle
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import Run, start

SCHEMA = {"ts": "timestamp", "k": "int64"}
LOUD = Stream("loud", SCHEMA, time="ts")
SILENT = Stream("silent", SCHEMA, time="ts", idle_s=0.2)
RUNTIMES: Mapping[str, Mapping[str, Any]] = {
    "local": {"workers": 2},
    "local, bound": {"workers": 2, "policy": "round-robin", "local": LocalSettings(most_workers=3)},
    "reference": {"workers": 2},
}
BY_CLOCK = LOUD.key_by("k").window(tumbling(0.3, clock="processing")).aggregate(n=count()).sink("by_clock")
BOTH = LOUD.union(SILENT).key_by("k").window(tumbling(10)).aggregate(n=count()).sink("both")
CHAINED = (
    LOUD.key_by("k")
    .window(tumbling(10))
    .aggregate(n=count())
    .union(SILENT.key_by("k").window(tumbling(10)).aggregate(n=count()))
    .key_by("k")
    .window(tumbling(10))
    .aggregate(n=sum_("n"))
    .sink("chained")
)


def job(directory: Path, *queries: Query) -> Job:
    """One stream has 60 seconds in one file, the other has no file."""
    sources = {stream: Files(str(directory / stream)) for query in queries for stream in query.streams}
    for stream in sources:
        (directory / stream).mkdir()
    times = pa.array([second * 1_000_000 for second in range(60)], pa.timestamp("us", "UTC"))
    table = pa.table({"ts": times, "k": pa.array([second % 4 for second in range(60)], pa.int64())})
    pq.write_table(table, directory / "loud" / "rows.parquet")
    return Job.of("silence", queries, sources)


def begun(job: Job, runtime: str, sink: MemorySink) -> Run:
    return start(job, on=runtime.split(",", maxsplit=1)[0], sink=sink, **RUNTIMES[runtime])


def once(condition: Callable[[EpochCommitted], bool], action: Callable[[Run], object]) -> Step:
    """A step that waits for an epoch and acts on it: in silence there may be no further one."""

    def step(run: Run, event: EpochCommitted) -> bool:
        met = condition(event)
        if met:
            action(run)
        return met

    return step


def has_rows(sink: MemorySink, table: str, rows: int) -> Callable[[EpochCommitted], bool]:
    """Whether a table has rows, without any more input."""
    return lambda _: table in sink.names() and sink.table(table).num_rows >= rows


@pytest.mark.timeout(60)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_windows_by_the_clock_close_without_new_rows(runtime: str, tmp_path: Path) -> None:
    sink = MemorySink()
    script = Script(once(has_rows(sink, "by_clock", 4), Run.drain))
    begun(job(tmp_path, BY_CLOCK), runtime, sink).wait(script)
    assert script.steps == []
    assert sum(sink.table("by_clock")["n"].to_pylist()) == 60


@pytest.mark.timeout(60)
@pytest.mark.parametrize("query", [BOTH, CHAINED], ids=["directly", "behind a window"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_idle_stream_does_not_hold_back_the_others(runtime: str, query: Query, tmp_path: Path) -> None:
    sink = MemorySink()
    script = Script(once(has_rows(sink, query.table, 5 * 4), Run.drain))  # the sixth window ends with the run
    begun(job(tmp_path, query), runtime, sink).wait(script)
    assert script.steps == []
    assert sink.table(query.table).num_rows == 6 * 4


@pytest.mark.timeout(60)
@pytest.mark.parametrize("runtime", ["local, bound", "reference"])
def test_instances_move_without_new_rows(runtime: str, tmp_path: Path) -> None:
    counted = LOUD.partition_by("k", groups=4).window(tumbling(10)).aggregate(n=count()).sink("counted")
    silent, sink = job(tmp_path, counted), MemorySink()
    moved = shuffled(silent.graph, 2, seed=1)
    assert moved != round_robin(silent.graph, 2)
    script = Script(
        once(lambda event: event.snapshot.watermarks_us.get("loud", 0) > 0, lambda run: run.rebind(moved)),
        once(lambda event: event.snapshot.binding == moved, Run.drain),
    )
    run = begun(silent, runtime, sink)
    run.wait(script)
    assert (script.steps, run.refused) == ([], [])
    assert sum(sink.table("counted")["n"].to_pylist()) == 60


POINTS = Stream("points", {"ts": "timestamp", "x": "int64", "y": "int64"}, time="ts")
BOX = {"x0": 0, "y0": 0, "x1": 9, "y1": 9}
AREAS = Stream(
    "areas",
    {"ts": "timestamp", "area": "string", "action": "string", **dict.fromkeys(BOX, "int64")},
    time="ts",
    idle_s=0.2,
)
FOUND = POINTS.match_ranges(AREAS, rectangle(*BOX), grid=Grid((0, 0, 10, 10), 2, 2), id="area", action="action")


def written(directory: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A file of rows whose times are in seconds, there as a whole or not at all."""
    table = pa.Table.from_pylist(rows)
    times = pa.array([row["ts"] * 1_000_000 for row in rows], pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.schema.names.index("ts"), "ts", times), directory / f".{name}")
    (directory / f".{name}").rename(directory / name)


def has_read(stream: str, second: int) -> Callable[[EpochCommitted], bool]:
    """Whether a stream has been read up to a time."""
    return lambda event: event.snapshot.watermarks_us.get(stream, 0) == second * 1_000_000


def changed(area: str, action: str, ts: int) -> dict[str, Any]:
    return {"ts": ts, "area": area, "action": action, **BOX}


LAST_CHANGE = {**changed("far", "insert", 1), "x0": 9}
"""What moves the watermark behind the changes before it."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_ranges_that_begin_and_end_in_the_past_count_for_the_points_to_come(runtime: str, tmp_path: Path) -> None:
    points, areas, sink = tmp_path / "points", tmp_path / "areas", MemorySink()
    for each in (points, areas):
        each.mkdir()
    written(areas, "first.parquet", [changed("stays", "insert", 0), changed("ends", "insert", 0), LAST_CHANGE])
    first, second = ([{"ts": ts, "x": 5, "y": 5} for ts in times] for times in (range(60), range(60, 100)))
    late = [changed("comes", "insert", 10), changed("ends", "delete", 20), changed("comes", "delete", 70)]
    late.append({**LAST_CHANGE, "ts": 71})
    script = Script(
        once(has_read("areas", 1), lambda _: written(points, "first.parquet", first)),
        once(has_rows(sink, "found", 59 * 2), lambda _: written(areas, "second.parquet", late)),
        once(has_read("areas", 71), lambda _: written(points, "second.parquet", second)),
        once(has_read("points", 99), Run.drain),
    )
    query = FOUND.select("ts", "area").sink("found")
    run = begun(Job.of("late", [query], {"points": Files(str(points)), "areas": Files(str(areas))}), runtime, sink)
    run.wait(script)
    times: dict[str, list[int]] = {}
    for row in sink.table("found").to_pylist():
        times.setdefault(row["area"], []).append(row["ts"].second + 60 * row["ts"].minute)
    ranges = {"stays": range(100), "ends": range(59), "comes": range(59, 70)}
    assert {area: sorted(each) for area, each in times.items()} == {area: [*each] for area, each in ranges.items()}
    assert run.tally.dead_letters == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_on_spark_epochs_without_rows_do_all_of_this(spark: Any, tmp_path: Path) -> None:
    counted = LOUD.partition_by("k", groups=4).window(tumbling(10)).aggregate(n=count()).sink("counted")
    silent, sink, added = job(tmp_path, BOTH, BY_CLOCK, counted), MemorySink(), LOUD.select("k").sink("added")
    moved = shuffled(silent.graph, 2, seed=1)

    def takes_part(event: EpochCommitted) -> bool:
        return event.snapshot.graph is not None and "added" in event.snapshot.graph.queries

    script = Script(
        until(has_rows(sink, "both", 5 * 4)),
        once(has_rows(sink, "by_clock", 4), lambda run: run.rebind(moved)),
        once(lambda event: event.snapshot.binding == moved, lambda run: run.add(added)),
        once(takes_part, Run.drain),
    )
    run = start(silent, on="spark", spark=spark, sink=sink, workers=2)
    run.wait(script)
    assert (script.steps, run.refused) == ([], [])
    assert sum(event.rows for event in script.committed) == 60
    assert sink.table("both").num_rows == 6 * 4
    assert sum(sink.table("by_clock")["n"].to_pylist()) == sum(sink.table("counted")["n"].to_pylist()) == 60
