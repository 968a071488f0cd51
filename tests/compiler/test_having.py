"""Conditions on aggregates go where the aggregates are computed, if all who read them have the same."""

import numpy as np
import pytest

from shoal.compiler.program import compile_graph
from shoal.kernels.aggregate.windowed import AggregateKernel
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, top_k
from shoal.model.query.expression import Expression, col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import hop, tumbling

CARS = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts")


def counted(condition: Expression | None) -> Flow:
    flow = CARS.key_by("road").window(hop(4, 2)).aggregate(cars=count(), fastest=top_k("speed", 2))
    return flow if condition is None else flow.filter(condition)


def conditions(*queries: Query) -> list[str | None]:
    kernels = [lane.kernel for lane in compile_graph(Graph.of(queries)).lanes]
    return [None if k.having is None else k.having.text for k in kernels if isinstance(k, AggregateKernel)]


BUSY = col("cars") >= 2


@pytest.mark.parametrize(
    ("queries", "wanted"),
    [
        pytest.param([counted(BUSY).sink("a")], [BUSY.text], id="one reader"),
        pytest.param([counted(BUSY).sink("a"), counted(BUSY).select("road").sink("b")], [BUSY.text], id="all the same"),
        pytest.param([counted(BUSY).sink("a"), counted(None).sink("b")], [None], id="one wants all"),
        pytest.param([counted(BUSY).sink("a"), counted(col("cars") > 5).sink("b")], [None], id="two conditions"),
        pytest.param([counted(col("road") == 1).sink("a")], [None], id="a condition on a key"),
        pytest.param(
            [counted(BUSY).key_by("road").window(tumbling(8)).aggregate(n=count()).sink("a")],
            [BUSY.text, None],
            id="read by another operator with state",
        ),
    ],
)
def test_a_condition_is_taken_over_if_nobody_wants_more(queries: list[Query], wanted: list[str | None]) -> None:
    assert conditions(*queries) == wanted


def test_only_windows_that_fulfil_it_are_emitted() -> None:
    (kernel,) = [lane.kernel for lane in compile_graph(Graph.of([counted(BUSY).sink("a")])).lanes]
    assert isinstance(kernel, AggregateKernel)
    block = Block(
        {
            "ts": np.array([0, 1, 3, 9]) * 1_000_000,
            "road": np.array([1, 1, 1, 2]),
            "speed": np.array([5.0, 7.0, 6.0, 1.0]),
            INSTANCE: np.zeros(4, np.int64),
        },
        4,
    )
    _, results = kernel.advance({}, kernel.lift(0, block), NEVER_US, FOREVER_US)
    rows = zip(results.columns["road"].tolist(), results.columns["cars"].tolist(), strict=True)
    assert sorted(rows) == [(1, 2), (1, 3)]
    assert sorted(results.columns["fastest"].to_pylist()) == [[7.0, 5.0], [7.0, 6.0]]
