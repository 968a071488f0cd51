"""Programs of queries made up: each query has the results it would have alone, row by row."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.against_rows import TEXTS, Epoch, canonical, cars, check, in_process, row_by_row

from shoal.errors import GraphError
from shoal.language.python.flow import KEY_TYPES, Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import Aggregate, count, max_, mean, min_, sum_, top_k
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.graph import Graph, Query
from shoal.model.query.lookup import lookup
from shoal.model.query.window import Window

ROWS = st.fixed_dictionaries(
    {
        "ts": st.integers(-60, 60),
        "a": st.integers(0, 3),
        "b": st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1]),
        "x": st.sampled_from([0.0, -0.0, 0.1, -2.5, 1e9, 1e-9, math.inf]),
        "s": st.sampled_from(TEXTS),
        "flag": st.booleans(),
    }
)
EPOCHS = st.lists(st.lists(st.lists(ROWS, max_size=6), max_size=2), min_size=1, max_size=4)

Step = Callable[[Flow, int], Flow]
"""One more operator; the number is the constant that makes queries of one template differ."""

CONDITIONS: Sequence[Expression] = (
    col("x") > 0,
    col("flag"),
    col("s") != "car",
    (col("a") == 1) | (col("b") < 0),
    col("b").is_in([0, 5]),
    lookup("s", {"car": True}, False),
    col("ts") >= 0,
    col("a") % 2 == 0,
)
COLUMNS: Sequence[Mapping[str, Expression]] = (
    {"a": col("a") + 1},
    {"a": col("b")},
    {"s": lookup("a", {0: "", 1: "car"}, "other")},
    {"x": col("x") / col("a")},
    {"y": col("x") * 2 - col("a")},
    {"flag": ~col("flag"), "z": col("a") // 2},
    {"s": lit("car")},
)
STEPS: Sequence[Step] = (
    lambda flow, constant: flow.filter(col("a") == constant),
    lambda flow, constant: flow.filter(col("s") == TEXTS[constant % 3]),
    lambda flow, constant: flow.filter((col("a") == constant) & (col("x") > -1)),
    lambda flow, constant: flow.filter(col("flag") & (col("b") == constant)),
    lambda flow, _: flow.select("ts", "a", "s", "x"),
    lambda flow, _: flow.select("ts", "b", "flag", a=col("a"), x=col("x")),
    *(lambda flow, _, e=e: flow.filter(e) for e in CONDITIONS),
    *(lambda flow, _, c=c: flow.with_columns(**c) for c in COLUMNS),
)
AGGREGATES: Sequence[tuple[str, Aggregate]] = (
    ("n", count()),
    ("total", sum_("x")),
    ("whole", sum_("b")),
    ("avg", mean("x")),
    ("rest", mean("b")),
    ("low", min_("x")),
    ("high", max_("a")),
    ("last", max_("ts")),
    ("top", top_k("x", 2)),
    ("tops", top_k("b", 3)),
)
BEHIND: Sequence[Callable[[Flow], Flow]] = (
    lambda flow: flow,
    lambda flow: flow.filter(col("n") > 1),
    lambda flow: flow.filter((col("a") == 1) & (col("n") >= 1)),
    lambda flow: flow.with_columns(n=col("n") * 2, m=col("total") / col("n")),
    lambda flow: flow.select("window_end", "n"),
)


def possible(flow: Flow, step: Callable[[Flow], Flow]) -> Flow:
    """A flow with one more step, unless that names a column that is no longer there."""
    try:
        return step(flow)
    except GraphError:
        return flow


@dataclass(frozen=True)
class Template:
    """A query with a hole for one constant."""

    steps: tuple[Step, ...]
    window: Window | None
    keys: tuple[str, ...]
    partition: tuple[str, ...]
    groups: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    behind: Callable[[Flow], Flow]

    def flow(self, stream: Stream, constant: int) -> Flow:
        flow: Flow = stream
        for step in self.steps:
            flow = possible(flow, lambda before, step=step: step(before, constant))  # type: ignore[misc]
        if self.window is None:
            return flow
        usable = [name for name, type_ in flow.schema.types.items() if type_ in KEY_TYPES]
        if partition := [name for name in self.partition if name in usable]:
            flow = flow.partition_by(*partition, groups=self.groups)
        windowed = flow.key_by(*(name for name in self.keys if name in usable)).window(self.window)
        asked = {name: aggregate for name, aggregate in self.aggregates if not lacking(aggregate, windowed)}
        return possible(windowed.aggregate(**(asked or {"n": count()})), self.behind)


def lacking(aggregate: Aggregate, flow: Flow) -> bool:
    """Whether a column that an aggregate needs is gone, or is no longer of a type it takes."""
    try:
        aggregate.check(flow.schema, "here")
    except GraphError:
        return True
    return False


TEMPLATES = st.builds(
    Template,
    steps=st.lists(st.sampled_from(STEPS), max_size=4).map(tuple),
    window=st.one_of(
        st.none(), st.builds(lambda slide, panes: Window(slide * panes, slide), st.integers(1, 20), st.integers(1, 4))
    ),
    keys=st.lists(st.sampled_from(["a", "b", "s", "flag", "ts"]), max_size=3).map(tuple),
    partition=st.one_of(st.just(()), st.lists(st.sampled_from(["a", "b", "s", "flag"]), max_size=2).map(tuple)),
    groups=st.integers(1, 4),
    aggregates=st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=lambda pair: pair[0]).map(tuple),
    behind=st.sampled_from(BEHIND),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    stream = cars(draw(st.sampled_from([0, 5, 40])))
    queries: list[Query] = []
    for number, template in enumerate(draw(st.lists(TEMPLATES, min_size=1, max_size=3))):
        shared = draw(st.booleans())
        for constant in draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)):
            name = f"q{len(queries)}"
            queries.append(template.flow(stream, constant).sink(name, table=f"t{number}" if shared else None))
    return Graph.of(queries)


@settings(deadline=None, max_examples=100)
@given(graphs(), EPOCHS, st.integers(0, 2**32))
def test_any_graph_has_the_answers_it_would_have_row_by_row(graph: Graph, epochs: list[Epoch], seed: int) -> None:
    check(graph, epochs, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=1_000)
@given(graphs(), EPOCHS, st.integers(0, 2**32))
def test_many_more_graphs_have_the_answers_they_would_have_row_by_row(
    graph: Graph, epochs: list[Epoch], seed: int
) -> None:
    check(graph, epochs, seed)


@settings(deadline=None, max_examples=50)
@given(graphs(), EPOCHS, st.integers(0, 2**32))
def test_a_query_does_not_notice_others_that_come_and_go(graph: Graph, epochs: list[Epoch], seed: int) -> None:
    draw = random.Random(seed)
    staying = draw.choice(list(graph.queries))
    changing = [
        Graph({name: query for name, query in graph.queries.items() if name == staying or draw.random() < 0.5})
        for _ in epochs
    ]
    run = in_process(changing, epochs, seed)
    rows = [row for row in run.results[graph.queries[staying].table] if row["query"] == staying]
    [alone] = row_by_row(Graph.of([graph.queries[staying]]), epochs)
    assert canonical(rows) == canonical(alone.results)
