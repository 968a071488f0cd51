"""Functions in expressions: the types they give, and what they reject."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shoal.errors import GraphError
from shoal.model.query.expression import Expression, col, from_data, lit
from shoal.model.query.functions import FUNCTIONS, abs_, call, floor, if_, round_, udf
from shoal.model.query.schema import Schema

SCHEMA = Schema.of({"t": "timestamp", "s": "string", "n": "int64", "x": "float64", "b": "bool", "l": "list<int64>"})

TYPED: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "abs": [(("n",), "int64"), (("x",), "float64")],
    "floor": [(("n",), "int64"), (("x",), "int64")],
    "ceil": [(("x",), "int64")],
    "round": [(("x",), "int64")],
    "sqrt": [(("n",), "float64")],
    "exp": [(("x",), "float64")],
    "ln": [(("x",), "float64")],
    "power": [(("n", "x"), "float64")],
    "distance": [(("x", "x", "n", "n"), "float64")],
    "haversine": [(("x", "x", "x", "n"), "float64")],
    "in_polygon": [(("s", "x", "n"), "bool")],
    "in_polygon_degrees": [(("s", "x", "x"), "bool")],
    "least": [(("n", "n", "n"), "int64"), (("n", "x"), "float64"), (("s", "s"), "string"), (("t", "t"), "timestamp")],
    "greatest": [(("x", "n"), "float64"), (("b", "b"), "bool")],
    "if": [(("b", "n", "x"), "float64"), (("b", "s", "s"), "string")],
    "upper": [(("s",), "string")],
    "lower": [(("s",), "string")],
    "length": [(("s",), "int64")],
    "concat": [(("s", "s", "s"), "string")],
    "substring": [(("s", "n", "n"), "string")],
    "starts_with": [(("s", "s"), "bool")],
    "contains": [(("s", "s"), "bool")],
    "hour": [(("t",), "int64")],
    "minute": [(("t",), "int64")],
    "second": [(("t",), "int64")],
    "as_int64": [((name,), "int64") for name in "tsnxb"],
    "as_float64": [(("n",), "float64")],
    "as_string": [(("n",), "string"), (("b",), "string"), (("s",), "string")],
    "is_null": [((name,), "bool") for name in "tsnxb"],
    "coalesce": [(("n", "x"), "float64"), (("s", "s", "s"), "string")],
    "nullif": [(("n", "x"), "int64"), (("t", "t"), "timestamp")],
    "is_same": [(("s", "s"), "bool"), (("n", "x"), "bool")],
    "as_timestamp": [(("n",), "timestamp"), (("t",), "timestamp")],
}


def test_every_function_is_checked() -> None:
    assert set(TYPED) == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "arguments", "type_"),
    [
        pytest.param(name, arguments, type_, id=f"{name} of {', '.join(arguments)}")
        for name, several in TYPED.items()
        for arguments, type_ in several
    ],
)
def test_a_function_gives_a_type_and_survives_a_journey_through_json(
    name: str, arguments: tuple[str, ...], type_: str
) -> None:
    expression = call(name, *arguments)
    assert expression.type_in(SCHEMA, "here") == type_
    again = from_data(json.loads(json.dumps(expression.data())))
    assert again.data() == expression.data()
    assert again.type_in(SCHEMA, "here") == type_
    assert set(expression.columns()) == set(arguments)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_function_takes_lists_or_nothing(name: str) -> None:
    for arguments, got in (((), "nothing"), (("l",), "list<int64>"), (("l", "l"), "list<int64>, list<int64>")):
        with pytest.raises(GraphError) as caught:
            call(name, *arguments).type_in(SCHEMA, "here")
        assert str(caught.value) == f"here: {name} needs {FUNCTIONS[name].takes}; got {got}"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param(abs_("s"), "here: abs needs a number; got string", id="abs of a text"),
        pytest.param(call("power", "n"), "here: power needs two numbers; got int64", id="power of one number"),
        pytest.param(
            call("least", "n", "s"),
            "here: least needs two or more values of one type; got int64, string",
            id="least of different types",
        ),
        pytest.param(
            if_(col("n"), 1, 2),
            "here: if needs a condition and two values of one type; got int64, int64, int64",
            id="if without a condition",
        ),
        pytest.param(
            if_(col("b"), 1, "a"),
            "here: if needs a condition and two values of one type; got bool, int64, string",
            id="if of different types",
        ),
        pytest.param(
            call("as_string", "x"),
            "here: as_string needs an integer, condition or text; got float64",
            id="a float as a text",
        ),
        pytest.param(call("hour", "n"), "here: hour needs a time; got int64", id="hour of a number"),
        pytest.param(floor("y"), "here names unknown column 'y'; there are t, s, n, x, b, l", id="unknown column"),
    ],
)
def test_a_wrong_type_is_an_error_that_names_the_place(expression: Expression, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        expression.type_in(SCHEMA, "here")
    assert str(caught.value) == message


def test_a_function_there_is_not_cannot_be_called() -> None:
    with pytest.raises(GraphError) as caught:
        call("cosine", "x")
    assert str(caught.value) == f"there is no function 'cosine'; there are {', '.join(FUNCTIONS)}"


@pytest.mark.parametrize(
    ("build", "data"),
    [
        pytest.param(lambda: round_(col("x") / 2), ["call", "round", ["div", ["col", "x"], ["lit", 2]]], id="nested"),
        pytest.param(lambda: call("concat", "s", lit("!")), ["call", "concat", ["col", "s"], ["lit", "!"]], id="texts"),
        pytest.param(
            lambda: if_(col("b"), "yes", "no"), ["call", "if", ["col", "b"], ["lit", "yes"], ["lit", "no"]], id="if"
        ),
    ],
)
def test_arguments_are_columns_by_name_or_expressions(build: Callable[[], Expression], data: list[Any]) -> None:
    assert build().data() == data


@udf("bool")
def positive(n: Any) -> Any:
    return n > 0


def test_a_users_function_has_the_type_it_declares_and_survives_a_journey_through_json() -> None:
    expression = positive("n")
    assert expression.type_in(SCHEMA, "here") == "bool"
    again = from_data(json.loads(json.dumps(expression.data())))
    assert again.data() == expression.data()
    assert (expression.name, set(again.columns())) == ("positive", {"n"})


def test_a_users_function_of_a_column_there_is_not_is_an_error() -> None:
    with pytest.raises(GraphError) as caught:
        positive("y").type_in(SCHEMA, "here")
    assert str(caught.value) == "here names unknown column 'y'; there are t, s, n, x, b, l"


@pytest.mark.parametrize("type_", ["list<int64>", "decimal"])
def test_a_users_function_must_give_what_a_stream_can_hold(type_: str) -> None:
    @udf(type_)
    def f(n: Any) -> Any:
        return n

    with pytest.raises(GraphError) as caught:
        f("n")
    assert str(caught.value) == f"function 'f' must give one of int64, float64, string, bool, timestamp; got {type_!r}"
