"""The cost of an event as windows grow: range joins, patterns, count windows and sessions, doubled in size each time.

    python benchmarks/window_growth.py --quick

Kernels alone, in this process and on one core: no Spark, no files. The number of events stays, and so does the number
of results where the case allows it; every result is checked against DuckDB or plain Python before its time counts.
Time is CPU time, which says more than a clock on a busy machine. The figure is docs/figures/window_growth.png, drawn by
`report.py`.
"""

import argparse
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import figure
import numpy as np
import pyarrow as pa
import record
import table
from spread import Spread
from spread import text as spread_text

import shoal
from shoal.compiler.lane import NOW
from shoal.compiler.program import compile_graph
from shoal.compiler.router import Router
from shoal.experiments.machine import described, sentence
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US
from shoal.model.query.window import sessions
from shoal.session.digest import differences

RATE = 1_000
"""Events per second of event time."""
KEYS = 100
EPOCH_ROWS = 10_000
SPAN = 1_000_000
"""Values of the joined column lie in 0 ... SPAN."""
PARTNERS = 2
"""Rows per row of the left side of a join."""
ENDS = 1_000
"""One row in this many of a key ends a pattern."""
PAUSE_S = 30
Rows = Mapping[str, pa.Table]


@dataclass
class OneWorker:
    """A graph run in this process with all of its state on one worker."""

    graph: shoal.Graph
    state: dict[int, Tables] = field(default_factory=lambda: defaultdict(dict))
    marks: dict[str, int] = field(default_factory=dict)
    results: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    state_rows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program = compile_graph(self.graph)
        self.binding = [0] * len(self.program.instances)

    def epoch(self, batches: Mapping[str, pa.RecordBatch]) -> None:
        """Process a batch of every stream."""
        router = Router(self.program, self.binding, self.marks, 0)
        after = dict(self.marks)
        for stream, batch in batches.items():
            router.take(stream, Block.from_arrow(batch.select(list(self.program.columns(stream)))))
            after[stream] = batch["ts"][-1].value
        self._advance(router, after)

    def drain(self) -> None:
        """Emit every open window."""
        router = Router(self.program, self.binding, self.marks, 0)
        self._advance(router, dict.fromkeys((*self.program.inputs, NOW), FOREVER_US))

    def tables(self) -> dict[str, pa.Table]:
        return {name: pa.Table.from_batches(batches) for name, batches in self.results.items()}

    def _advance(self, router: Router, after: dict[str, int]) -> None:
        for lane in (lane for lane in self.program.lanes if lane.kernel is not None):
            assert lane.kernel is not None
            come = [{parcel.table: parcel.content} for parcel in router.parcels() if parcel.lane == lane.number]
            fresh = lane.kernel.merged(come) if come else {}
            before_us, after_us = (lane.watermark_us(marks) for marks in (self.marks, after))
            self.state[lane.number], results = lane.advanced(self.state[lane.number], fresh, before_us, after_us)
            router.emit(lane, results)
        for name, batches in router.results.items():
            self.results[name] += batches
        self.marks = after
        self.state_rows.append(sum(len(rows) for tables in self.state.values() for rows in tables.values()))


@dataclass(frozen=True)
class Point:
    """A query with a window of some size, the events it reads, and the expected results."""

    window_rows: int
    query: shoal.Query
    events: Rows
    expected: Callable[[], Rows]

    @property
    def rows(self) -> int:
        return sum(rows.num_rows for rows in self.events.values())


@dataclass(frozen=True)
class Case:
    """A kind of query whose window grows."""

    name: str
    title: str
    point: Callable[[int, int], Point]
    """Rows in the window and number of events to a point."""


def times(number: int, per_s: float = RATE) -> pa.Array:
    return pa.array((np.arange(number) * 1_000_000 / per_s).astype(np.int64), pa.timestamp("us"))


def band_join(window_rows: int, number: int, band: float) -> Point:
    """Two streams, no equal key: pairs close in value and in time."""
    draw = np.random.default_rng(1)
    events = {
        side: pa.table({"ts": times(number, RATE / 2), "id": np.arange(number), "x": draw.uniform(0, SPAN, number)})
        for side in ("left", "right")
    }
    within_s = window_rows / RATE
    streams = [shoal.Stream(n, {"ts": "timestamp", "id": "int64", "x": "float64"}, time="ts") for n in events]
    pairs = streams[0].join(streams[1], within_s=(-within_s, within_s), band=("x", "x", -band, band))
    sql = f"""
        SELECT l.id, r.id AS id_right FROM left_ AS l JOIN right_ AS r ON r.x BETWEEN l.x - {band} AND l.x + {band}
        WHERE abs(epoch_us(r.ts) - epoch_us(l.ts)) <= {round(within_s * 1e6)}
    """
    return Point(
        window_rows, pairs.select("id", "id_right").sink("pairs"), events, lambda: {"pairs": asked(sql, events)}
    )


