"""Routing: what a block sends to which worker, to which table, and what comes too late."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.compiler import router as routing
from shoal.compiler.program import compile_graph
from shoal.compiler.router import Router
from shoal.compiler.watermarks import Reading, advanced
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.schema import TIME
from shoal.model.query.window import tumbling

SCHEMA = {"ts": "timestamp", "k": "string", "n": "int64"}
LEFT, RIGHT = Stream("left", SCHEMA, time="ts"), Stream("right", SCHEMA, time="ts")
US = 1e-6


def block(*rows: tuple[int, str, int]) -> Block:
    times, texts, numbers = zip(*rows, strict=True)
    columns = {"ts": np.array(times), "k": pa.array(texts), "n": np.array(numbers)}
    return Block(columns, len(rows))


def router(queries: Sequence[Query], binding: Sequence[int] = (), now_us: int = 0, **marks: int) -> Router:
    program = compile_graph(Graph.of(queries))
    return Router(program, binding or [0] * len(program.instances), marks, now_us)


def parcels(sent: Router, *names: str) -> list[Any]:
    """Worker, lane, table and some columns of everything that is on its way."""
    found = []
    for parcel in sent.parcels():
        columns = [parcel.content[name] for name in names]
        values = [c.to_pylist() if isinstance(c, pa.Array) else c.tolist() for c in columns]
        found.append((parcel.worker, parcel.lane, parcel.table, *values))
    return sorted(found)


def test_rows_go_to_the_workers_of_their_instances() -> None:
    ranked = [LEFT.filter(col("n") == n).rank("ts", 1).sink(f"q{n}") for n in (7, 8, 9)]
    sent = router(ranked, [1, 0, 1])
    sent.take("left", block((0, "a", 7), (1, "b", 9), (2, "c", 8), (3, "d", 5)))
    assert parcels(sent, "k", INSTANCE) == [(0, 0, 0, ["c"], [1]), (1, 0, 0, ["a", "b"], [0, 2])]


def test_the_two_sides_of_a_join_are_two_tables() -> None:
    sent = router([LEFT.join(RIGHT, on="k", within_s=(0, 1)).sink("q")])
    sent.take("left", block((0, "a", 1)))
    sent.take("right", block((0, "b", 2)))
    assert parcels(sent, "k") == [(0, 0, 0, ["a"]), (0, 0, 1, ["b"])]


def test_a_stream_joined_with_itself_goes_to_both_sides() -> None:
    sent = router([LEFT.join(LEFT.filter(col("n") > 1), on="k", within_s=(0, 1)).sink("q")])
    sent.take("left", block((0, "a", 1), (1, "b", 2)))
    assert parcels(sent, "k") == [(0, 0, 0, ["a", "b"]), (0, 0, 1, ["b"])]


def test_blocks_that_nobody_reads_are_sent_nowhere() -> None:
    sent = router([LEFT.rank("n", 1).sink("q")])
    sent.take("right", block((0, "a", 1)))
    assert parcels(sent) == []
    assert not sent.results


def test_rows_of_a_union_come_together() -> None:
    sent = router([LEFT.union(RIGHT).rank("n", 1).sink("q")])
    sent.take("left", block((0, "a", 1)))
    sent.take("right", block((0, "b", 2)))
    assert parcels(sent, "k") == [(0, 0, 0, ["a", "b"])]


def test_late_rows_are_told_for_every_lane_and_not_sent() -> None:
    sent = router([LEFT.rank("n", 1).sink("q"), LEFT.key_by("k").deduplicate(1).sink("r")], left=5)
    sent.take("left", block((4, "late", 1), (5, "timely", 2)))
    assert parcels(sent, "k") == [(0, 0, 0, ["timely"]), (0, 1, 0, ["timely"])]
    assert [(lane.number, late.columns["k"].to_pylist()) for lane, late in sent.late] == [(0, ["late"]), (1, ["late"])]


def test_rows_are_late_by_the_watermark_of_their_own_stream_however_slow_the_other_is() -> None:
    sent = router([LEFT.join(RIGHT, within_s=(0, 1)).sink("q")], left=50, right=5)
    sent.take("left", block((49, "late", 1), (50, "timely", 2)))
    sent.take("right", block((4, "late", 1), (5, "timely", 2)))
    assert parcels(sent, "k") == [(0, 0, 0, ["timely"]), (0, 0, 1, ["timely"])]
    assert [late.columns["k"].to_pylist() for _, late in sent.late] == [["late"], ["late"]]


def test_rows_of_one_partition_are_not_late_by_the_watermark_of_another() -> None:
    read = [Reading("left", 50, "fast", ("fast", "slow")), Reading("left", 5, "slow", ("fast", "slow"))]
    program = compile_graph(Graph.of([LEFT.rank("n", 1).sink("q")]))
    marks = advanced(program, {}, read, 0)
    sent = Router(program, [0] * len(program.instances), marks, 0)
    sent.take("left", block((49, "late", 1), (50, "timely", 2)), "fast")
    sent.take("left", block((4, "late", 1), (5, "timely", 2)), "slow")
    assert parcels(sent, "k") == [(0, 0, 0, ["timely", "timely"])]
    assert [late.columns["k"].to_pylist() for _, late in sent.late] == [["late"], ["late"]]


def test_processing_time_makes_nothing_late_and_gives_rows_its_own_time() -> None:
    flow = LEFT.window(tumbling(10 * US, clock="processing")).aggregate(rows=count())
    sent = router([flow.sink("q")], now_us=42, left=1000)
    sent.take("left", block((4, "a", 1), (2000, "b", 2)))
    [parcel] = sent.parcels()
    assert parcel.content.pane.tolist() == [4]
    assert not sent.late


def test_queries_without_state_answer_where_they_read() -> None:
    sent = router([LEFT.filter(col("n") > 1).select("k").sink("q"), RIGHT.select("n").sink("r")])
    sent.take("left", block((0, "a", 1), (1, "b", 2)))
    assert {table: [batch.to_pylist() for batch in several] for table, several in sent.results.items()} == {
        "q": [[{"query": "q", "k": "b"}]]
    }


@pytest.mark.parametrize("filtered", [True, False], ids=["with rows that are filtered away", "as they are"])
def test_answers_of_a_lane_go_to_its_tables_and_to_the_lanes_behind_it(filtered: bool) -> None:
    counted = LEFT.window(tumbling(10 * US)).aggregate(rows=count())
    behind = counted.filter(col("rows") > 5) if filtered else counted
    sent = router([counted.sink("q"), behind.rank("rows", 1).sink("r")], [0, 1])
    ends = np.array([10, 20])
    columns = {INSTANCE: np.zeros(2, np.int64), "window_end": ends, "rows": np.array([3, 9]), TIME: ends - 1}
    sent.emit(sent.program.lanes[0], Block(columns, 2))
    assert [batch.column("rows").to_pylist() for batch in sent.results["q"]] == [[3, 9]]
    assert parcels(sent, "rows") == [(1, 1, 0, [9] if filtered else [3, 9])]


def test_no_answers_are_sent_nowhere() -> None:
    sent = router([LEFT.rank("n", 1).sink("q")])
    sent.emit(sent.program.lanes[0], Block({INSTANCE: np.zeros(0, np.int64), TIME: np.zeros(0, np.int64)}, 0))
    assert not sent.results
    assert parcels(sent) == []


def test_what_piles_up_is_brought_together_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MERGE_ROWS", 3)
    flow = LEFT.window(tumbling(10 * US)).aggregate(rows=count())
    sent = router([flow.sink("q")])
    for time in range(20):
        sent.take("left", block((time, "a", 1)))
    assert sum(len(tables[0]) for buffered in sent._buffered.values() for tables in buffered) <= 6
    [parcel] = sent.parcels()
    assert (parcel.content.pane.tolist(), parcel.content.slots[0].tolist()) == ([0, 1], [10, 10])
