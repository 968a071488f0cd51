"""Programs: hundreds of queries in a few lanes, each with the results it would have alone, row by row."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from tests.compiler.against_rows import CARS, SCHEMA, TEXTS, Epoch, canonical, check, in_process, row_by_row
from tests.compiler.in_process import InProcess

from shoal.compiler.program import compile_graph, program_instances
from shoal.kernels.columns.block import Block
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, max_, mean, min_, sum_, top_k
from shoal.model.query.expression import col, lit
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import Window, hop, tumbling
from shoal.policies.binding.static import shuffled
from shoal.workloads.traffic.queries import queries as traffic_queries

# --- queries written by hand --------------------------------------------------------------------


def some_epochs(seed: int = 1, epochs: int = 4, rows: int = 40) -> list[Epoch]:
    draw = random.Random(seed)
    return [
        [
            [
                {
                    "ts": draw.randint(10 * epoch - 15, 10 * epoch + 15),
                    "a": draw.randint(0, 3),
                    "b": draw.randint(-5, 5),
                    "x": draw.uniform(-10, 10),
                    "s": draw.choice(TEXTS),
                    "flag": draw.random() < 0.5,
                }
                for _ in range(rows)
            ]
            for _ in range(2)
        ]
        for epoch in range(epochs)
    ]


def counted(flow: Flow, *keys: str) -> Flow:
    return flow.key_by(*keys).window(Window(10, 5)).aggregate(n=count(), total=sum_("x"))


def for_each_a(build: Callable[[int], Flow], table: str | None = None) -> list[Query]:
    return [build(a).sink(f"q{a}", table=table) for a in range(4)]


@pytest.mark.parametrize(
    ("queries", "lanes"),
    [
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a), "a", "s"), "t"),
            1,
            id="queries that differ in an integer share a lane",
        ),
        pytest.param(
            [counted(CARS.filter(col("s") == s), "s", "a").sink(f"q{s}") for s in TEXTS],
            1,
            id="queries that differ in a text share a lane",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter((col("x") > 0) & (col("a") == a)))),
            1,
            id="the equality may be one of several conditions",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a).filter(col("b") == 2), "b")),
            1,
            id="a second equality is a condition like any other",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a).filter(col("x") > a))),
            4,
            id="queries that differ in more than the equality do not share",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(lit(a) == col("a")))),
            4,
            id="a constant on the left is a condition like any other",
        ),
        pytest.param(
            [
                counted(CARS.filter(col("a") == 1), "a").sink(name, table=table)
                for name, table in (("p", "t"), ("q", "t"), ("r", "u"))
            ],
            1,
            id="queries with the same operators share an instance and keep their names and tables",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a), "a").filter(col("n") > 1)),
            1,
            id="results are filtered behind the aggregate",
        ),
        pytest.param(
            [counted(CARS.filter(col("a") == 1), "a").filter(col("n") > n).sink(f"q{n}", table="t") for n in range(3)],
            1,
            id="one instance with several conditions behind it",
        ),
        pytest.param(
            for_each_a(
                lambda a: counted(CARS.filter(col("a") == a), "a", "s").select(
                    "window_end", "s", avg=col("total") / col("n"), whose=col("a") * 10, always=lit("x")
                )
            ),
            1,
            id="results are selected behind the aggregate",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a).with_columns(a=col("b")), "a")),
            1,
            id="the dispatch column is redefined behind the filter",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("a") == a).select("ts", "x", a=col("b")), "a")),
            1,
            id="the dispatch column is dropped and another takes its name",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.with_columns(a=col("a") + 1).filter(col("a") == a), "a")),
            4,
            id="the column is redefined before the filter",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.select("ts", "a", "x").filter(col("a") == a), "a")),
            1,
            id="columns are left out before the filter",
        ),
        pytest.param([counted(CARS.partition_by("s", groups=3)).sink("q")], 1, id="key groups of a text"),
        pytest.param(
            [counted(CARS.partition_by("a", "s", "flag", groups=5), "b").sink("q")], 1, id="key groups of three columns"
        ),
        pytest.param([counted(CARS.partition_by("b", groups=4)).sink("q")], 1, id="key groups of negative integers"),
        pytest.param(
            for_each_a(lambda a: counted(CARS.partition_by("s", groups=3).filter(col("a") == a))),
            4,
            id="queries with key groups have a lane each",
        ),
        pytest.param(
            for_each_a(lambda a: counted(CARS.partition_by("s", groups=1).filter(col("a") == a))),
            1,
            id="a single key group is no reason for a lane",
        ),
        pytest.param(
            for_each_a(lambda a: CARS.filter(col("a") == a).select("a", "ts", y=col("x") * a)),
            4,
            id="stateless queries that select differently",
        ),
        pytest.param(
            for_each_a(lambda a: CARS.filter((col("a") == a) & col("flag")), "t"),
            1,
            id="stateless queries that differ in an integer",
        ),
        pytest.param(
            [CARS.filter(col("flag")).sink("q"), CARS.filter(col("flag")).sink("r"), CARS.sink("all")],
            3,
            id="stateless queries with tables of their own",
        ),
        pytest.param(
            [CARS.filter(col("s") == "car").sink(name, table="t") for name in "qr"],
            1,
            id="stateless queries with the same operators",
        ),
        pytest.param(
            [
                CARS.window(tumbling(0.00001)).aggregate(n=count(), total=sum_("b")).sink("q"),
                CARS.window(tumbling(0.00001)).aggregate(total=sum_("b"), n=count()).sink("r"),
            ],
            2,
            id="the order of aggregates is the order of columns, and makes another lane",
        ),
        pytest.param(
            [
                counted(CARS.filter((col("x") > 0) & col("flag"))).sink("q"),
                counted(CARS.filter(col("x") > 0).filter(col("flag"))).sink("r"),
                counted(CARS.filter((col("a") == 1) & col("flag"))).sink("q1"),
                counted(CARS.filter(col("a") == 1).filter(col("flag"))).sink("r1"),
            ],
            4,
            id="queries that say the same in other words have operators, and so lanes, of their own",
        ),
        pytest.param(
            [
                CARS.filter(col("a") == 1)
                .key_by("a")
                .window(hop(0.00002, 0.00001))
                .aggregate(low=min_("a"), top=top_k("x", 2), last=max_("ts"), avg=mean("b"))
                .sink("q")
            ],
            1,
            id="a dispatch column that is key and aggregated as well",
        ),
        pytest.param(
            [
                counted(CARS.select("ts", "x", instance=col("a"), window=col("s")), "instance", "window").sink("q"),
                CARS.key_by("a").window(tumbling(0.00001)).aggregate(instance=count(), window=max_("x")).sink("r"),
            ],
            2,
            id="columns named like the kernel's own",
        ),
        pytest.param(
            [counted(CARS.filter(col("flag")), *keys).sink("q" + "".join(keys)) for keys in ("a", "s", "as", "")],
            4,
            id="queries that begin alike and group differently",
        ),
        pytest.param(
            [
                CARS.filter(col("flag")).window(Window(size, slide)).aggregate(n=count()).sink(f"q{size}{slide}")
                for size, slide in ((10, 5), (20, 5), (20, 10), (7, 7))
            ],
            4,
            id="queries that begin alike and slide differently",
        ),
        pytest.param([CARS.filter(lit(False)).sink("q"), counted(CARS.filter(lit(False))).sink("r")], 2, id="no rows"),
        pytest.param(
            for_each_a(lambda a: counted(CARS.filter(col("b") == [-(2**63), 2**63 - 1, 0, 7][a]), "b")),
            1,
            id="integers too far apart for a table",
        ),
    ],
)
def test_queries_have_the_answers_they_would_have_row_by_row(queries: list[Query], lanes: int) -> None:
    program = check(Graph.of(queries), some_epochs())
    assert len(program.lanes) == lanes


def test_two_streams_have_watermarks_of_their_own() -> None:
    graph = Graph.of(
        [
            counted(CARS, "a").sink("cars"),
            counted(Stream("ships", SCHEMA, time="ts", lateness_s=1), "a").sink("ships"),
        ]
    )
    epochs = some_epochs()
    run = InProcess()
    for epoch in epochs:
        run.epoch(graph, shuffled(graph, 2, 1), {"cars": epoch, "ships": epoch})
    run.drain(graph, shuffled(graph, 2, 2))
    for one in row_by_row(graph, epochs):
        assert canonical(run.results[one.query.table]) == canonical(one.results)
    assert run.late["cars"] > 0
    assert run.late["ships"] == 0


def test_late_rows_are_counted_as_row_by_row() -> None:
    graph = Graph.of([counted(CARS.filter(col("flag")), "a").sink("q")])
    epochs = some_epochs()
    run = in_process([graph] * len(epochs), epochs, seed=1)
    [alone] = row_by_row(graph, epochs)
    assert run.late["cars"] == alone.late > 0


# --- what a program looks like ------------------------------------------------------------------


def test_the_traffic_queries_run_in_three_lanes_of_a_hundred_instances() -> None:
    graph = Graph.of(traffic_queries(100))
    program = compile_graph(graph)
    assert [len(lane.instances) for lane in program.lanes] == [100, 100, 100]
    assert [lane.constant_key for lane in program.lanes] == ["region"] * 3
    assert program.columns("vehicles") == ("ts", "region", "vehicle_type", "speed")
    assert Counter(program.instances) == Counter(graph.stateful_instances)
    assert program_instances(graph) == program.instances


def test_the_same_graph_gives_the_same_program() -> None:
    graph = Graph.of(traffic_queries(5))
    again = Graph.from_data(graph.data())
    assert compile_graph(again).instances == compile_graph(graph).instances
    assert [lane.number for lane in compile_graph(again).lanes] == [0, 1, 2]


def test_a_program_knows_its_inputs() -> None:
    stream = Stream("cars", SCHEMA, time="ts", lateness_s=2, max_ahead_s=None)
    [source] = compile_graph(Graph.of([stream.sink("q")])).inputs.values()
    assert (source.stream, source.time, source.lateness_us, source.max_ahead_us) == ("cars", "ts", 2_000_000, None)
    assert source.schema == stream.schema


@pytest.mark.parametrize(
    ("flow", "columns"),
    [
        pytest.param(counted(CARS), ("ts", "x"), id="event time and what is aggregated"),
        pytest.param(counted(CARS.filter(col("flag")), "s"), ("ts", "x", "s", "flag"), id="keys and conditions"),
        pytest.param(CARS.select("a"), ("ts", "a"), id="what is written, and event time"),
        pytest.param(CARS.select(y=col("a") + col("b")), ("ts", "a", "b"), id="what is computed with"),
        pytest.param(CARS, tuple(SCHEMA), id="everything"),
    ],
)
def test_a_program_reads_the_columns_it_needs(flow: Flow, columns: tuple[str, ...]) -> None:
    assert compile_graph(Graph.of([flow.sink("q")])).columns("cars") == columns


def test_lanes_without_a_kernel_have_neither_rows_on_their_way_nor_state() -> None:
    [lane] = compile_graph(Graph.of([CARS.sink("q")])).lanes
    with pytest.raises(TypeError, match="a lane without a kernel has no state"):
        lane.lifted(lane.feeds[0], Block({}, 0), 0, 0, {})
    with pytest.raises(TypeError, match="a lane without a kernel has no state"):
        lane.advanced({}, {}, 0, 1)
