"""Graph files in DCEP-Sim's operators, in the forms of its thesis: each is the flow one would write by hand."""

import pytest

from shoal.errors import GraphError
from shoal.model.aggregate import count, max_, mean
from shoal.model.expression import col
from shoal.model.functions import call
from shoal.model.graph import Graph, Query
from shoal.model.window import Window, rows, tumbling
from shoal.query.flow import Flow
from shoal.query.graphfile import load_file, load_graph, save_graph
from shoal.query.stream import Stream

STREAMS = """\
stream-definitions:
- {stream-id: 0, name: StopStream, tuple_format: [{name: streamList, type: string}, {name: node, type: int}]}
- stream-id: 2
  name: Auction
  tuple-format:
  - {name: dateTime, type: timestamp}
  - {name: id, type: int}
  - {name: itemName, type: string}
  - {name: description, type: string}
  - {name: reserve, type: double}
- stream-id: 3
  name: Bid
  tuple-format:
  - {name: dateTime, type: timestamp}
  - {name: auction, type: int}
  - {name: bidder, type: int}
  - {name: price, type: long}
"""
AUCTION = Stream(
    "Auction",
    {"dateTime": "timestamp", "id": "int64", "itemName": "string", "description": "string", "reserve": "float64"},
    time="dateTime",
)
BID = Stream("Bid", {"dateTime": "timestamp", "auction": "int64", "bidder": "int64", "price": "int64"}, time="dateTime")
DAY_S = 86_400.0
STORAGE = "external_timestamp_field: '', emit_type: TUPLE_COUNT, emit_size: -1, size_type: TUPLE_COUNT, jump: 1"


def text(operators: dict[str, str], *edges: str) -> str:
    """A file with one query; an edge is written `from -> to`, an operator `type {parameters}`."""
    lines = [STREAMS + "spequeries:", "  outputs: []", "  inputs: []", "  queries:", "  - operators:"]
    for name, said in operators.items():
        type_, _, parameters = said.partition(" ")
        lines += [f"    - name: {name}", f"      type: {type_}", f"      parameters: {parameters or '{}'}"]
    lines += ["    name: NewName0", "    id: 5", "    edges:"]
    for edge in edges:
        first, _, second = edge.partition(" -> ")
        to = f", to: {{name: {second}, type: intermediate}}" if second else ""
        lines.append(f"    - {{stream: s, from: {{name: {first}, type: intermediate}}{to}}}")
    return "\n".join(lines)


def query(operators: dict[str, str], *edges: str) -> Query:
    graph = load_graph(text(operators, *edges), "old.yaml")
    assert load_graph(save_graph(graph), "again.yaml") == graph
    return graph.queries["NewName0"]


def same(found: Query, flow: Flow) -> None:
    assert found == flow.sink("NewName0")


JOINED = {
    "Output 0": "output {stream-id: -1}",
    "input 0": "input {stream-id: 3, alias: B}",
    "Print 0": "print",
    "input 1": "input {stream-id: 2, alias: A}",
    "Join 0": "join",
    "Window 0": f"window {{size: 0, {STORAGE}}}",
    "Window 2": f"window {{size: 1000000, {STORAGE}}}",
}
BOTH = (
    "Window 0 -> Join 0",
    "input 1 -> Window 2",
    "Window 2 -> Join 0",
    "input 0 -> Window 0",
    "Output 0",
    "Print 0 -> Output 0",
)
AT_LEAST = (
    "filter {op: larger_than_or_equals, arg2: {value-type: int, type: attribute, value: A.id, offset: 0}, "
    "arg1: {value_type: int, type: attribute, value: B.auction}}"
)
AT_MOST = AT_LEAST.replace("larger", "smaller")
EQUAL = "filter {op: equals, arg1: {type: attribute, value: B.auction}, arg2: {type: attribute, value: A.id}}"


def test_a_selection_of_fields() -> None:
    found = query(
        {
            "Output 0": "output {stream-id: -1}",
            "Select 0": "select {fields: [B.price, B.auction item, B.dateTime]}",
            "input 0": "input {stream-id: 3, alias: B}",
        },
        "input 0 -> Select 0",
        "Select 0 -> Output 0",
        "Output 0",
    )
    same(found, BID.select("price", "item", "dateTime", item=col("auction")))


