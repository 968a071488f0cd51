"""Graphs: queries share what they have in common, and a wrong graph does not exist."""

import json
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from shoal.errors import GraphError
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, mean
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Operator, Query
from shoal.model.query.window import hop, tumbling
from shoal.workloads.traffic.queries import queries

SCHEMA = {"ts": "timestamp", "road": "int64", "speed": "float64"}
CARS = Stream("cars", SCHEMA, time="ts")


def fast(name: str = "fast", above: int = 100) -> Query:
    return CARS.filter(col("speed") > above).sink(name)


def counted(name: str = "counted", **options: Any) -> Query:
    return CARS.key_by("road").window(tumbling(10)).aggregate(n=count()).sink(name, **options)


def test_the_traffic_queries_share_operators_until_there_are_1201() -> None:
    graph = Graph.of(queries(100))
    kinds = [operator.kind for operator in graph.operators.values()]
    assert len(graph.queries) == 300
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "source": 1,
        "filter": 100,
        "select": 200,
        "window": 300,
        "aggregate": 300,
        "sink": 300,
    }
    assert len(graph.instances) == 1_201
    assert len(graph.stateful_instances) == 300


def test_queries_that_begin_alike_share_operators_and_others_do_not() -> None:
    shared = Graph.of([fast("a"), fast("b"), fast("c", above=50)])
    assert len(shared.operators) == 1 + 2 + 3
    assert len({query.operators[1].id for query in shared.queries.values()}) == 2


def test_the_order_in_which_aggregates_are_named_is_part_of_an_operator() -> None:
    windowed = CARS.window(tumbling(10))
    one = windowed.aggregate(n=count(), avg=mean("speed")).sink("one")
    other = windowed.aggregate(avg=mean("speed"), n=count()).sink("other")
    assert one.operators[2].id != other.operators[2].id
    assert one.operators[2].text != other.operators[2].text


def test_an_operator_that_is_fed_otherwise_has_the_same_text_but_another_id() -> None:
    one, other = fast("a", above=1).operators, CARS.filter(col("road") == 1).filter(col("speed") > 1).operators
    assert one[1].text == other[2].text
    assert one[1].id != other[2].id


def test_ids_do_not_change_from_one_version_to_the_next() -> None:
    """State is found by these ids after an upgrade."""
    assert [operator.id for operator in counted().operators] == [
        "db350c3ff261",
        "9c90114f6778",
        "1a92369dfa45",
        "ccebbeb308be",
    ]
    assert Graph.of([counted(), fast()]).digest == "1142f34f286d6dfc"


def test_a_digest_depends_on_every_query_and_its_order() -> None:
    graph = Graph.of([counted(), fast()])
    assert graph.digest == Graph.of([counted(), fast()]).digest
    others = [Graph.of([counted()]), Graph.of([counted(), fast(above=99)]), Graph.of([fast(), counted()])]
    assert len({graph.digest, *(other.digest for other in others)}) == 4


def test_a_graph_is_the_same_after_a_journey_through_json() -> None:
    graph = Graph.of(queries(3))
    again = Graph.from_data(json.loads(json.dumps(graph.data())))
    assert again == graph
    assert again.digest == graph.digest
    assert again.stateful_instances == graph.stateful_instances


def test_queries_come_and_go() -> None:
    graph = Graph.of([counted()])
    longer = graph.with_query(fast())
    assert list(longer.queries) == ["counted", "fast"]
    assert longer.without_query("fast") == graph
    assert Graph().with_query(fast()).without_query("fast") == Graph()


def test_a_query_knows_where_it_leads() -> None:
    query = counted("mine", table="ours")
    assert (query.name, query.streams, query.table) == ("mine", ("cars",), "ours")
    assert query.columns == {"road": "int64", "window_end": "timestamp", "n": "int64"}


def test_operators_with_key_groups_have_an_instance_per_group() -> None:
    flow = CARS.partition_by("road", groups=3).window(tumbling(1)).aggregate(n=count())
    graph = Graph.of([flow.sink("parts")])
    operator = flow.operators[-1].id
    assert graph.stateful_instances == (f"{operator}/0", f"{operator}/1", f"{operator}/2")


def changed(query: Query, old: str, new: str) -> Any:
    text = json.dumps(Graph.of([query]).data())
    return json.loads(text.replace(f'["col", "{old}"]', f'["col", "{new}"]'))


def unwindowed() -> Query:
    """A query whose aggregate is fed by the stream itself."""
    source, _, aggregate, sink = counted().operators
    direct = Operator("aggregate", aggregate.parameters, (source.id,))
    return Query("q", (source, direct, Operator("sink", sink.parameters, (direct.id,))))


