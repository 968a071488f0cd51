"""What the operations of the policy `swarm` take: those of routers and the coordinator, and those of workers.

22 rectangles of 100 x 100 cells, as many workers. A router looks a point up in a table from cells to instances, and a
change is another table. The coordinator takes the reports of workers, closes the round and decides.
"""

from collections.abc import Callable, Sequence

import numpy as np

from measures.outcome import checked
from measures.spatial.indexes import GRID, range_rows
from measures.spatial.matching import on_one_core, rectangles, timed
from shoal.experiments.experiment import TrialOutcome
from shoal.kernels.spatial.coverage import cells_of, covered
from shoal.kernels.spatial.range_table import RangeTable, merged_ranges
from shoal.kernels.spatial.statistics import PartitionStatistics
from shoal.kernels.spatial.tile_counts import PlacedRows, TileBorders, TileCounts
from shoal.model.control.partitioning import instance_id
from shoal.model.query.graph import OperatorId
from shoal.model.spatial.arrivals import TileArrivals
from shoal.model.spatial.tiles import halvings, painted
from shoal.policies.partitioning.swarm.plane import Plane, PlanePartition
from shoal.policies.partitioning.swarm.reduction import reduction
from shoal.policies.partitioning.swarm.rounds import Swarm, SwarmMemory
from shoal.runtimes.spark.tasks.reports import TileReport

WORKERS = 22
TURNS = 30
OPERATOR = OperatorId("match")


def operations(points: int = 1_000_000, ranges: int = 200_000, moved: int = 10_000) -> TrialOutcome:
    """Microseconds of each operation, medians of 30 turns; `moved`: the ranges of a partition that is received."""
    on_one_core()
    draw = np.random.default_rng(1)
    crowd = draw.random(points) < 0.4  # a hotspot in a corner
    x, y = (np.where(crowd, 0.15 * each, each) for each in (draw.random(points), draw.random(points)))
    box = rectangles(draw, ranges)
    tiles = halvings(GRID.columns, GRID.rows, WORKERS)
    owners = painted(GRID.columns, GRID.rows, dict(enumerate(tiles)))
    came = _arrivals(owners, x, y, box)
    reports = [TileReport.of(each) for each in came]
    wrong = [] if _routed(owners, x, y) == [int(each.rows[0].sum()) for each in came] else ["points routed otherwise"]
    received = _received(reports)
    plane = Plane([_partition(number, each.closing()) for number, each in enumerate(received)], WORKERS)
    found = reduction(plane)
    if found is None or found.cut is None:
        return checked({}, ["no reduction was found in a hotspot"])
    cut = found.cut
    stored, arriving = RangeTable.of(range_rows(box[moved:])).ready(), RangeTable.of(range_rows(box[:moved], ranges))
    halves = {**dict(enumerate(tiles)), **dict(zip((0, WORKERS), tiles[0].cut("row", tiles[0].top + 1), strict=True))}
    return checked(
        {
            "route_point_ns": 1000 * _us(lambda: owners[cells_of(GRID, x, y)]) / points,
            "update_index_us": _us(lambda: painted(GRID.columns, GRID.rows, halves)),
            "receive_costs_us": _us(lambda: _received(reports)),
            "decide_us": _us(lambda: Swarm().decided(SwarmMemory(), _fresh(plane), 15.0)),
            "close_round_us": _us(lambda: [each.closing() for each in received]),
            "find_reduction_us": _us(lambda: reduction(_fresh(plane))),
            "cut_statistics_us": _us(lambda: plane.cut(cut, found.target)),
            "receive_partition_us": _us(lambda: merged_ranges([stored, arriving])),
        },
        wrong,
    )


def _us(call: Callable[[], object]) -> float:
    """Median microseconds of a call; the first is left out, since it may compile."""
    call()
    return float(np.median([timed(call)[0] for _ in range(TURNS)])) * 1e6


def _fresh(plane: Plane) -> Plane:
    """The same plane without the costs that it has remembered."""
    return Plane(plane.partitions, plane.workers)


def _partition(number: int, statistics: PartitionStatistics) -> PlanePartition:
    return PlanePartition(instance_id(OPERATOR, number), number, statistics)


def _received(reports: Sequence[TileReport]) -> list[PartitionStatistics]:
    """The statistics with the arrivals of all reports."""
    arrivals = [each.arrivals() for each in reports]
    return [PartitionStatistics.none(each.tile).with_arrivals(each) for each in arrivals]


def _arrivals(owners: np.ndarray, x: np.ndarray, y: np.ndarray, box: np.ndarray) -> list[TileArrivals]:
    of_range, cells = covered(GRID, box)
    first = cells[np.searchsorted(of_range, np.arange(len(box)))][of_range]
    counts = TileCounts(TileBorders.of(owners, GRID.columns))
    begun = np.zeros(cells.size, bool)
    counts.add(PlacedRows.of(GRID.columns, cells_of(GRID, x, y), cells, first, begun))
    return list(counts.arrivals())


def _routed(owners: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[int]:
    found: list[int] = np.bincount(owners[cells_of(GRID, x, y)], minlength=WORKERS).tolist()
    return found
