"""A small job of points and changing ranges, and what it must find, by brute force."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from tests.runtimes.local.row_source import RowSource

from shoal.connectors.sources.generator import Generator
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.schema import Schema
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import rectangle
from shoal.session.job import Job

Row = dict[str, Any]
POINT = {"ts": "timestamp", "pid": "int64", "x": "float64", "y": "float64"}
RANGE = {"ts": "timestamp", "rid": "int64", "action": "string"} | dict.fromkeys(("x0", "y0", "x1", "y1"), "float64")
POINTS, RANGES = Stream("points", POINT, time="ts"), Stream("ranges", RANGE, time="ts")
GRID = Grid((0.0, 0.0, 100.0, 100.0), 10, 8)
BOX = rectangle("x0", "y0", "x1", "y1")
FOREVER = 1 << 60


@dataclass(frozen=True)
class GivenEvents:
    """The rows of a table as events."""

    table: pa.Table

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        (batch,) = self.table.slice(start, stop - start).combine_chunks().to_batches()
        return batch


@dataclass(frozen=True)
class SpatialCase:
    """Points and rows of ranges, each in the order in which they are read."""

    points: Sequence[Row]
    ranges: Sequence[Row]

    def job(self, *, partitions: int = 4, at_once: int = 20) -> Job:
        """The job that finds points in ranges by their ids and versions."""
        sources = {
            "points": RowSource(self.points, arrow_schema(Schema.of(POINT)), at_once),
            "ranges": RowSource(self.ranges, arrow_schema(Schema.of(RANGE)), at_once),
        }
        return Job.of("spatial", [found(partitions).select("ts", "pid", "rid").sink("found")], sources)

    def timed_job(self, seconds: float = 2.0) -> Job:
        """The same job, with rows that come one after another within some seconds."""
        tables = {
            "points": pa.Table.from_pylist(self.points, arrow_schema(Schema.of(POINT))),
            "ranges": pa.Table.from_pylist(self.ranges, arrow_schema(Schema.of(RANGE))),
        }
        sources = {
            name: Generator(GivenEvents(table), table.num_rows, table.num_rows / seconds)
            for name, table in tables.items()
        }
        return replace(self.job(), sources=sources)

    def expected(self) -> dict[str, pa.Table]:
        """The result table by brute force."""
        rows = [
            {"query": "found", "ts": point["ts"], "pid": point["pid"], "rid": range_["rid"]}
            for point in self.points
            for range_, since, until in lives(self.ranges)
            if since <= point["ts"] < until and contains(range_, point)
        ]
        types = {"query": pa.string(), "ts": pa.timestamp("us"), "pid": pa.int64(), "rid": pa.int64()}
        return {"found": pa.Table.from_pylist(rows, pa.schema(types))}


def found(partitions: int = 4) -> Flow:
    """The points of the stream `points` in the ranges of `ranges`."""
    return POINTS.match_ranges(RANGES, BOX, grid=GRID, id="rid", action="action", partitions=partitions)


def contains(range_: Row, point: Row) -> bool:
    """Whether a box contains a point, borders included."""
    inside_x: bool = range_["x0"] <= point["x"] <= range_["x1"]
    inside_y: bool = range_["y0"] <= point["y"] <= range_["y1"]
    return inside_x and inside_y


def lives(rows: Sequence[Row]) -> list[tuple[Row, int, int]]:
    """Every version of every range, when it begins and when it ends."""
    made: list[tuple[Row, int, int]] = []
    by_id: dict[int, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_id[row["rid"]][row["ts"]].append(row)
    for at in by_id.values():
        current: Row | None = None
        for time in sorted(at):
            if current is not None:
                made.append((current, current["ts"], time))
            inserted = [row for row in at[time] if row["action"] != "delete"]
            current = max(inserted, key=lambda row: tuple(row.values()), default=None)
        if current is not None:
            made.append((current, current["ts"], FOREVER))
    return made


def spatial_case(seed: int, points: int = 300, changes: int = 200) -> SpatialCase:
    """Random points, also on borders and outside of the space, and random inserts, updates and deletes."""
    draw = random.Random(seed)

    def coordinate() -> float:
        return draw.choice([draw.uniform(-5, 105), float(draw.randint(0, 10) * 10)])

    return SpatialCase(
        [{"ts": 10 * i, "pid": i, "x": coordinate(), "y": coordinate()} for i in range(points)],
        sorted((_change(draw, coordinate(), coordinate(), 10 * points) for _ in range(changes)), key=lambda r: r["ts"]),
    )


def _change(draw: random.Random, x: float, y: float, until: int) -> Row:
    action = draw.choice(["insert", "insert", "delete"])
    side = {"x0": x, "y0": y, "x1": x + draw.choice([0, 5, 30]), "y1": y + draw.choice([0, 10, 40])}
    return {"ts": draw.randrange(until), "rid": draw.randrange(40), "action": action, **side}
