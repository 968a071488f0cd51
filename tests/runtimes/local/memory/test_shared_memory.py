"""No operator keeps references to reused memory: results are the same though it is overwritten at once."""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from tests.runtimes.local.scribbling import Scribbling
from tests.runtimes.local.test_local import Choice, check

from shoal.kernels.columns.block import Block
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, count_distinct, max_, mean, min_, sum_, top_k, variance
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import hop, rows, sessions, tumbling
from shoal.runtimes.local.dataflow.channel import Stamp
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Pool, Sizes

EVENTS = Stream("s", {"ts": "timestamp", "k": "int64", "n": "int64", "x": "float64", "flag": "bool"}, time="ts")
ROWS = [{"ts": n * 100_000, "k": n % 5, "n": n * 7 % 50, "x": n / 4, "flag": n % 3 == 0} for n in range(300)]
SIZES = [Sizes(8, 1, 2), Sizes(3, 2, 1), Sizes(64, 2, 2)]
BY_KEY = EVENTS.key_by("k")
FLOWS = {
    "a filter that keeps all": EVENTS.filter(col("n") >= 0),
    "a filter that keeps some": EVENTS.filter(col("n") > 20),
    "new columns beside old ones": EVENTS.with_columns(y=col("n") + 1).filter(col("y") > 0),
    "rows in several windows": EVENTS.assign(hop(4, 2)),
    "rows of another time": EVENTS.with_columns(later=col("ts") + 1_000_000).retime("later"),
    "two flows in one": EVENTS.filter(col("n") > 20).union(EVENTS.filter(col("n") <= 20)),
    "windows": BY_KEY.window(hop(10, 2)).aggregate(n=count(), total=sum_("x"), y=mean("x"), low=min_("n")),
    "windows with lists": BY_KEY.window(tumbling(4)).aggregate(
        top=top_k("n", 3), d=count_distinct("n"), v=variance("x")
    ),
    "windows of all rows": EVENTS.window(tumbling(3)).aggregate(n=count(), latest=max_("ts")),
    "sessions": EVENTS.key_by("n").window(sessions(1)).aggregate(c=count(), x=max_("x")),
    "windows of rows": BY_KEY.window(rows(7, 3)).aggregate(n=count(), x=sum_("x")),
    "the first of each window": EVENTS.assign(tumbling(2)).key_by("k").rank([("n", True)], 2),
    "one row per key and time": BY_KEY.deduplicate(1.2),
    "pairs": EVENTS.select("ts", "k", "n").join(EVENTS.select("ts", "k", "x"), on="k", within_s=(0, 3)),
    "rows without a partner": EVENTS.select("ts", "k", "n").join(
        EVENTS.filter(col("flag")).select("ts", "k", "x"),
        on="k",
        within_s=(0, 0.5),
        how="full",
        defaults={"n": 0, "x": 0.0},
    ),
    "patterns": BY_KEY.match(
        "A B+",
        within_s=5,
        measures={"first": "first(A.x)", "total": "sum(B.n)"},
        define={"A": col("flag"), "B": col("n") > 10},
    ),
}

LIMITS = (
    "runtimes.local.dataflow.channel.PASSED_ROWS",
    "runtimes.local.dataflow.node.LASTING_ROWS",
    "compiler.codegen.loop_run.LASTING_ROWS",
)
"""From how many rows on blocks are passed on without a copy."""


@pytest.mark.parametrize("kind", ["state-based", "worker-queue"])
@pytest.mark.parametrize("flow", [pytest.param(flow, id=name) for name, flow in FLOWS.items()])
def test_an_operator_has_the_same_results_in_memory_that_is_overwritten(flow: Flow, kind: str) -> None:
    graph = Graph.of([flow.sink("t")])
    for sizes in SIZES:
        check((graph, {"s": ROWS}), Choice(kind, sizes=sizes, at_once=20))


@pytest.mark.parametrize("kind", ["state-based", "worker-queue"])
@pytest.mark.parametrize("flow", [pytest.param(flow, id=name) for name, flow in FLOWS.items()])
def test_an_operator_has_the_same_results_where_blocks_are_passed_on(flow: Flow, kind: str) -> None:
    graph = Graph.of([flow.sink("t")])
    with ExitStack() as patches:
        for limit in LIMITS:
            patches.enter_context(patch(f"shoal.{limit}", 6))
        check((graph, {"s": ROWS}), Choice(kind, sizes=SIZES[2], at_once=20))


def test_what_was_read_is_written_over_when_more_is_read() -> None:
    allocator = ChunkAllocator()
    channel = Scribbling(SIZES[0], Pool(SIZES[0], allocator))
    allocator.close()
    for first in (0, 8):
        channel.write(Block({"n": np.arange(first, first + 8), "b": np.ones(8, bool)}, 8), Stamp(0, 0.0))
    packet = channel.read(8)
    assert packet is not None
    assert packet.block.columns["n"].tolist() == list(range(8))
    assert channel.read(8) is not None
    assert not set(packet.block.columns["n"].tolist()) & set(range(16))
    assert not packet.block.columns["b"].any()
