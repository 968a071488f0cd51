"""Graph files in DCEP-Sim's operators with mistakes: each names its file and line."""

import pytest
from tests.language.dcep.dcep_texts import LINE, query

from shoal.errors import GraphError

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
            "a select after a window or groupby must have an aggregate",
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
            "a measure must be followed by a name",
            id="a measure without a name",
        ),
    ],
)
def test_a_mistake_names_file_and_line(operators: dict[str, str], edges: tuple[str, ...], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        query({**AGGREGATED, **operators}, *edges)
    assert message in str(refused.value)
    assert str(refused.value).startswith("old.yaml line ")