def test_a_grouped_aggregation() -> None:
    """Listing A.2: windows of 0.7 s of processing time, a second apart."""
    found = query(
        {
            "Output 0": "output {stream-id: -1}",
            "Select 0": "select {fields: [avg(B.price) avg_price, count(B.auction) count_tuples]}",
            "input 0": "input {stream-id: 3, alias: B}",
            "Print 0": "print",
            "Window 1": "window {external_timestamp_field: '', size: 700000, emit-type: PROCESSING_TIME, "
            "emit-size: 1000000, size-type: PROCESSING_TIME, jump: 1000000}",
            "GroupBy 1": "groupby {fields: [B.bidder]}",
        },
        "Window 1 -> Select 0",
        "Output 0",
        "Select 0 -> Print 0",
        "GroupBy 1 -> Window 1",
        "input 0 -> GroupBy 1",
        "Print 0 -> Output 0",
    )
    window = Window(700_000, 100_000, clock="processing")
    flow = BID.key_by("bidder").window(window).aggregate(avg_price=mean("price"), count_tuples=count())
    flow = flow.filter(call("as_int64", "window_end") % 1_000_000 == 0)
    same(found, flow.select(avg_price=col("avg_price"), count_tuples=col("count_tuples")))


def test_a_join_by_bounds() -> None:
    """Listing A.3: bids are not stored, auctions are; both bounds together are a band of width 0."""
    operators = {**JOINED, "Select 0": "select {fields: [B.price, A.id]}", "Filter 2": AT_LEAST, "Filter 3": AT_MOST}
    edges = ("Filter 2 -> Filter 3", "Filter 3 -> Select 0", "Join 0 -> Filter 2", "Select 0 -> Print 0")
    found = query(operators, *BOTH, *edges)
    where = (col("auction") >= col("id")) & (col("auction") <= col("id"))
    both = BID.join(AUCTION, within_s=(-DAY_S, 0), band=("auction", "id", 0, 0), where=where)
    same(found, both.select(price=col("price"), id=col("id")))


def test_a_join_by_key_with_a_grouped_aggregation() -> None:
    """Listing A.4; fields that are neither grouped nor aggregated become keys."""
    operators = {
        **JOINED,
        "Select 0": "select {fields: [avg(B.price) avg_price, count(B.auction) count_tuples, A.description, "
        "A.itemName]}",
        "Window 1": "window {external-timestamp-field: '', size: 100000, emit-type: PROCESSING_TIME, emit-size: 100, "
        "size-type: PROCESSING_TIME, jump: 1000}",
        "GroupBy 1": "groupby {fields: [A.id]}",
        "Filter 2": EQUAL,
    }
    edges = (
        "Window 1 -> Select 0",
        "Join 0 -> Filter 2",
        "Select 0 -> Print 0",
        "GroupBy 1 -> Window 1",
        "Filter 2 -> GroupBy 1",
    )
    found = query(operators, *BOTH, *edges)
    both = BID.join(AUCTION, on={"auction": "id"}, within_s=(-DAY_S, 0))
    flow = both.key_by("id", "description", "itemName").window(Window(100_000, 1_000, clock="processing"))
    flow = flow.aggregate(avg_price=mean("price"), count_tuples=count())
    names = ("avg_price", "count_tuples", "description", "itemName")
    same(found, flow.select(**{name: col(name) for name in names}))


def test_fields_of_one_name_on_both_sides_are_told_apart() -> None:
    operators = {
        **JOINED,
        "Window 0": "window {size: 2000000, size-type: EXTERNAL_TIME, emit-size: -1}",
        "Window 2": f"window {{size: 10, storage-s: 60, {STORAGE}}}",
        "Filter 2": EQUAL.replace("equals", "larger_than").replace("value: A.id", "value: A.id, offset: 5"),
        "Select 0": "select {fields: [B.dateTime bid, A.dateTime auction]}",
    }
    found = query(operators, *BOTH, "Join 0 -> Filter 2", "Filter 2 -> Select 0", "Select 0 -> Print 0")
    both = BID.join(AUCTION, within_s=(-60, 2), band=("auction", "id", None, -6), where=col("auction") > col("id") + 5)
    same(found, both.select(bid=col("dateTime"), auction=col("dateTime_right")))


LINE = {"Output 0": "output", "in": "input {stream-id: 3, alias: B}"}


