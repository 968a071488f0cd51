"""How fast points find the rectangles that contain them, and how fast rectangles come and go.

    python benchmarks/spatial_matching.py [--ranges 1000000] [--points 1000000] [--repeat 3] [--keep]

Points and rectangles are uniform in a space of side 1; a rectangle has side 0.0016 (0.16 %). Everything runs on one
core, in one process. All engines are built from the same rectangles, and their pairs are compared for the same points
before anything is measured. Then they take turns, each with the part of the points that it can do in a few seconds.
A time begins with the coordinates of points and ends with all pairs of point and rectangle.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import record
import table
from spatial_engines import ENGINES, Engine, Match, Pairs, matcher, range_rows
from spread import Spread
from spread import text as spread_text

from shoal.experiments.machine import described, sentence
from shoal.kernels.spatial.range_run import BOX, ID, UNTIL
from shoal.kernels.spatial.range_table import RangeTable

SIDE = 0.0016
COMPARED = 5_000
"""Points whose pairs are compared."""
Draw = np.random.Generator


def rectangles(draw: Draw, count: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Rectangles whose middles lie between two limits in both directions."""
    middle = draw.uniform(low, high, (count, 2))
    return np.column_stack([middle - SIDE / 2, middle + SIDE / 2])


def sorted_pairs(pairs: Pairs) -> np.ndarray:
    both = np.column_stack(pairs).astype(np.int64)
    return both[np.lexsort((both[:, 1], both[:, 0]))]


def check(name: str, pairs: Pairs, expected: np.ndarray) -> None:
    """Exit unless an engine has found exactly the expected pairs."""
    found = sorted_pairs(pairs)
    if not np.array_equal(found, expected):
        raise SystemExit(f"{name} has found {len(found)} pairs that are not the {len(expected)} expected ones")


