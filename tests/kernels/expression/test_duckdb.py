"""Expressions over nulls and NaN have the values that DuckDB gives them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.columns.block import ARROW_TYPES, Block
from shoal.kernels.expression.evaluate import evaluate
from shoal.model.query.expression import Expression, col, lit
from shoal.model.query.functions import call, coalesce, if_, is_null, is_same, null, nullif
from shoal.model.query.schema import FieldType

TYPES: Mapping[str, FieldType] = {
    "i": "int64",
    "j": "int64",
    "x": "float64",
    "y": "float64",
    "s": "string",
    "r": "string",
    "p": "bool",
    "q": "bool",
}
SQL_TYPES = {"int64": "bigint", "float64": "double", "string": "varchar", "bool": "boolean"}
VALUES: Mapping[str, Sequence[Any]] = {
    "int64": (-2, 0, 1, 7),
    "float64": (-math.inf, -1.5, 0.0, 1.0, 7.25, math.inf, math.nan),
    "string": ("", "a", "b", "Straße"),
    "bool": (False, True),
}
Both = tuple[Expression, str]
"""An expression, and the same in SQL."""


def _literal(value: Any, type_: str) -> str:
    text = f"'{value}'" if isinstance(value, str | float) else str(value)
    return f"cast({text} as {SQL_TYPES[type_]})"


@st.composite
def both(draw: Callable[[st.SearchStrategy[Any]], Any], wanted: str, depth: int) -> Both:
    """A random expression of a type, and the same in SQL."""
    kind = draw(st.sampled_from(["column", "column", "literal", "null"] if not depth else _KINDS[wanted]))
    if kind == "column":
        name = draw(st.sampled_from([name for name, type_ in TYPES.items() if type_ == wanted]))
        return col(name), name
    if kind == "literal":
        value = draw(st.sampled_from([value for value in VALUES[wanted] if str(value) != "nan"]))
        return lit(value), _literal(value, wanted)
    if kind == "null":
        return null(wanted), f"cast(null as {SQL_TYPES[wanted]})"
    types, expression, sql = _FORMS[kind]
    alike = draw(st.sampled_from(sorted(SQL_TYPES)))
    inner = [draw(both({"same": wanted, "alike": alike}.get(type_, type_), depth - 1)) for type_ in types]
    return expression(*(each for each, _ in inner)), sql.format(*(text for _, text in inner))


_FORMS: Mapping[str, tuple[tuple[str, ...], Callable[..., Expression], str]] = {
    "add": (("float64", "float64"), lambda a, b: a + b, "({} + {})"),
    "mul": (("float64", "int64"), lambda a, b: a * b, "({} * {})"),
    "abs": (("same",), lambda a: call("abs", a), "abs({})"),
    "if": (("bool", "same", "same"), if_, "(case when {} then {} else {} end)"),
    "coalesce": (("same", "same", "same"), coalesce, "coalesce({}, {}, {})"),
    "nullif": (("same", "same"), nullif, "nullif({}, {})"),
    "least": (("same", "same"), lambda a, b: call("least", a, b), "least({}, {})"),
    "greatest": (("same", "same"), lambda a, b: call("greatest", a, b), "greatest({}, {})"),
    "upper": (("string",), lambda a: call("lower", a), "lower({})"),
    "concat": (("string", "string"), lambda a, b: call("concat", a, b), "({} || {})"),
    "eq": (("alike", "alike"), lambda a, b: a == b, "({} = {})"),
    "ne": (("alike", "alike"), lambda a, b: a != b, "({} <> {})"),
    "lt": (("alike", "alike"), lambda a, b: a < b, "({} < {})"),
    "le": (("int64", "float64"), lambda a, b: a <= b, "({} <= {})"),
    "gt": (("float64", "int64"), lambda a, b: a > b, "({} > {})"),
    "ge": (("alike", "alike"), lambda a, b: a >= b, "({} >= {})"),
    "is_same": (("alike", "alike"), is_same, "({} is not distinct from {})"),
    "is_null": (("alike",), is_null, "({} is null)"),
    "and": (("bool", "bool"), lambda a, b: a & b, "({} and {})"),
    "or": (("bool", "bool"), lambda a, b: a | b, "({} or {})"),
    "not": (("bool",), lambda a: ~a, "(not {})"),
    "in": (("float64",), lambda a: a.is_in([1.0, -1.5]), "({} in (1.0::double, -1.5::double))"),
    "in text": (("string",), lambda a: a.is_in(["a", ""]), "({} in ('a', ''))"),
}
_ANY = ["column", "column", "literal", "null", "if", "coalesce", "nullif", "least", "greatest"]
_KINDS: Mapping[str, list[str]] = {
    "int64": [*_ANY, "abs"],
    "float64": [*_ANY, "add", "mul", "abs"],
    "string": [*_ANY, "upper", "concat"],
    "bool": [
        *_ANY[:7],
        *(name for name in _FORMS if name in "eq ne lt le gt ge is_same is_null and or not in in text"),
    ],
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from([None, *VALUES[type_]]) for name, type_ in TYPES.items()}),
    min_size=1,
    max_size=20,
)

DUCKDB = duckdb.connect()


def _plain(column: Any) -> list[Any]:
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    return _without_signs_of_zeros(values)


def _without_signs_of_zeros(values: list[Any]) -> list[Any]:
    return [0.0 if isinstance(value, float) and value == 0 else value for value in values]


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(SQL_TYPES)).flatmap(lambda wanted: both(wanted, 3)), ROWS)
def test_an_expression_over_nulls_and_nan_is_what_duckdb_says(pair: Both, rows: list[dict[str, Any]]) -> None:
    expression, sql = pair
    batch = pa.record_batch({name: pa.array([row[name] for row in rows], ARROW_TYPES[TYPES[name]]) for name in TYPES})
    DUCKDB.register("given", pa.table(batch))
    wanted = [value for (value,) in DUCKDB.execute(f"select {sql} from given").fetchall()]
    got = _plain(evaluate(expression, Block.from_arrow(batch)))
    assert repr(got) == repr(_without_signs_of_zeros(wanted)), sql
