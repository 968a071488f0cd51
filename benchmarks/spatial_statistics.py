"""What the statistics behind the policy `swarm` cost: nanoseconds per point, and bytes in a report.

    python benchmarks/spatial_statistics.py [--quick]

Points and rectangles of side 0.16 % are uniform in a space of side 1, which is 100 x 100 cells in 22 tiles. Counts are
compared with NumPy's before anything is measured. Counting and matching take turns, on one core in one process, both in
blocks, as a run does them.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from spatial_engines import GRID, matcher, range_rows
from spatial_matching import rectangles
from spread import Spread
from spread import text as spread_text
from table import plain

from shoal.experiments.machine import described, sentence
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


def blocks_of(cells: np.ndarray) -> list[PlacedRows]:
    nothing = np.zeros(0, np.int64)
    parts = [cells[at : at + BLOCK] for at in range(0, cells.size, BLOCK)]
    return [PlacedRows.of(GRID.columns, each, nothing, nothing, np.zeros(0, bool)) for each in parts]


def ranges_of(box: np.ndarray) -> PlacedRows:
    """All rows of ranges, one for each cell."""
    of_range, cells = covered(GRID, box)
    first = cells[np.searchsorted(of_range, np.arange(len(box)))][of_range]
    return PlacedRows.of(GRID.columns, np.zeros(0, np.int64), cells, first, np.zeros(cells.size, bool))


def checked(counts: TileCounts, owners: np.ndarray, cells: np.ndarray) -> None:
    """Exit unless every tile has counted its points."""
    expected = np.bincount(owners[cells], minlength=TILES)
    for came, number in zip(counts.arrivals(), range(TILES), strict=True):
        if came.rows[POINTS].sum() != expected[number] or came.columns[POINTS].sum() != expected[number]:
            raise SystemExit(f"tile {number} has counted {came.rows[POINTS].sum()} points, not {expected[number]}")


def each_ns(call: Callable[[], Any], rows: int) -> float:
    began_s = time.perf_counter()
    call()
    return (time.perf_counter() - began_s) / rows * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the points, one repetition")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    points, ranges, repeat = (300_000, 20_000, 1) if options.quick else (3_000_000, 200_000, 5)
    draw = np.random.default_rng(1)
    x, y, box = draw.random(points), draw.random(points), rectangles(draw, ranges)
    owners = painted(GRID.columns, GRID.rows, dict(enumerate(halvings(GRID.columns, GRID.rows, TILES))))
    cells, placed = cells_of(GRID, x, y), ranges_of(box)
    parts, match = blocks_of(cells), matcher(RangeTable.of(range_rows(box)).ready())
    counts = TileCounts(TileBorders.of(owners, GRID.columns))
    for each in (*parts, placed):
        counts.add(each)
    checked(counts, owners, cells)
    report = sum(len(json.dumps(vars(TileReport.of(came)))) for came in counts.arrivals())
    match(x[:BLOCK], y[:BLOCK])
    blocks = range(0, points, BLOCK)
    counting, ranging, matching = list[float](), list[float](), list[float]()
    for _ in range(repeat):
        counting.append(each_ns(lambda: [counts.add(each) for each in parts], points))
        ranging.append(each_ns(lambda: counts.add(placed), placed.ranges.size))
        matching.append(each_ns(lambda: [match(x[at : at + BLOCK], y[at : at + BLOCK]) for at in blocks], points))
    shares = [100 * counted / matched for counted, matched in zip(counting, matching, strict=True)]
    spreads = {"count a point": counting, "count a row of a range": ranging, "match a point": matching}
    print(sentence(described()))
    print(plain(["", "ns"], [[name, spread_text(Spread.of(each).data())] for name, each in spreads.items()]))
    print(f"counting takes {spread_text(Spread.of(shares).data())} % of the time of matching")
    print(f"a report of {TILES} tiles: {report:,} bytes of JSON")
    print(f"{NUMBERS_PER_CELL} numbers of 8 bytes for each cell: {GRID.cells * NUMBERS_PER_CELL * 8:,} bytes")
    print(f"2 numbers of 8 bytes for each of {WORKERS} workers: {WORKERS * 16:,} bytes")


if __name__ == "__main__":
    main()
