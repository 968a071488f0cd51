"""Expressions: their type, their plain form, and what they reject."""

import json
import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.expressions import expressions

from shoal.errors import GraphError
from shoal.model.query.expression import Binary, Column, Expression, IsIn, col, from_data, lit
from shoal.model.query.lookup import Lookup, lookup
from shoal.model.query.schema import Schema

TYPES = {"i": "int64", "x": "float64", "s": "string", "b": "bool", "ts": "timestamp", "tops": "list<int64>"}
SCHEMA = Schema.of(TYPES)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["int64", "float64", "string", "bool", "timestamp"]).flatmap(lambda t: expressions(TYPES, t)))
def test_an_expression_is_the_same_after_a_journey_through_json(expression: Expression) -> None:
    again = from_data(json.loads(json.dumps(expression.data())))
    assert again.text == expression.text
    assert again.type_in(SCHEMA, "here") == expression.type_in(SCHEMA, "here")
    assert set(again.columns()) == set(expression.columns()) <= set(TYPES)


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        (col("i") + 1, "int64"),
        (1 - col("i"), "int64"),
        (col("i") * 2.0, "float64"),
        (col("i") / 2, "float64"),
        (1 / col("i"), "float64"),
        (col("i") // 2, "int64"),
        (col("x") // 2, "float64"),
        (col("i") % 2, "int64"),
        (2 + col("x"), "float64"),
        (3 * col("i"), "int64"),
        (col("i") == 1.5, "bool"),
        (col("ts") >= 0, "bool"),
        (0 < col("ts"), "bool"),  # noqa: SIM300
        (col("ts") != col("ts"), "bool"),
        (col("s") < "b", "bool"),
        (col("b") == True, "bool"),  # noqa: E712
        (~col("b") & (col("i") > 0) | col("b"), "bool"),
        (col("ts").is_in([0]), "bool"),
        (col("x").is_in([0.5]), "bool"),
        (lookup("i", {1: "a"}, "z"), "string"),
        (lookup("s", {"a": 1.5}, 0.0), "float64"),
        (lit(True), "bool"),
        (lit("a"), "string"),
    ],
)
def test_an_expression_has_a_type(expression: Expression, type_: str) -> None:
    assert expression.type_in(SCHEMA, "here") == type_


