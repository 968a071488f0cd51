"""Coarse time: which queries see only panes, and that they give the same results then."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.compiler.program import Program, compile_graph
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import CoarseTime, RawBatch
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, sum_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.schema import not_null
from shoal.model.query.window import Session, hop, tumbling
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.coarse_time import coarse_time, pane_of_time_us
from shoal.runtimes.spark.tasks.intake import Intake
from shoal.runtimes.spark.tasks.reports import HEADERS, SliceRead

S = 1_000_000
SCHEMA = {"ts": "timestamp", "a": "int64", "b": "int64"}
CARS = Stream("cars", not_null(SCHEMA), time="ts")
DAY_US = 86_400 * S


def counted(flow: Flow, *windows: Any) -> list[Query]:
    return [flow.window(w).aggregate(n=count(), total=sum_("b")).sink(f"q{i}") for i, w in enumerate(windows)]


def program(queries: Iterable[Query]) -> Program:
    return compile_graph(Graph.of(queries))


@pytest.mark.parametrize(
    ("queries", "pane_s"),
    [
        pytest.param(counted(CARS, tumbling(10)), 10, id="tumbling windows"),
        pytest.param(counted(CARS.key_by("a"), hop(30, 5)), 5, id="panes of hopping windows"),
        pytest.param(counted(CARS.key_by("a"), hop(30, 6), tumbling(10)), 2, id="the common panes of two queries"),
        pytest.param(counted(CARS.filter(col("a") == 1).select("ts", b=col("a") + 1), tumbling(10)), 10, id="steps"),
        pytest.param(counted(CARS.filter(col("ts") > 0), tumbling(10)), 0, id="a filter on time"),
        pytest.param(
            [CARS.select("ts", c=col("ts")).window(tumbling(10)).aggregate(n=max_("c")).sink("q")],
            0,
            id="a copy of time",
        ),
        pytest.param(counted(CARS.key_by("ts"), tumbling(10)), 0, id="time as a key"),
        pytest.param([CARS.window(tumbling(10)).aggregate(last=max_("ts")).sink("q")], 0, id="time aggregated"),
        pytest.param(counted(CARS.key_by("a"), Session(10 * S)), 0, id="sessions"),
        pytest.param(counted(CARS, tumbling(10, clock="processing")), 0, id="windows by the clock"),
        pytest.param([CARS.filter(col("a") == 1).sink("q")], 0, id="rows as they are"),
        pytest.param([*counted(CARS, tumbling(10)), CARS.sink("rows")], 0, id="rows as they are, beside windows"),
    ],
)
def test_panes_are_those_of_all_queries(queries: list[Query], pane_s: int) -> None:
    assert pane_of_time_us(program(queries), "cars") == pane_s * S


def test_rows_that_may_be_late_or_ahead_keep_their_times() -> None:
    stream = Stream("cars", not_null(SCHEMA), time="ts", max_ahead_s=60)
    compiled = program(counted(stream, tumbling(10)))
    coarse = coarse_time(compiled, "cars", {"cars": DAY_US}, "", 2 * DAY_US)
    assert coarse is not None
    assert (coarse.from_us, coarse.until_us) == (DAY_US, 2 * DAY_US + 60 * S)
    assert coarse.beside.names == ["a", "b"]


def rows(folder: Path, seed: int) -> Files:
    """Two files whose rows are mostly in order, some of them early, late, or far ahead of the clock."""
    draw = random.Random(seed)
    for number in range(2):
        times = [
            DAY_US + (number * 400 + at) * S // 8 + draw.choice([0, 0, 0, -40 * S, 3 * S, 30 * DAY_US]) * (at % 50 > 44)
            for at in range(400)
        ]
        values = {name: pa.array([draw.randrange(5) for _ in times]) for name in ("a", "b")}
        table = pa.table({"ts": pa.array(times, pa.timestamp("us")), **values})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=16)
    return Files(str(folder), follow=False)


def sent(
    compiled: Program, source: Files, folder: Path, coarse: CoarseTime | None
) -> tuple[dict[tuple[int, int], list[str]], int]:
    """What a reading task sends to the workers, and how many of its rows have their own times."""
    marks = {"cars": DAY_US + 20 * S}
    plan = EpochPlan(
        epoch=1, graph="", workers=2, binding=(0, 1) * 8, watermarks_us=marks, states=(), now_us=2 * DAY_US
    )
    start, cursor = source.start(), source.cursor(str(folder / "log"))
    [piece] = cursor.slices(start, cursor.latest(start), 1)
    raws = list(source.read_wanted(piece, replace(compiled.wanted("cars"), coarse=coarse)))
    own = sum(len(set(raw.batch.column("ts").to_pylist())) for raw in raws if isinstance(raw, RawBatch))
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for worker, address, payload in Intake(compiled, plan, "cars").run(raws, SliceRead("files", 800, ended=False)):
        if address == wire.HEADER:
            found[worker, address].append(str(replace(HEADERS.decode(payload), cost_s=0.0)))
        else:
            found[worker, address] += map(str, wire.unpack(payload).to_pylist())
    return {key: sorted(each) for key, each in found.items()}, own


@pytest.mark.parametrize("seed", range(5))
def test_results_late_rows_refusals_and_watermarks_are_the_same(tmp_path: Path, seed: int) -> None:
    stream = Stream("cars", not_null(SCHEMA), time="ts", max_ahead_s=3600)
    keyed = stream.filter(col("b") != 2).partition_by("a", groups=4)
    compiled = program(counted(keyed.key_by("a"), hop(20, 5), tumbling(10)))
    source = rows(tmp_path, seed)
    coarse = coarse_time(compiled, "cars", {"cars": DAY_US + 20 * S}, "", 2 * DAY_US)
    exact, own = sent(compiled, source, tmp_path, None)
    found, fewer = sent(compiled, source, tmp_path, coarse)
    assert found == exact
    assert fewer < 0.8 * own