def narrowing(window_rows: int) -> float:
    """A band in which the number of partners of a row does not depend on the window."""
    return PARTNERS * SPAN / (2 * window_rows)


def pattern(window_rows: int, number: int) -> Point:
    """SEQ(A+ B) per key, reluctant: every B ends a match of the rows before it, as far as the window reaches."""
    draw = np.random.default_rng(2)
    keys = np.arange(number) % KEYS
    ends = draw.integers(0, ENDS, number) == 0
    events = {"rows": pa.table({"ts": times(number), "key": keys, "ends": ends.astype(np.int64)})}
    within_s = window_rows * KEYS / RATE
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "ends": "int64"}, time="ts")
    found = stream.key_by("key").match(
        "A+? B",
        within_s=within_s,
        define={"B": shoal.col("ends") == 1},
        measures={"last_ts": "last(B.ts)", "rows": "count(A)"},
    )
    return Point(
        window_rows, found.sink("found"), events, lambda: {"found": sequences(events["rows"], round(within_s * 1e6))}
    )


def sequences(rows: pa.Table, within_us: int) -> pa.Table:
    """The pattern's results, key by key and row by row."""
    found: list[tuple[int, int, int]] = []
    ts, ends = rows["ts"].cast(pa.int64()).to_numpy(), rows["ends"].to_numpy()
    for key in range(KEYS):
        at, last_rows = ts[key::KEYS].tolist(), np.flatnonzero(ends[key::KEYS]).tolist()
        first = 0
        while (following := bisect_right(last_rows, first)) < len(last_rows):
            last = last_rows[following]
            if at[last] - at[first] <= within_us:
                found.append((key, at[last], last - first))
                first = last + 1
            else:
                first += 1
    key_, last_ts, length = (pa.array(column, pa.int64()) for column in zip(*found, strict=True))
    return pa.table({"key": key_, "last_ts": last_ts.cast(pa.timestamp("us")), "rows": length})


def row_window(window_rows: int, number: int) -> Point:
    """The mean of every key's last rows, with every row."""
    draw = np.random.default_rng(3)
    events = {"rows": pa.table({"ts": times(number), "key": np.arange(number) % KEYS, "x": draw.uniform(0, 1, number)})}
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "x": "float64"}, time="ts")
    last = stream.key_by("key").window(shoal.rows(window_rows, 1, partial=True)).aggregate(mean=shoal.mean("x"))
    sql = f"""
        SELECT key, avg(x) OVER (PARTITION BY key ORDER BY ts ROWS {window_rows - 1} PRECEDING) AS mean FROM rows_
    """
    return Point(window_rows, last.select("key", "mean").sink("means"), events, lambda: {"means": asked(sql, events)})