def choices_of_texts() -> Expression:
    return col("i").is_in(["a"])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param(
            col("z") + 1, "here names unknown column 'z'; there are i, x, s, b, ts, tops", id="unknown column"
        ),
        pytest.param(
            col("s") + 1,
            'here: \'add\' needs numbers; got string and int64 in ["add",["col","s"],["lit",1]]',
            id="a text plus a number",
        ),
        pytest.param(
            col("ts") + col("ts"),
            "here: 'add' needs a time and whole microseconds, or the difference of two times; "
            'got timestamp and timestamp in ["add",["col","ts"],["col","ts"]]',
            id="a time plus a time",
        ),
        pytest.param(
            col("b") * 2,
            'here: \'mul\' needs numbers; got bool and int64 in ["mul",["col","b"],["lit",2]]',
            id="a condition times a number",
        ),
        pytest.param(
            col("i") // 0,
            "here: 'floordiv' needs a constant divisor other than 0; got int64 and int64 in "
            '["floordiv",["col","i"],["lit",0]]',
            id="rounded division by zero",
        ),
        pytest.param(
            col("i") % -0.0,
            "here: 'mod' needs a constant divisor other than 0; got int64 and float64 in "
            '["mod",["col","i"],["lit",-0.0]]',
            id="remainder of minus zero",
        ),
        pytest.param(
            10 % col("i"),
            "here: 'mod' needs a constant divisor other than 0; got int64 and int64 in "
            '["mod",["lit",10],["col","i"]]',
            id="remainder of a column",
        ),
        pytest.param(
            10 // col("i"),
            "here: 'floordiv' needs a constant divisor other than 0; got int64 and int64 in "
            '["floordiv",["lit",10],["col","i"]]',
            id="rounded division by a column",
        ),
        pytest.param(
            col("s") == 1,
            'here: \'eq\' needs values of the same kind; got string and int64 in ["eq",["col","s"],["lit",1]]',
            id="a text equal to a number",
        ),
        pytest.param(
            col("b") == 1,
            'here: \'eq\' needs values of the same kind; got bool and int64 in ["eq",["col","b"],["lit",1]]',
            id="a condition equal to a number",
        ),
        pytest.param(
            col("ts") > 0.5,
            'here: \'gt\' needs values of the same kind; got timestamp and float64 in ["gt",["col","ts"],["lit",0.5]]',
            id="a time against a float",
        ),
        pytest.param(
            col("tops") == col("tops"),
            "here: 'eq' needs values of the same kind; got list<int64> and list<int64> in "
            '["eq",["col","tops"],["col","tops"]]',
            id="lists",
        ),
        pytest.param(
            col("i") & col("b"),
            'here: \'and\' needs two conditions; got int64 and bool in ["and",["col","i"],["col","b"]]',
            id="a number and a condition",
        ),
        pytest.param(
            col("b") | "x",
            'here: \'or\' needs two conditions; got bool and string in ["or",["col","b"],["lit","x"]]',
            id="a condition or a text",
        ),
        pytest.param(
            ~col("i"), 'here: ~ needs a condition; got int64 in ["not",["col","i"]]', id="the opposite of a number"
        ),
        pytest.param(
            choices_of_texts(), "here: is_in needs choices of type int64; got 'a'", id="a choice of another type"
        ),
        pytest.param(col("x").is_in([1]), "here: is_in needs choices of type float64; got 1", id="integers for floats"),
        pytest.param(
            col("ts").is_in(["now"]), "here: is_in needs choices of type int64; got 'now'", id="texts for times"
        ),
        pytest.param(
            lookup("x", {}, 0), "here: lookup needs an int64 or string key; got float64", id="a look-up by a float"
        ),
        pytest.param(
            lookup("i", {"a": 1}, 0),
            "here: lookup needs keys of type int64 and values of the default's type int; got 'a': 1",
            id="a look-up with keys of another type",
        ),
        pytest.param(
            lookup("i", {1: 1, 2: 2.0}, 0),
            "here: lookup needs keys of type int64 and values of the default's type int; got 2: 2.0",
            id="a look-up with values of two types",
        ),
        pytest.param(
            lookup("i", {1: 1, "a": 2}, 0),
            "here: lookup needs keys of type int64 and values of the default's type int; got 'a': 2",
            id="a look-up with keys of two types",
        ),
    ],
)
def test_a_wrong_type_is_an_error_that_names_the_place(expression: Expression, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        expression.type_in(SCHEMA, "here")
    assert str(caught.value) == message


NO_TRUTH = "an expression has no truth value; use &, | and ~ instead of and, or and not"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: col("i") > 0 and col("b"), NO_TRUTH, id="and"),
        pytest.param(lambda: not col("b"), NO_TRUTH, id="not"),
        pytest.param(lambda: 0 < col("i") < 9, NO_TRUTH, id="a chained comparison"),
        pytest.param(lambda: lit(math.nan), "a constant must not be NaN", id="not a number"),
        pytest.param(
            lambda: col("i") == 2**63,
            "an integer constant must fit 64 bits; got 9223372036854775808",
            id="an integer beyond 64 bits",
        ),
        pytest.param(
            lambda: col("i") == None,  # noqa: E711
            "a constant must be an int, float, str or bool; got NoneType None",
            id="nothing",
        ),
        pytest.param(
            lambda: col("i").is_in([1, 2**70]),
            "an integer constant must fit 64 bits; got 1180591620717411303424",
            id="a choice beyond 64 bits",
        ),
        pytest.param(lambda: col("x").is_in([math.nan]), "a constant must not be NaN", id="a choice that is no number"),
        pytest.param(
            lambda: col("i").is_in([None, 1]),  # type: ignore[list-item]
            "a constant must be an int, float, str or bool; got NoneType None",
            id="nothing as a choice",
        ),
        pytest.param(lambda: col("s").is_in("abc"), "is_in needs a list of values; got 'abc'", id="a text as choices"),
        pytest.param(
            lambda: col("i").is_in(5),  # type: ignore[arg-type]
            "is_in needs a list of values; got 5",
            id="a number as choices",
        ),
        pytest.param(
            lambda: lookup("i", {1: 2}, None),  # type: ignore[arg-type]
            "a constant must be an int, float, str or bool; got NoneType None",
            id="a look-up with nothing as default",
        ),
        pytest.param(
            lambda: lookup("i", {2**64: 2}, 0),
            "an integer constant must fit 64 bits; got 18446744073709551616",
            id="a look-up with a key beyond 64 bits",
        ),
        pytest.param(
            lambda: Lookup(col("i"), ((1, 2), (1, 3)), 0), "lookup holds key 1 twice", id="a look-up with a key twice"
        ),
        pytest.param(lambda: from_data([]), "unknown expression []", id="plain data of nothing"),
        pytest.param(lambda: from_data(["col"]), "unknown expression ['col']", id="plain data of half a column"),
        pytest.param(lambda: from_data("col"), "unknown expression 'col'", id="plain data that is a text"),
        pytest.param(
            lambda: from_data(["pow", ["lit", 1], ["lit", 2]]),
            "unknown expression ['pow', ['lit', 1], ['lit', 2]]",
            id="plain data of an unknown operation",
        ),
        pytest.param(
            lambda: from_data(["add", ["lit", 1]]),
            "unknown expression ['add', ['lit', 1]]",
            id="plain data with one side",
        ),
        pytest.param(lambda: from_data(["not", 5]), "unknown expression 5", id="plain data with a number inside"),
        pytest.param(
            lambda: from_data(["lookup", ["col", "i"], [[1]], 0]),
            "unknown expression ['lookup', ['col', 'i'], [[1]], 0]",
            id="plain data with half a pair",
        ),
    ],
)
def test_what_cannot_be_an_expression_cannot_be_built(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        build()
    assert str(caught.value) == message


def test_equal_expressions_have_equal_texts_whatever_order_their_values_came_in() -> None:
    assert col("s").is_in({"b", "a"}).text == col("s").is_in(["a", "b"]).text
    assert lookup("i", {2: 1, 1: 1}, 0).text == lookup("i", {1: 1, 2: 1}, 0).text


def test_different_expressions_have_different_texts() -> None:
    several = [
        lit(1),
        lit(1.0),
        lit(True),
        lit("1"),
        col("i"),
        col("i") == 1,
        col("i") == 1.0,
        1 - col("i"),
        col("i") - 1,
    ]
    assert len({expression.text for expression in several}) == len(several)


def test_an_expression_names_the_columns_it_reads() -> None:
    expression = lookup(col("i") % 3, {1: 0.5}, 0.0) + col("x") * col("x")
    assert list(expression.columns()) == ["i", "x", "x"]


def test_expressions_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        col("i").name = "other"  # type: ignore[misc]
    assert isinstance(col("i") + 1, Binary)
    assert isinstance(col("i").is_in([]), IsIn)
    assert isinstance(lookup("i", {}, 0).key, Column)


def test_expressions_can_be_members_of_sets_and_are_never_equal_there() -> None:
    assert len({col("i"), col("i")}) == 2
