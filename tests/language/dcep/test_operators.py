"""Graph files in DCEP-Sim's operators, in the forms of its thesis: each is the flow one would write by hand."""

import pytest
from tests.language.dcep.dcep_texts import LINE, STREAMS, query

from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.yaml.graph_file import load_file
from shoal.model.query.aggregate import count, max_, mean
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import Window, rows, tumbling

AUCTION = Stream(
    "Auction",
    {"dateTime": "timestamp", "id": "int64", "itemName": "string", "description": "string", "reserve": "float64"},
    time="dateTime",
)
BID = Stream("Bid", {"dateTime": "timestamp", "auction": "int64", "bidder": "int64", "price": "int64"}, time="dateTime")
DAY_S = 86_400.0
STORAGE = "external_timestamp_field: '', emit_type: TUPLE_COUNT, emit_size: -1, size_type: TUPLE_COUNT, jump: 1"


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