def bursts(window_rows: int, number: int) -> Point:
    """Rows of a key come in bursts as long as the window, with a pause in between that ends the session."""
    burst = np.arange(number) // KEYS // window_rows
    at = np.arange(number) * (1_000_000 // RATE) + burst * 2 * PAUSE_S * 1_000_000
    ts = pa.array(at, pa.timestamp("us"))
    draw = np.random.default_rng(4)
    events = {"rows": pa.table({"ts": ts, "key": np.arange(number) % KEYS, "x": draw.uniform(0, 1, number)})}
    stream = shoal.Stream("rows", {"ts": "timestamp", "key": "int64", "x": "float64"}, time="ts")
    visits = stream.key_by("key").window(sessions(PAUSE_S)).aggregate(n=shoal.count(), largest=shoal.max_("x"))
    sql = f"""
        WITH marked AS (
            SELECT *, ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) >= INTERVAL {PAUSE_S} SECOND AS begins FROM rows_
        ), numbered AS (
            SELECT *, count(*) FILTER (begins) OVER (PARTITION BY key ORDER BY ts) AS visit FROM marked
        )
        SELECT key, min(ts) AS window_start, count(*) AS n, max(x) AS largest FROM numbered GROUP BY key, visit
    """
    return Point(
        window_rows,
        visits.select("key", "window_start", "n", "largest").sink("visits"),
        events,
        lambda: {"visits": asked(sql, events)},
    )


def asked(sql: str, events: Rows) -> pa.Table:
    with duckdb.connect() as database:
        for name, rows in events.items():
            database.from_arrow(rows).create_view(f"{name}_")
        return database.sql(sql).to_arrow_table()


CASES = (
    Case(
        "join",
        f"band join, {PARTNERS} answers per row",
        lambda size, number: band_join(size, number, narrowing(size)),
    ),
    Case("join, fixed band", "band join, fixed band", lambda size, number: band_join(size, number, narrowing(8_192))),
    Case("pattern", "pattern A+? B", pattern),
    Case("row window", "row window, every row", row_window),
    Case("session", "session", bursts),
)
SIZES = {
    "join": (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536),
    "join, fixed band": (1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536),
    "pattern": (8, 16, 32, 64, 128, 256, 512),
    "row window": (8, 16, 32, 64, 128, 256, 512),
    "session": (8, 16, 32, 64, 128, 256, 512),
}
"""Rows in a window: of the other side that a row of a join can match, of one key elsewhere."""


def epochs(events: Rows) -> Iterator[dict[str, pa.RecordBatch]]:
    """Equal shares of every stream."""
    each = EPOCH_ROWS // len(events)
    longest = max(rows.num_rows for rows in events.values())
    for start in range(0, longest, each):
        cut = {name: rows.slice(start, each).combine_chunks().to_batches() for name, rows in events.items()}
        yield {name: batches[0] for name, batches in cut.items()}


def run(point: Point, batches: Sequence[Mapping[str, pa.RecordBatch]]) -> tuple[OneWorker, float]:
    """Run all epochs; gives the worker and the CPU seconds it took."""
    worker = OneWorker(shoal.Graph.of([point.query]))
    began = time.process_time()
    for each in batches:
        worker.epoch(each)
    worker.drain()
    return worker, time.process_time() - began


def measured(case: Case, size: int, number: int, repeat: int) -> dict[str, Any]:
    """Check a point's results, then measure it."""
    point = case.point(size, number)
    batches = list(epochs(point.events))
    worker, _ = run(point, batches)
    wrong = differences(worker.tables(), point.expected())
    if wrong:
        raise RuntimeError(f"{case.name}, window of {size} rows: {'; '.join(wrong)}")
    emitted = sum(rows.num_rows for rows in worker.tables().values())
    peaks = np.array(worker.state_rows)
    spent = [run(point, batches)[1] for _ in range(repeat)]
    return {
        "case": case.name,
        "title": case.title,
        "window_rows": size,
        "events": point.rows,
        "answers_per_event": round(emitted / point.rows, 4),
        "state_rows_peak": int(peaks.max()),
        "state_rows_late": int(peaks[len(peaks) // 2 : -1].max()),
        "state_rows_early": int(peaks[len(peaks) // 4 : len(peaks) // 2].max()),
        "us_per_event": Spread.of(cpu_s / point.rows * 1e6 for cpu_s in spent).data(),
    }


def exponent(results: Iterable[Mapping[str, Any]]) -> float:
    """Cost as a power of the window's size, over the larger half of the sizes: 0 is flat, 1 is linear."""
    late = list(results)[-4:]
    sizes = np.log([result["window_rows"] for result in late])
    costs = np.log([result["us_per_event"]["median"] for result in late])
    return float(np.polyfit(sizes, costs, 1)[0])


def by_case(results: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        found[result["title"]].append(result)
    return found


def rows_of_table(results: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["case", "rows in window", "CPU us/event", "results/event", "most state, rows"]
    rows = [
        [
            result["title"],
            f"{result['window_rows']:,}",
            spread_text(result["us_per_event"]),
            f"{result['answers_per_event']:.3g}",
            f"{result['state_rows_peak']:,}",
        ]
        for result in results
    ]
    return header, rows


def rows_of_growth(results: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["case", "window", "cost", "cost grows as window to the power of"]
    rows = [
        [
            title,
            f"x {found[-1]['window_rows'] // found[0]['window_rows']}",
            f"x {found[-1]['us_per_event']['median'] / found[0]['us_per_event']['median']:.2f}",
            f"{exponent(found):.2f}",
        ]
        for title, found in by_case(results).items()
    ]
    return header, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="few events, three sizes")
    parser.add_argument("--repeat", type=int, help="runs per point (default 5; quick: 1); the median counts")
    parser.add_argument("--events", type=int, help="events per stream (default 200000; quick: 40000)")
    options = parser.parse_args()
    number = options.events or (40_000 if options.quick else 200_000)
    repeat = options.repeat or (1 if options.quick else 5)
    machine = described()
    print(sentence(machine), flush=True)
    results = []
    for case in CASES:
        for size in SIZES[case.name][: 3 if options.quick else None]:
            results.append(measured(case, size, number, repeat))
            print("  " + ", ".join(f"{name} {value}" for name, value in results[-1].items()), flush=True)
    print(table.plain(*rows_of_table(results)))
    print(table.plain(*rows_of_growth(results)))
    path = record.written("window_growth", {"results": results, "repeat": repeat}, machine, options)
    figure.window_growth(results, machine, path.with_suffix(".png"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