@pytest.mark.parametrize(
    ("predicate", "condition"),
    [
        pytest.param(
            "op: larger_than, arg2: {type: constant, value: 100}", col("price") > 100, id="larger than a constant"
        ),
        pytest.param(
            "op: smaller_than, arg2: {type: constant, value: '100', value-type: long}",
            col("price") < 100,
            id="a constant with its type",
        ),
        pytest.param(
            "op: not_equals, arg2: {type: attribute, value: bidder}", col("price") != col("bidder"), id="another field"
        ),
        pytest.param(
            "op: in_list, arg2: {type: constant, value: [2, 1]}", col("price").is_in([1, 2]), id="one of a list"
        ),
    ],
)
def test_a_filter(predicate: str, condition: object) -> None:
    operators = {**LINE, "F": f"filter {{arg1: {{type: attribute, value: B.price}}, {predicate}}}", "P": "passthrough"}
    same(query(operators, "in -> P", "P -> F", "F -> Output 0"), BID.filter(condition))  # type: ignore[arg-type]


def test_windows_of_rows_and_of_external_time() -> None:
    edges = ("in -> W", "W -> S", "S -> Output 0")
    window = "size-type: TUPLE_COUNT, emit-type: TUPLE_COUNT, size: 10, jump: 5, emit-size: 5"
    operators = {**LINE, "W": f"window {{{window}}}", "S": "select {fields: [max(price)]}"}
    flow = BID.window(rows(10, 5)).aggregate(max_price=max_("price"))
    same(query(operators, *edges), flow.select(max_price=col("max_price")))
    operators["W"] = "window {size-type: EXTERNAL_TIME, size: 5000000, external-timestamp-field: B.dateTime}"
    flow = BID.window(tumbling(5)).aggregate(max_price=max_("price"))
    same(query(operators, *edges), flow.select(max_price=col("max_price")))


def test_a_pattern() -> None:
    condition = "{op: larger_than, arg1: {type: attribute, value: B.price}, arg2: {type: constant, value: 9}}"
    operators = {
        **LINE,
        "G": "groupby {fields: [B.bidder]}",
        "C": f"cep {{pattern: A+ B, within: 60000000, define: {{B: {condition}}}, measures: [first(A.dateTime) began, "
        "count(*) n], selection: next}",
    }
    flow = BID.key_by("bidder").match(
        "A+ B",
        within_s=60,
        define={"B": col("price") > 9},
        measures={"began": "first(A.dateTime)", "n": "count(*)"},
        selection="next",
    )
    same(query(operators, "in -> G", "G -> C", "C -> Output 0"), flow)


def test_ticks_and_another_event_time() -> None:
    definition = STREAMS + "  rowtime-column: {column: price, nanoseconds-per-tick: 1000000}\n"
    file = load_file(definition + "spequeries: {queries: []}", "old.yaml")
    assert (file.streams["Bid"].time, file.streams["Bid"].tick_ns) == ("price", 1_000_000)
    assert file.streams["Bid"].stream().schema.type_of("price") == "timestamp"
    assert file.graph == Graph()


AGGREGATED = {
    **LINE,
    "W": "window {size-type: TUPLE_COUNT, size: 10, jump: 5}",
    "S": "select {fields: [max(B.price) most]}",
}
WINDOWED = ("in -> W", "W -> S", "S -> Output 0")


