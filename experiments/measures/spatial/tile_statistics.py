"""What the statistics behind the policy `swarm` cost: nanoseconds per point, and bytes in a report.

Points and rectangles of side 0.16 % are uniform in a space of side 1, which is 100 x 100 cells in 22 tiles. Counting
and matching take turns, on one core in one process, both in blocks, as a run does them.
"""

import json
from collections.abc import Sequence

import numpy as np

from measures.outcome import checked
from measures.spatial.indexes import GRID, matcher, range_rows
from measures.spatial.matching import on_one_core, rectangles, timed
from shoal.experiments.experiment import TrialOutcome
from shoal.kernels.spatial.coverage import cells_of, covered
from shoal.kernels.spatial.range_table import RangeTable
from shoal.kernels.spatial.tile_counts import PlacedRows, TileBorders, TileCounts
from shoal.model.spatial.arrivals import POINTS
from shoal.model.spatial.tiles import halvings, painted
from shoal.runtimes.spark.tasks.reports import TileReport

TILES = WORKERS = 22
BLOCK = 100_000
NUMBERS_PER_CELL = 5
"""What the study's centralised alternative sends for every cell; two for each worker is what SWARM sends."""


def counting(points: int = 3_000_000, ranges: int = 200_000) -> TrialOutcome:
    """Count points and ranges by tile, and match the same points."""
    on_one_core()
    draw = np.random.default_rng(1)
    x, y, box = draw.random(points), draw.random(points), rectangles(draw, ranges)
    owners = painted(GRID.columns, GRID.rows, dict(enumerate(halvings(GRID.columns, GRID.rows, TILES))))
    cells, placed = cells_of(GRID, x, y), _ranges_of(box)
    parts, match = _blocks_of(cells), matcher(RangeTable.of(range_rows(box)).ready())
    counts = TileCounts(TileBorders.of(owners, GRID.columns))
    _add_all(counts, [*parts, placed])
    wrong = _differences(counts, owners, cells)
    report = sum(len(json.dumps(vars(TileReport.of(came)))) for came in counts.arrivals())
    match(x[:BLOCK], y[:BLOCK])
    blocks = range(0, points, BLOCK)
    counting_s, _ = timed(lambda: _add_all(counts, parts))
    ranging_s, _ = timed(lambda: counts.add(placed))
    matching_s, _ = timed(lambda: [match(x[at : at + BLOCK], y[at : at + BLOCK]) for at in blocks])
    metrics = {
        "count_point_ns": counting_s / points * 1e9,
        "count_range_row_ns": ranging_s / placed.ranges.size * 1e9,
        "match_point_ns": matching_s / points * 1e9,
        "counting_share_percent": 100 * counting_s / matching_s,
        "report_bytes": report,
        "centralised_bytes": GRID.cells * NUMBERS_PER_CELL * 8,
        "study_bytes": WORKERS * 16,
    }
    return checked(metrics, wrong)


def _add_all(counts: TileCounts, parts: Sequence[PlacedRows]) -> None:
    for each in parts:
        counts.add(each)


def _blocks_of(cells: np.ndarray) -> list[PlacedRows]:
    nothing = np.zeros(0, np.int64)
    parts = [cells[at : at + BLOCK] for at in range(0, cells.size, BLOCK)]
    return [PlacedRows.of(GRID.columns, each, nothing, nothing, np.zeros(0, bool)) for each in parts]


def _ranges_of(box: np.ndarray) -> PlacedRows:
    """All rows of ranges, one for each cell."""
    of_range, cells = covered(GRID, box)
    first = cells[np.searchsorted(of_range, np.arange(len(box)))][of_range]
    return PlacedRows.of(GRID.columns, np.zeros(0, np.int64), cells, first, np.zeros(cells.size, bool))


def _differences(counts: TileCounts, owners: np.ndarray, cells: np.ndarray) -> list[str]:
    """Where the counts of tiles differ from NumPy's."""
    expected = np.bincount(owners[cells], minlength=TILES)
    return [
        f"tile {number} has counted {came.rows[POINTS].sum()} points, not {expected[number]}"
        for came, number in zip(counts.arrivals(), range(TILES), strict=True)
        if came.rows[POINTS].sum() != expected[number] or came.columns[POINTS].sum() != expected[number]
    ]
