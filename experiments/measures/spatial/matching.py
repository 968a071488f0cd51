"""How fast points find the rectangles that contain them, and how fast rectangles come and go.

Points and rectangles are uniform in a space of side 1; a rectangle has side 0.0016 (0.16 %). Everything runs on one
core, in one process. A time begins with the coordinates of points and ends with all pairs of point and rectangle.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from measures.outcome import checked
from measures.spatial.indexes import INDEXES, Match, Pairs, matcher, range_rows
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.kernels.columns.table import RowTable
from shoal.kernels.spatial.range_run import BOX, ID, UNTIL
from shoal.kernels.spatial.range_table import RangeTable

SIDE = 0.0016
COMPARED = 200
"""Points whose pairs are compared with those of all rectangles, one by one."""
Draw = np.random.Generator
T = TypeVar("T")


def index(index: str, ranges: int = 1_000_000, points: int = 1_000_000) -> TrialOutcome:
    """Build an index and match the part of the points that it can do in a few seconds."""
    if index not in INDEXES:
        raise ConfigError(f"index must be one of {', '.join(INDEXES)}; got {index!r}")
    on_one_core()
    chosen, draw = INDEXES[index], np.random.default_rng(2)
    box = rectangles(np.random.default_rng(1), ranges)
    x, y = draw.random(points), draw.random(points)
    chosen.build(box[:1000])(x[:10], y[:10])  # compiles
    build_s, match = timed(lambda: chosen.build(box))
    wrong = _differences(match(x[:COMPARED], y[:COMPARED]), _brute_force(box, x[:COMPARED], y[:COMPARED]))
    size = max(100, int(points * chosen.share))
    took_s, pairs = timed(lambda: match(x[:size], y[:size]))
    metrics = {"points_per_s": size / took_s, "build_s": build_s, "pairs_per_point": len(pairs[0]) / size}
    return checked(metrics, wrong)


def changes(block: int, blocks: int, ranges: int = 1_000_000) -> TrialOutcome:
    """Insert and delete blocks of rectangles; the table must then find what a new one finds.

    `points_per_s` is while the table still has `runs` of rectangles that are not merged yet.
    """
    on_one_core()
    draw = np.random.default_rng(3)
    box = rectangles(np.random.default_rng(1), ranges)
    _compile(box)
    fresh = rectangles(draw, block * blocks)
    whole = np.concatenate([box, fresh])
    turn = np.full(len(whole), -1)
    gone = draw.permutation(len(whole))[: block * blocks]
    turn[gone] = np.arange(gone.size) // block
    now = RangeTable.of(range_rows(box)).ready()
    inserts_s, deletes_s = [], []
    for number in range(blocks):
        rows = range_rows(fresh[number * block :][:block], len(box) + number * block)
        took_s, now = timed(partial(now.begun, rows))
        inserts_s.append(took_s)
    grown, everything = now, range_rows(whole)
    turn_of_row = turn[everything[ID]]
    for number in range(blocks):
        removed = everything.take(np.flatnonzero(turn_of_row == number))
        ended = removed.with_columns(**{UNTIL: np.full(len(removed), 0)})
        took_s, now = timed(partial(_without, now, ended))
        deletes_s.append(took_s)
    x, y = draw.random(5_000), draw.random(5_000)
    left = np.flatnonzero(turn < 0)
    at, found = matcher(RangeTable.of(range_rows(whole[left])).ready())(x, y)
    metrics = {
        "inserts_per_s": block * blocks / sum(inserts_s),
        "deletes_per_s": block * blocks / sum(deletes_s),
        "longest_ms": max(*inserts_s, *deletes_s) * 1e3,
        "runs": len(grown.runs),
        "points_per_s": _rate(matcher(grown), draw.random(100_000), draw.random(100_000)),
    }
    return checked(metrics, _differences(matcher(now)(x, y), sorted_pairs((at, left[found]))))


def elsewhere(case: str, ranges: int = 1_000_000, points: int = 1_000_000) -> TrialOutcome:
    """Points and ranges of one quarter of the space: `alone`, with ranges in the `others`, or with a `crowd`.

    The crowd is ranges of a tenth of the side that lie with all points in one cell.
    """
    on_one_core()
    draw = np.random.default_rng(4)
    here = rectangles(draw, ranges // 4, 0.0, 0.5)
    x, y = draw.uniform(0, 0.5, (2, points))
    if case == "alone":
        box = here
    elif case == "others":
        box = np.concatenate([here, rectangles(draw, ranges, 0.51, 1.0)])
    elif case == "crowd":
        box = _small(np.concatenate([here, rectangles(draw, ranges // 2, 0.001, 0.009)]), len(here))
        x, y = draw.uniform(0, 0.01, (2, points // 4))
    else:
        raise ConfigError(f"case must be alone, others or crowd; got {case!r}")
    match = matcher(RangeTable.of(range_rows(box)).ready())
    few = slice(0, 50)
    wrong = _differences(match(x[few], y[few]), _brute_force(box, x[few], y[few]))
    return checked({"points_per_s": _rate(match, x, y), "pairs_per_point": len(match(x, y)[0]) / x.size}, wrong)


def memory(ranges: int = 1_000_000) -> TrialOutcome:
    """Bytes of the table per rectangle, and which of them are coordinates and layout; a row is for one cell."""
    box = rectangles(np.random.default_rng(1), ranges)
    made = RangeTable.of(range_rows(box)).ready()
    layout = sum(run.layout.nbytes for run in made.runs if run.layout is not None)
    return TrialOutcome(
        {
            "rows_per_range": len(made) / len(box),
            "bytes_per_range": made.nbytes / len(box),
            "bytes_per_range.coordinates": sum(run.rows[BOX].nbytes for run in made.runs) / len(box),
            "bytes_per_range.layout": layout / len(box),
        }
    )


def rectangles(draw: Draw, count: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Rectangles whose middles lie between two limits in both directions."""
    middle = draw.uniform(low, high, (count, 2))
    return np.column_stack([middle - SIDE / 2, middle + SIDE / 2])