def brute_force(box: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The pairs of some points, each compared with all rectangles."""
    found = []
    for point, (across, up) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        inside = (box[:, 0] <= across) & (across <= box[:, 2]) & (box[:, 1] <= up) & (up <= box[:, 3])
        found += [(point, each) for each in np.flatnonzero(inside).tolist()]
    return np.array(found, np.int64).reshape(-1, 2)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def compared(box: np.ndarray, points: int, repeat: int) -> list[dict[str, Any]]:
    """Build all engines, compare their pairs, and measure them in turns."""
    draw = np.random.default_rng(2)
    x, y = draw.random(points), draw.random(points)
    few = min(COMPARED, points)
    built = [(engine, *timed(lambda engine=engine: engine.build(box))) for engine in ENGINES]
    expected = sorted_pairs(built[0][2](x[:few], y[:few]))
    some = min(few, 200)
    check("the first engine", tuple(expected[expected[:, 0] < some].T), brute_force(box, x[:some], y[:some]))
    for engine, _, match in built:
        size = min(few, _size(engine, points))
        check(engine.name, match(x[:size], y[:size]), expected[expected[:, 0] < size])
    rates: dict[str, list[float]] = {engine.name: [] for engine in ENGINES}
    counts: dict[str, float] = {}
    for _ in range(repeat):
        for engine, _, match in built:
            size = _size(engine, points)
            took_s, pairs = timed(lambda match=match, size=size: match(x[:size], y[:size]))
            rates[engine.name].append(size / took_s / 1e6)
            counts[engine.name] = len(pairs[0]) / size
    return [
        {
            "engine": engine.name,
            "points": _size(engine, points),
            "build_s": round(build_s, 3),
            "rate": Spread.of(rates[engine.name]).data(),
            "pairs_per_point": round(counts[engine.name], 3),
        }
        for engine, build_s, _ in built
    ]


def _size(engine: Engine, points: int) -> int:
    return max(100, int(points * engine.share))


def rate_of(match: Match, x: np.ndarray, y: np.ndarray, repeat: int) -> dict[str, Any]:
    """Millions of points per second."""
    match(x, y)
    return Spread.of([x.size / timed(lambda: match(x, y))[0] / 1e6 for _ in range(repeat)]).data()


def changes(box: np.ndarray, block: int, blocks: int, repeat: int) -> dict[str, Any]:
    """Insert and delete blocks of rectangles; the table must then find what a new one finds."""
    draw = np.random.default_rng(3)
    before = RangeTable.of(range_rows(box)).ready()
    fresh = rectangles(draw, block * blocks)
    whole = np.concatenate([box, fresh])
    gone = draw.permutation(len(whole))[: block * blocks]
    added = [range_rows(fresh[i * block :][:block], len(box) + i * block) for i in range(blocks)]
    everything = range_rows(whole)
    turn = np.full(len(whole), -1)
    turn[gone] = np.arange(gone.size) // block
    turn_of_row = turn[everything[ID]]
    removed = [everything.take(np.flatnonzero(turn_of_row == i)) for i in range(blocks)]
    removed = [rows.with_columns(**{UNTIL: np.full(len(rows), 0)}) for rows in removed]
    inserts, deletes, longest, mixed = [], [], 0.0, 0
    now = before
    for _ in range(repeat):
        now, took = before, []
        for rows in added:
            took_s, now = timed(lambda now=now, rows=rows: now.begun(rows))
            took.append(took_s)
        inserts.append(block * blocks / sum(took) / 1e6)
        longest, mixed, took = max(longest, *took), len(now.runs), []
        grown = now
        for rows in removed:
            took_s, now = timed(lambda now=now, rows=rows: now.ended(rows).without_dead(0))
            took.append(took_s)
        deletes.append(block * blocks / sum(took) / 1e6)
        longest = max(longest, *took)
    x, y = draw.random(COMPARED), draw.random(COMPARED)
    left = np.flatnonzero(turn < 0)
    at, rows = matcher(RangeTable.of(range_rows(whole[left])).ready())(x, y)
    check("the changed table", matcher(now)(x, y), sorted_pairs((at, left[rows])))
    more = draw.random(100_000), draw.random(100_000)
    return {
        "block": block,
        "inserts": Spread.of(inserts).data(),
        "deletes": Spread.of(deletes).data(),
        "longest_ms": round(longest * 1e3, 1),
        "runs": mixed,
        "rate_with_runs": rate_of(matcher(grown), *more, repeat),
    }


def elsewhere(points: int, count: int, repeat: int) -> list[dict[str, Any]]:
    """Points and ranges of one quarter of the space: alone, with ranges in the others, and many in one cell."""
    draw = np.random.default_rng(4)
    here = rectangles(draw, count // 4, 0.0, 0.5)
    others = np.concatenate([here, rectangles(draw, count, 0.51, 1.0)])
    crowd = np.concatenate([here, rectangles(draw, count // 2, 0.001, 0.009)])
    x, y = draw.uniform(0, 0.5, (2, points))
    hot = draw.uniform(0, 0.01, (2, points // 4))
    found = []
    for name, box, place in (
        (f"{len(here):,} ranges in their quarter of the space", here, (x, y)),
        (f"the same, and {count:,} ranges in another quarter", others, (x, y)),
    ):
        found.append({"case": name, "rate": rate_of(matcher(RangeTable.of(range_rows(box)).ready()), *place, repeat)})
    match = matcher(RangeTable.of(range_rows(_small(crowd, len(here)))).ready())
    pairs = len(match(*hot)[0]) / hot.shape[1]
    case = f"points of one cell with {count // 2:,} ranges of a tenth of the side, {pairs:.3g} pairs per point"
    return [*found, {"case": case, "rate": rate_of(match, *hot, repeat)}]


def _small(box: np.ndarray, first: int) -> np.ndarray:
    """The boxes from the first on with a tenth of their side."""
    middle, half = (box[:, :2] + box[:, 2:]) / 2, np.where(np.arange(len(box)) < first, SIDE / 2, SIDE / 20)[:, None]
    return np.column_stack([middle - half, middle + half])


def memory(box: np.ndarray) -> dict[str, Any]:
    """Bytes of the table per rectangle, and what of it is rectangles, and layout."""
    made = RangeTable.of(range_rows(box)).ready()
    layout = sum(run.layout.nbytes for run in made.runs if run.layout is not None)
    boxes = sum(run.rows[BOX].nbytes for run in made.runs)
    rows = len(made) / len(box)
    parts = {"rows": rows, "bytes": made.nbytes / len(box), "boxes": boxes / len(box), "layout": layout / len(box)}
    return {name: round(value, 2) for name, value in parts.items()}


def rows_of_table(results: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    ours = results[0]["rate"]["median"]
    header = ["engine", "M points/s", "points", "built in, s", "Shoal is faster by"]
    rows = [
        [
            each["engine"],
            spread_text(each["rate"]),
            f"{each['points']:,}",
            f"{each['build_s']:.2f}",
            f"{ours / each['rate']['median']:.3g}",
        ]
        for each in results
    ]
    return header, rows


def rows_of_changes(results: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["ranges per block", "M inserts/s", "M deletes/s", "longest block, ms", "runs", "M points/s with them"]
    rows = [
        [
            f"{each['block']:,}",
            spread_text(each["inserts"]),
            spread_text(each["deletes"]),
            f"{each['longest_ms']:.0f}",
            str(each["runs"]),
            spread_text(each["rate_with_runs"]),
        ]
        for each in results
    ]
    return header, rows


def sections(measured: dict[str, Any]) -> list[str]:
    """The tables for docs/benchmarks.md."""
    found, kept = measured["engines"], measured["memory"]
    cases = [[each["case"], spread_text(each["rate"])] for each in measured["elsewhere"]]
    shown = f"{measured['ranges']:,} rectangles of side 0.16 %, {found[0]['pairs_per_point']:.3g} pairs per point"
    size = (
        f"A rectangle takes {kept['bytes']:.0f} bytes in {kept['rows']:.2f} rows, one for each cell that it overlaps: "
        f"{kept['boxes']:.0f} for the coordinates in these rows, {kept['layout']:.1f} for the layout, the rest for "
        f"instance, cell, begin, end and id. That is {kept['bytes'] - 32:.0f} beside the 32 of the rectangle."
    )
    return [
        f"{shown}; median of {measured['repeat']} runs (smallest-largest).",
        table.markdown(*rows_of_table(found)),
        table.markdown(*rows_of_changes(measured["changes"])),
        table.markdown(["points", "M points/s"], cases),
        size,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="few ranges and points, once")
    parser.add_argument("--ranges", type=int, help="rectangles (default 1000000; quick: 50000)")
    parser.add_argument("--points", type=int, help="points (default 1000000; quick: 20000)")
    parser.add_argument("--repeat", type=int, help="runs of each (default 3; quick: 1); the median counts")
    options = parser.parse_args()
    count = options.ranges or (50_000 if options.quick else 1_000_000)
    points = options.points or (20_000 if options.quick else 1_000_000)
    repeat = options.repeat or (1 if options.quick else 3)
    machine = described()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(sentence(machine), flush=True)
    box = rectangles(np.random.default_rng(1), count)
    few = range_rows(box[:1000])
    matcher(RangeTable.of(few).ready().ended(few))(box[:10, 0], box[:10, 1])  # compiles
    measured: dict[str, Any] = {"ranges": count, "repeat": repeat, "engines": compared(box, points, repeat)}
    print(table.plain(*rows_of_table(measured["engines"])), flush=True)
    blocks = [(10_000, 30), (100_000, 8)] if not options.quick else [(1_000, 10)]
    measured["changes"] = [changes(box, block, number, repeat) for block, number in blocks]
    print(table.plain(*rows_of_changes(measured["changes"])), flush=True)
    measured["elsewhere"] = elsewhere(points, count, repeat)
    measured["memory"] = memory(box)
    print("\n".join(sections(measured)[3:]))
    print(f"written to {record.written('spatial_matching', measured, machine, options)}")


if __name__ == "__main__":
    main()
