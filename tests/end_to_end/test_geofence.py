"""Objects that enter fences, dwell in them and leave them: every runtime says what brute force says."""

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from tests.runtimes.local.row_source import RowSource
from tests.small_city import result_tables
from tests.spatial_case import BOX, GRID, POINTS, RANGES, Row, contains, lives, spatial_case

from shoal.errors import GraphError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.flow import Flow
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.expression import col
from shoal.policies.binding.static import shuffled
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start

OBJECTS = 12


def events_of(points: list[Row], ranges: list[Row], dwell_us: int) -> list[dict[str, Any]]:
    """What happens to each object, one time after another."""
    alive = lives(ranges)
    where: dict[int, dict[int, set[int]]] = defaultdict(dict)
    for point in points:
        found = {row["rid"] for row, since, until in alive if since <= point["ts"] < until and contains(row, point)}
        where[point["pid"]][point["ts"]] = where[point["pid"]].get(point["ts"], set()) | found
    made = []
    for pid, times in where.items():
        since: dict[int, int] = {}
        dwelt: set[int] = set()
        for ts, inside in sorted(times.items()):
            for rid in set(since) - inside:
                made.append((pid, rid, "leave", ts, since.pop(rid)))
                dwelt.discard(rid)
            for rid in inside:
                if rid not in since:
                    since[rid] = ts
                    made.append((pid, rid, "enter", ts, ts))
                elif ts - since[rid] >= dwell_us and rid not in dwelt:
                    dwelt.add(rid)
                    made.append((pid, rid, "dwell", ts, since[rid]))
    return [dict(zip(("pid", "rid", "event", "happened", "entered"), each, strict=True)) for each in made]


def walks(seed: int) -> tuple[list[Row], list[Row]]:
    """Objects that wander among fences that come and go, some of them twice at one time."""
    draw, case = random.Random(seed), spatial_case(seed, points=600, changes=150)
    at = {pid: (draw.uniform(0, 100), draw.uniform(0, 100)) for pid in range(OBJECTS)}
    points = []
    for row in case.points:
        pid = draw.randrange(OBJECTS)
        x, y = (min(max(each + draw.uniform(-9, 9), -3), 103) for each in at[pid])
        at[pid] = x, y
        points.append({**row, "ts": row["ts"] // 40 * 40, "pid": pid, "x": x, "y": y})
    return points, list(case.ranges)


def fenced(dwell_us: int | None = 300, partitions: int = 3) -> Flow:
    return POINTS.geofence(
        RANGES,
        BOX,
        object="pid",
        id="rid",
        action="action",
        grid=GRID,
        dwell_s=None if dwell_us is None else dwell_us / 1e6,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    "on", ["reference", "local", "simulated", pytest.param("spark", marks=pytest.mark.slow)], ids=str
)
def test_every_event_happens_once_whatever_moves(on: str) -> None:
    points, ranges = walks(seed=3)
    sources = {
        "points": RowSource(points, arrow_schema(POINTS.schema), 40),
        "ranges": RowSource(ranges, arrow_schema(RANGES.schema), 40),
    }
    options: dict[str, Any] = {"topology": "cores:3"} if on == "simulated" else {}
    run = start(Job.of("fences", [fenced().sink("found")], sources), on=on, workers=3, policy="round-robin", **options)

    def disturb(run: Run, event: EpochCommitted) -> None:
        if on == "reference":
            run.rebind(shuffled(run.graph, 3, event.epoch, event.snapshot.partitioning))

    run.wait(disturb)
    expected = events_of(points, ranges, dwell_us=300)
    assert {row["event"] for row in expected} == {"enter", "leave", "dwell"}
    times = {"happened": pa.timestamp("us"), "entered": pa.timestamp("us")}
    types = {"query": pa.string(), "pid": pa.int64(), "rid": pa.int64(), "event": pa.string(), **times}
    table = pa.Table.from_pylist([{"query": "found", **row} for row in expected], pa.schema(types))
    assert differences(result_tables(run), {"found": table}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"object": "x"},
            "geofence on stream 'points' needs columns of type int64, string, bool, timestamp; 'x' is float64",
            id="an object by a float",
        ),
        pytest.param(
            {"dwell_s": 0},
            "geofence on stream 'points' needs a positive number of seconds; got 0",
            id="no time to dwell",
        ),
    ],
)
def test_what_cannot_be_is_rejected(changes: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"object": "pid", "id": "rid", "grid": GRID} | changes
    with pytest.raises(GraphError) as caught:
        POINTS.geofence(RANGES, BOX, **options)
    assert str(caught.value) == message


def test_an_object_and_a_fence_may_have_one_name() -> None:
    flow = POINTS.select("ts", "x", "y", id=col("pid")).geofence(
        RANGES.select("ts", "x0", "y0", "x1", "y1", id=col("rid")), BOX, object="id", id="id", grid=GRID
    )
    assert flow.schema.names == ("id", "id_fence", "event", "happened", "entered")