def crossed() -> Query:
    """A chain whose second filter is fed by an operator that is not there."""
    other = CARS.filter(col("road") == 1).filter(col("road") == 2).sink("other")
    return Query("q", (CARS.operators[0], *other.operators[2:]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: Graph.of([fast(), counted("fast")]),
            "query 'fast' is declared twice; a query's name must be its own",
            id="two queries of one name",
        ),
        pytest.param(
            lambda: Graph.of([fast()]).with_query(fast()),
            "query 'fast' is declared twice; a query's name must be its own",
            id="one more query of a known name",
        ),
        pytest.param(
            lambda: Graph.of([fast()]).without_query("slow"),
            "no query is named 'slow'; there are fast",
            id="an unknown query taken away",
        ),
        pytest.param(
            lambda: Graph().without_query("slow"),
            "no query is named 'slow'; there are none",
            id="a query taken from nothing",
        ),
        pytest.param(
            lambda: Graph.of([fast(), Stream("cars", {"ts": "timestamp"}, time="ts").sink("other")]),
            "query 'other' declares stream 'cars' differently from the other queries; expected "
            '{"stream": "cars", "schema": {"ts": "timestamp", "road": "int64", "speed": "float64"}, "time": "ts", '
            '"lateness_us": 0, "max_ahead_us": 86400000000}, got {"stream": "cars", "schema": {"ts": "timestamp"}, '
            '"time": "ts", "lateness_us": 0, "max_ahead_us": 86400000000}',
            id="one stream with two schemas",
        ),
        pytest.param(
            lambda: Graph.of(
                [
                    Stream("s", {"ts": "timestamp"}, time="ts").sink("a"),
                    Stream("s", {"ts": "timestamp"}, time="ts", lateness_s=1).sink("b"),
                ]
            ),
            "query 'b' declares stream 's' differently from the other queries; expected "
            '{"stream": "s", "schema": {"ts": "timestamp"}, "time": "ts", "lateness_us": 0, '
            '"max_ahead_us": 86400000000}, got {"stream": "s", "schema": {"ts": "timestamp"}, "time": "ts", '
            '"lateness_us": 1000000, "max_ahead_us": 86400000000}',
            id="one stream with two latenesses",
        ),
        pytest.param(
            lambda: Graph.of([counted(table="t"), CARS.select("road").sink("roads", table="t")]),
            "query 'roads' writes table 't' with columns {\"road\": \"int64\"}; query 'counted' writes it with "
            '{"road": "int64", "window_end": "timestamp", "n": "int64"}',
            id="one table with two schemas",
        ),
        pytest.param(
            lambda: Graph.of(
                [CARS.select("ts", "road").sink("a", table="t"), CARS.select("road", "ts").sink("b", table="t")]
            ),
            'query \'b\' writes table \'t\' with columns {"road": "int64", "ts": "timestamp"}; '
            'query \'a\' writes it with {"ts": "timestamp", "road": "int64"}',
            id="one table with two orders of columns",
        ),
        pytest.param(lambda: fast(""), "a query must have a name", id="a query without a name"),
        pytest.param(
            lambda: Query("q", ()),
            "query 'q' must end in its one sink; got nothing",
            id="a query without operators",
        ),
        pytest.param(
            lambda: Query("q", fast().operators[:-1]),
            "query 'q' must end in its one sink; got source -> filter",
            id="a query without a sink",
        ),
        pytest.param(
            unwindowed,
            "query 'q' must have an aggregate after each window and a window before each aggregate; "
            "got source -> aggregate",
            id="an aggregate without a window",
        ),
        pytest.param(
            crossed,
            "filter of query 'q' is fed by ID, which is not before it",
            id="operators that do not feed each other",
        ),
        pytest.param(
            lambda: Operator("guess", {}),  # type: ignore[arg-type]
            "operator must be one of source, filter, select, lookup, assign, retime, union, window, aggregate, join, "
            "rank, deduplicate, match, cover, versions, match_ranges, geofence, sink; got 'guess'",
            id="an operator of an unknown kind",
        ),
        pytest.param(
            lambda: Graph.from_data(changed(fast(), "speed", "road")),
            "operator ID is not what its id says; its content gives ID",
            id="plain data with a changed operator",
        ),
        pytest.param(
            lambda: Graph.from_data({"operators": {}, "queries": {"q": ["abc"]}}),
            "query 'q' names operator abc, which is not listed",
            id="plain data with an operator that is not listed",
        ),
    ],
)
def test_a_wrong_graph_cannot_be_built(build: Callable[[], object], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert re.sub(r"\b[0-9a-f]{12}\b", "ID", str(caught.value)) == message


def test_graphs_queries_and_operators_do_not_change() -> None:
    query = counted()
    for value, name in ((Graph.of([query]), "queries"), (query, "name"), (query.sink, "kind")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)


def test_a_window_shows_in_the_id_of_its_aggregate() -> None:
    one = CARS.window(hop(10, 1)).aggregate(n=count()).sink("a")
    other = CARS.window(hop(20, 1)).aggregate(n=count()).sink("b")
    assert one.operators[2].text == other.operators[2].text
    assert one.operators[2].id != other.operators[2].id