@pytest.mark.parametrize(
    ("operators", "edges", "message"),
    [
        pytest.param(
            {"in": "input {stream-id: 9}"},
            WINDOWED,
            "there is no stream '9'; there are 0 (StopStream), 2 (Auction), 3 (Bid)",
            id="no such stream",
        ),
        pytest.param(
            {"in": "input {stream-id: 0}"},
            WINDOWED,
            "line 2: stream 'StopStream' needs a rowtime-column",
            id="a stream without time",
        ),
        pytest.param(
            {"in": "input"}, WINDOWED, "input 'in': parameter 'stream-id' is missing", id="an input of nothing"
        ),
        pytest.param(
            {"S": "select {fields: [max(B.cost)]}"},
            WINDOWED,
            "select 'S': there is no field 'B.cost'; there are B.dateTime",
            id="no such field",
        ),
        pytest.param(
            {"S": "select {fields: [median(B.price)]}"},
            WINDOWED,
            "aggregate must be one of avg, mean, sum",
            id="no such aggregate",
        ),
        pytest.param({"S": "select {fields: ['max(B.price']}"}, WINDOWED, "a field must be alias.field", id="no field"),
        pytest.param(
            {"S": "select {fields: [max(B.price) a, min(B.price) a]}"},
            WINDOWED,
            "two fields are called 'a'",
            id="two of one name",
        ),
        pytest.param(
            {"S": "select {fields: [B.price]}"},
            WINDOWED,
            "a select behind a window or groupby must have an aggregate",
            id="nothing aggregated",
        ),
        pytest.param(
            {"S": "select {columns: [B.price]}"},
            WINDOWED,
            "select 'S' has no key 'columns'; there are fields",
            id="a parameter of another form",
        ),
        pytest.param(
            {"S": "aggregate {aggregates: {}}"},
            WINDOWED,
            "operator type must be one of input, filter, groupby",
            id="a type of another form",
        ),
        pytest.param({"W": "print"}, WINDOWED, "select 'S': an aggregate needs a window before it", id="no window"),
        pytest.param(
            {"W": "window {size-type: SIZE, size: 10}"},
            WINDOWED,
            "size-type must be one of TUPLE_COUNT",
            id="no such window",
        ),
        pytest.param(
            {"W": "window {size-type: TUPLE_COUNT, emit-type: EXTERNAL_TIME, size: 10}"},
            WINDOWED,
            "emit-type of a window must be its size-type",
            id="two kinds of window",
        ),
        pytest.param(
            {"W": "window {size-type: TUPLE_COUNT, size: 0}"},
            WINDOWED,
            "size and jump of a window must be positive",
            id="an empty window",
        ),
        pytest.param(
            {"W": "window {size-type: TUPLE_COUNT, size: 5, jump: 10}"},
            WINDOWED,
            "window of rows needs 1 <= jump <= size",
            id="a jump too far",
        ),
        pytest.param(
            {"W": "window {size-type: TUPLE_COUNT, size: 5, emit-size: -1}"},
            WINDOWED,
            "a storage window (emit-size -1) must be followed by a join",
            id="stored for nothing",
        ),
        pytest.param(
            {"W": "window {size-type: TUPLE_COUNT}"}, WINDOWED, "window 'W': parameter 'size' is missing", id="no size"
        ),
        pytest.param(
            {"S": "print"},
            WINDOWED,
            "a window must be followed by a select with an aggregate",
            id="a window for nothing",
        ),
        pytest.param({"S": "join"}, WINDOWED, "join 'S': there must be 2 edges to it; got W", id="half a join"),
        pytest.param(
            {"W": "join"},
            ("in -> W", "in -> W", "W -> S", "S -> Output 0"),
            "there must be a storage window (emit-size -1) between 'in' and it",
            id="a join without storage",
        ),
        pytest.param({}, ("in -> W", "W -> S"), "no edge leads from it to anything", id="a loose end"),
        pytest.param(
            {"Output 0": "print"}, WINDOWED, "query 'NewName0' must have one output; got none", id="no output"
        ),
        pytest.param({}, (*WINDOWED, "Output 0 -> W"), "must not lead in a circle", id="a circle"),
        pytest.param(
            {"W": "filter {op: like, arg1: {}, arg2: {}}"},
            WINDOWED,
            "op must be one of larger_than, larger_than_or_equals",
            id="no such predicate",
        ),
        pytest.param(
            {"W": "filter {op: equals, arg1: {type: field, value: x}, arg2: {}}"},
            WINDOWED,
            "type of an argument must be attribute or constant; got 'field'",
            id="no such argument",
        ),
        pytest.param(
            {"W": "filter {op: equals, arg1: {type: attribute, value: price}}"},
            WINDOWED,
            "parameter 'arg2' is missing",
            id="half a predicate",
        ),
        pytest.param(
            {
                "W": "filter {op: equals, arg1: {type: attribute, value: price}, "
                "arg2: {type: constant, value: x, value-type: int}}"
            },
            WINDOWED,
            "value must be of type int; got x",
            id="a text for a number",
        ),
        pytest.param(
            {"W": "filter {op: in_list, arg1: {type: attribute, value: price}, arg2: {type: constant, value: 3}}"},
            WINDOWED,
            "in_list needs a constant list",
            id="no list",
        ),
        pytest.param(
            {"W": "cep {pattern: A}"}, WINDOWED, "cep 'W': parameter 'within' is missing", id="half a pattern"
        ),
        pytest.param(
            {"W": "cep {pattern: A, within: 5, measures: [count(*)]}"},
            WINDOWED,
            "a measure must have a name behind it",
            id="a measure without a name",
        ),
    ],
)
def test_a_mistake_names_file_and_line(operators: dict[str, str], edges: tuple[str, ...], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        query({**AGGREGATED, **operators}, *edges)
    assert message in str(refused.value)
    assert str(refused.value).startswith("old.yaml line ")
