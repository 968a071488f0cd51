"""What matching points with ranges costs in simulated time: by ranges nearby and by changes, not by other ranges."""

import pyarrow as pa
import pytest

from shoal.connectors.sources.generator import Generator
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.schema import not_null
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import rectangle
from shoal.runtimes.simulated.delay.state_dependent import WEIGHT_S
from shoal.session.job import Job
from shoal.session.run import start

COLUMNS = {"ts": "timestamp", "kind": "int64", "number": "int64", "x": "float64", "y": "float64"}
OURS = ("match_ranges", "met range", "matched range", "new range", "ended range")
"""The only operators that cost anything here."""
FACTOR = 1e6
"""All costs are multiplied by it, so that turns and tasks cost nothing in comparison."""


class Places:
    """Ranges of side 2 around some places, then points at 0.5, 0.5 of a space of 10 by 10 cells."""

    def __init__(self, ranges: list[tuple[float, float]], points: int) -> None:
        self.rows = [*((1, x, y) for x, y in ranges), *((0, 0.5, 0.5) for _ in range(points))]

    @staticmethod
    def schema() -> pa.Schema:
        types = {"timestamp": pa.timestamp("us"), "int64": pa.int64(), "float64": pa.float64()}
        return pa.schema({name: types[type_] for name, type_ in COLUMNS.items()})

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        kind, x, y = zip(*self.rows[start:stop], strict=True)
        columns = [list(range(start, stop)), kind, list(range(start, stop)), x, y]
        arrays = [pa.array(each, type_) for each, type_ in zip(columns, self.schema().types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema())


def work_s(ranges: list[tuple[float, float]], points: int, topology: str = "cores:1") -> float:
    """What all instances cost together, without what the machine adds to every turn."""
    feed = Stream("places", not_null(COLUMNS), time="ts")
    around = {"left": col("x") - 1.0, "low": col("y") - 1.0, "right": col("x") + 1.0, "up": col("y") + 1.0}
    standing = feed.filter(col("kind") == 1).select("ts", range=col("number"), **around)
    found = feed.filter(col("kind") == 0).match_ranges(
        standing, rectangle("left", "low", "right", "up"), grid=Grid((0.0, 0.0, 100.0, 100.0), 10, 10), id="range"
    )
    events = Places(ranges, points)
    query = found.select("ts", "number", "range").sink("found")
    job = Job.of("places", [query], {"places": Generator(events, len(events.rows))})
    total = 0.0

    def take(_: object, epoch: object) -> None:
        nonlocal total
        total += sum(load.cost_s for load in epoch.snapshot.loads.values())  # type: ignore[attr-defined]

    free = [name for name in WEIGHT_S if name not in OURS]
    conf = {"weights": ",".join(f"{name}=0s" for name in free), "work_factor": str(FACTOR)}
    start(job, on="simulated", topology=topology, conf=conf).wait(take)
    return total / FACTOR


HERE, ELSEWHERE = (0.5, 0.5), (55.0, 55.0)


def test_a_point_costs_by_the_ranges_that_it_meets_and_that_contain_it() -> None:
    change_s = work_s([HERE] * 10, 0)
    lookup_s, met_s, match_s = (WEIGHT_S[name] for name in ("match_ranges", "met range", "matched range"))
    assert work_s([HERE] * 10, 100) - change_s == pytest.approx(100 * (lookup_s + 10 * (met_s + match_s)))


def test_ranges_elsewhere_cost_a_point_nothing() -> None:
    change_s = work_s([ELSEWHERE] * 10, 0)
    assert work_s([ELSEWHERE] * 10, 100) - change_s == pytest.approx(100 * WEIGHT_S["match_ranges"])


def test_a_range_costs_once_for_every_cell_that_it_overlaps() -> None:
    inside, across = work_s([(5.0, 5.0)], 0), work_s([(10.0, 5.0)], 0)
    assert inside == pytest.approx(WEIGHT_S["new range"], rel=0.001)
    assert across == pytest.approx(2 * inside, rel=0.001)


def test_executors_of_spark_cost_the_same() -> None:
    ranges = [HERE] * 10
    assert work_s(ranges, 100, "spark:2x1") == pytest.approx(work_s(ranges, 100), rel=0.001)