def on_one_core() -> None:
    """Leave this process one core only, as the peers have one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """The seconds of a call, and what it returns."""
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def sorted_pairs(pairs: Pairs) -> np.ndarray:
    """Pairs in the order of points, then of rectangles."""
    both = np.column_stack(pairs).astype(np.int64)
    return both[np.lexsort((both[:, 1], both[:, 0]))]


def _differences(pairs: Pairs, expected: np.ndarray) -> list[str]:
    found = sorted_pairs(pairs)
    same = np.array_equal(found, expected)
    return [] if same else [f"{len(found)} pairs that are not the {len(expected)} expected ones"]


def _brute_force(box: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The pairs of some points, each compared with all rectangles."""
    found = []
    for point, (across, up) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        inside = (box[:, 0] <= across) & (across <= box[:, 2]) & (box[:, 1] <= up) & (up <= box[:, 3])
        found += [(point, each) for each in np.flatnonzero(inside).tolist()]
    return np.array(found, np.int64).reshape(-1, 2)


def _compile(box: np.ndarray) -> None:
    few, more = range_rows(box[:1000]), range_rows(box[1000:1100], 1000)
    matcher(_without(RangeTable.of(few).ready().begun(more), few))(box[:10, 0], box[:10, 1])


def _rate(match: Match, x: np.ndarray, y: np.ndarray) -> float:
    """Points per second, after a first call."""
    match(x, y)
    return x.size / timed(lambda: match(x, y))[0]


def _without(table: RangeTable, ended: RowTable) -> RangeTable:
    return table.ended(ended).without_dead(0)


def _small(box: np.ndarray, first: int) -> np.ndarray:
    """The boxes from the first on with a tenth of their side."""
    middle, half = (box[:, :2] + box[:, 2:]) / 2, np.where(np.arange(len(box)) < first, SIDE / 2, SIDE / 20)[:, None]
    return np.column_stack([middle - half, middle + half])
