"""Fused feeds: large blocks go through compiled steps, with the same parcels and late rows."""

from typing import Any

import numpy as np
import pytest

from shoal.compiler.codegen.fused import prepare
from shoal.compiler.codegen.fused_feeds import MOST_CHAINS
from shoal.compiler.codegen.loop_run import LASTING_ROWS, LoopRun
from shoal.compiler.program import Program, compile_graph
from shoal.compiler.router import Router
from shoal.kernels.columns.block import Block
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.schema import not_null
from shoal.model.query.window import tumbling

S = 1_000_000
CARS = Stream("cars", not_null({"ts": "timestamp", "a": "int64", "b": "int64", "unread": "int64"}), time="ts")


def counted(flow: Flow, size_s: int = 10) -> Flow:
    return flow.partition_by("a", groups=3).window(tumbling(size_s)).aggregate(n=count(), total=sum_("b"))


def program(*flows: Flow) -> Program:
    return compile_graph(Graph.of(flow.sink(f"q{number}") for number, flow in enumerate(flows)))


@pytest.mark.parametrize(
    ("flows", "chains"),
    [
        pytest.param([counted(CARS.filter(col("b") > 1))], 1, id="one feed"),
        pytest.param([counted(CARS.filter(col("b") > 1)), counted(CARS.filter(col("b") > 1), 5)], 1, id="equal feeds"),
        pytest.param([counted(CARS.filter(col("b") > 1)), counted(CARS.filter(col("b") > 2))], 2, id="other feeds"),
        pytest.param(
            [counted(CARS.filter(col("b") > 1)), counted(CARS.filter(col("b") > 1).filter(col("a") > 0))],
            0,
            id="feeds that share their first step only",
        ),
        pytest.param(
            [counted(CARS.filter(col("b") > at)) for at in range(MOST_CHAINS + 1)], 0, id="too many to compile"
        ),
    ],
)
def test_feeds_with_a_chain(flows: list[Flow], chains: int) -> None:
    assert len(program(*flows).fused_feeds["cars"]) == chains


def routed(compiled: Program, rows: int) -> tuple[list[Any], list[Any]]:
    draw = np.random.default_rng(7)
    columns = {"ts": draw.integers(0, 40 * S, rows), "a": draw.integers(0, 9, rows), "b": draw.integers(0, 4, rows)}
    router = Router(compiled, (0, 1) * len(compiled.instances), {"cars": 15 * S}, 0)
    for _ in range(3):
        router.take("cars", Block(columns, rows))
        columns = {**columns, "b": columns["b"][::-1].copy()}
    parcels = sorted(str((each.worker, each.lane, each.content.to_arrow().to_pylist())) for each in router.parcels())
    late = [
        sorted(zip(*(late.columns[name].tolist() for name in ("ts", "a", "b")), strict=True)) for _, late in router.late
    ]
    return parcels, late


@pytest.mark.parametrize("rows", [pytest.param(LASTING_ROWS, id="large"), pytest.param(100, id="small")])
def test_parcels_and_late_rows_are_the_same(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [counted(CARS.filter(col("b") > 0).filter(col("a") != 4)), counted(CARS.filter(col("b") > 1), 5)]
    plain, compiled = program(*queries), program(*queries)
    prepare(compiled.fused_feeds["cars"].values())
    applied: list[int] = []
    apply = LoopRun.apply

    def recorded(self: LoopRun, block: Block) -> Block:
        applied.append(block.length)
        return apply(self, block)

    monkeypatch.setattr(LoopRun, "apply", recorded)
    assert routed(compiled, rows) == routed(plain, rows)
    assert applied == ([rows] * 6 if rows >= LASTING_ROWS else [])
