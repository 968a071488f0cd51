"""Expressions over columns have the value that they have for each row alone."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.expressions import INTEGERS, TEXTS, VALUES, expressions
from tests.naive_expressions import value_of

from shoal.kernels.columns.block import ARROW_TYPES, Block, as_arrow
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.expression.evaluate import evaluate, holds
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import null
from shoal.model.query.lookup import lookup
from shoal.model.query.nulls import required_by
from shoal.model.query.schema import Schema

TYPES = {"i": "int64", "j": "int64", "x": "float64", "y": "float64", "s": "string", "r": "string"}
TYPES |= {"flag": "bool", "ts": "timestamp", "due": "timestamp"}
SCHEMA = Schema.of(TYPES)
WHOLE_ROWS = st.lists(st.fixed_dictionaries({name: VALUES[type_] for name, type_ in TYPES.items()}), max_size=6)
ROWS = st.one_of(
    WHOLE_ROWS,
    st.lists(
        st.fixed_dictionaries({name: st.one_of(st.none(), VALUES[type_]) for name, type_ in TYPES.items()}), max_size=6
    ),
)


def block_of(rows: list[dict[str, Any]], *, encode: bool) -> Block:
    arrays = [pa.array([row[field.name] for row in rows], ARROW_TYPES[field.type]) for field in SCHEMA.fields]
    arrays = [array.dictionary_encode() if encode and array.type == pa.string() else array for array in arrays]
    return Block.from_arrow(pa.RecordBatch.from_arrays(arrays, names=list(SCHEMA.names)))


def plain(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()


def same(left: Any, right: Any) -> bool:
    return repr(left) == repr(right)


def check(expression: Expression, rows: list[dict[str, Any]], *, encode: bool = False) -> None:
    got = evaluate(expression, block_of(rows, encode=encode))
    wanted = [value_of(expression.data(), row) for row in rows]
    assert len(got) == len(rows)
    assert all(same(a, b) for a, b in zip(plain(got), wanted, strict=True)), (plain(got), wanted)
    type_ = ARROW_TYPES[expression.type_in(SCHEMA, "test")]
    assert as_arrow(got, type_).type == type_
    assert expression.may_be_null(SCHEMA) or None not in wanted
    if isinstance(got, Nullable):
        assert None in wanted
        assert not got.values[~got.valid].any()


ANY_EXPRESSION = st.sampled_from(["int64", "float64", "string", "bool", "timestamp"]).flatmap(
    lambda wanted: expressions(TYPES, wanted)
)


@settings(deadline=None, max_examples=200)
@given(ANY_EXPRESSION, ROWS, st.booleans())
def test_an_expression_over_columns_equals_the_expression_over_each_row(
    expression: Expression, rows: list[dict[str, Any]], encode: bool
) -> None:
    check(expression, rows, encode=encode)


@settings(deadline=None, max_examples=100)
@given(expressions(TYPES, "bool"), ROWS)
def test_a_condition_holds_where_it_is_true_and_columns_it_requires_are_not_null_there(
    condition: Expression, rows: list[dict[str, Any]]
) -> None:
    wanted = [value_of(condition.data(), row) is True for row in rows]
    assert holds(condition, block_of(rows, encode=False)).tolist() == wanted
    for row in (row for row, there in zip(rows, wanted, strict=True) if there):
        assert all(row[name] is not None for name in required_by(condition))


@pytest.mark.slow
@settings(deadline=None, max_examples=5_000)
@given(ANY_EXPRESSION, ROWS, st.booleans())
def test_many_more_expressions_over_columns_equal_those_over_each_row(
    expression: Expression, rows: list[dict[str, Any]], encode: bool
) -> None:
    check(expression, rows, encode=encode)


ROW = {"i": 7, "j": -3, "x": 0.0, "y": math.nan, "s": "car", "r": "", "flag": True, "ts": 5, "due": -5}


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(lit(1).is_in([1, 2]), id="a constant among choices"),
        pytest.param(lit("a").is_in(["b"]), id="a constant text among choices"),
        pytest.param(lookup(lit(7), {7: 1}, 0), id="a lookup of a constant"),
        pytest.param(lookup(lit("car"), {"car": "x"}, "y"), id="a lookup of a constant text"),
        pytest.param(lit("a") < lit("b"), id="a comparison of constant texts"),
        pytest.param(lit(2**62) + lit(2**62), id="a constant sum that wraps around"),
        pytest.param(lit(1) / lit(0), id="a constant quotient by zero"),
        pytest.param(~lit(True), id="a negated constant condition"),
        pytest.param(col("i").is_in([]), id="no choices"),
        pytest.param(col("s").is_in([]), id="no choices for a text"),
        pytest.param(lookup("i", {}, 3), id="an empty integer table"),
        pytest.param(lookup("s", {}, "x"), id="an empty text table"),
        pytest.param(1 / col("x"), id="a quotient by a column that is zero"),
        pytest.param(0 / col("x"), id="zero divided by zero"),
        pytest.param((col("i") - 7) % -3, id="a remainder with the sign of the divisor"),
        pytest.param(col("y") == col("y"), id="NaN compared with itself"),
        pytest.param(col("y") > col("y"), id="NaN not greater than itself"),
        pytest.param(col("y") > 1e300, id="NaN greater than a constant"),
        pytest.param(col("y") < lit(0.0) / lit(0.0), id="NaN against a constant that is computed as NaN"),
        pytest.param(col("x") < lit(0.0) / lit(0.0), id="a number against a constant that is computed as NaN"),
        pytest.param(null("int64") + 1, id="a null constant"),
        pytest.param(null("string") < lit("a"), id="a null text against a constant"),
        pytest.param(null("bool") & col("flag"), id="a null condition and a true one"),
        pytest.param(null("bool") | True, id="a null condition or true"),
        pytest.param(lookup(null("int64"), {0: 1}, 5), id="a null key has the default"),
        pytest.param(lookup(null("string"), {"": "x"}, "y"), id="a null text as key has the default"),
        pytest.param(null("string").is_in([""]), id="a null text among choices"),
        pytest.param(col("i") == 2.0**53, id="an integer against a float"),
        pytest.param(col("ts") > col("due"), id="two times"),
        pytest.param(col("ts").is_in([5]), id="a time among choices"),
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_edges_of_expressions(expression: Expression, rows: int) -> None:
    check(expression, [ROW] * rows)
    check(expression, [ROW] * rows, encode=True)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(col("i") + col("j"), id="a sum"),
        pytest.param(col("i") - col("j"), id="a difference"),
        pytest.param(col("i") * col("j"), id="a product"),
    ],
)
def test_integers_wrap_around_at_64_bits(expression: Expression) -> None:
    check(expression, [{**ROW, "i": -(2**63), "j": 2**63 - 1}, {**ROW, "i": 2**63 - 1, "j": -(2**63)}])


def test_the_smallest_integer_divided_by_minus_one_wraps_around() -> None:
    rows = [{**ROW, "i": -(2**63)}]
    check(col("i") // -1, rows)
    check(col("i") % -1, rows)


@settings(deadline=None, max_examples=100)
@given(st.lists(INTEGERS, max_size=20), st.lists(INTEGERS, unique=True, max_size=6))
def test_positions_of_integers_are_those_of_a_list(column: list[int], values: list[int]) -> None:
    wanted = [values.index(value) if value in values else -1 for value in column]
    assert Index(values).positions(np.array(column, np.int64)).tolist() == wanted


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(TEXTS), max_size=20), st.lists(st.sampled_from(TEXTS), unique=True), st.booleans())
def test_positions_of_texts_are_those_of_a_list(column: list[str], values: list[str], encode: bool) -> None:
    array = pa.array(column, pa.string())
    wanted = [values.index(value) if value in values else -1 for value in column]
    assert Index(values).positions(array.dictionary_encode() if encode else array).tolist() == wanted


def test_positions_of_far_values_do_not_wrap_into_the_table() -> None:
    column = np.array([-(2**63), 2**63 - 1, 0, 5], np.int64)
    assert Index([5, 2**22, 1]).positions(column).tolist() == [-1, -1, -1, 0]
