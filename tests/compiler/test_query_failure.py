"""Errors of queries: which row they show, and which errors are not about a query."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.compiler.query_failure import failure_text, query_error
from shoal.errors import FunctionError, GraphError, QueryError, RunError
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.expression.failing import LONGEST, failing_range, shown


def block(length: int) -> Block:
    numbers = np.arange(length)
    columns = {
        "k": numbers,
        "maybe": Nullable(np.zeros(length, np.int64), numbers % 2 == 0),
        "name": pa.array([f"n\n{number}" for number in range(length)]),
        "#time": numbers,
        "ts": numbers * 1_000_000,
    }
    return Block(columns, length)


def test_the_row_is_shown_as_the_user_knows_it() -> None:
    def attempt(rows: Block) -> None:
        if 5 in rows.columns["k"]:
            raise ValueError("five")

    error = query_error(("q",), ValueError("five"), block(8), attempt, {"ts": "timestamp"})
    assert isinstance(error, QueryError)
    assert error.row == "k=5, maybe=None, name='n\\n5', ts=1970-01-01T00:00:05Z"
    assert str(error) == f"query 'q' failed: ValueError: five; row: {error.row}"


def test_rows_that_fail_only_together_are_said_to() -> None:
    def attempt(rows: Block) -> None:
        if {2, 6} <= set(rows.columns["k"].tolist()):
            raise ValueError("both")

    error = query_error(("q",), ValueError("both"), block(8), attempt)
    assert isinstance(error, QueryError)
    assert error.row.endswith("(the first of 8 rows, none of which fails alone)")


def test_without_rows_the_error_says_what_a_function_was_called_with() -> None:
    error = query_error(("q",), FunctionError("aggregate 'A' raised E in merge", "states 1 and 2"))
    assert str(error) == "query 'q' failed: aggregate 'A' raised E in merge, called with states 1 and 2"


@pytest.mark.parametrize("error", [MemoryError(), GraphError("no"), QueryError("already", ("a",))])
def test_errors_that_are_not_about_a_query_stay_as_they_are(error: Exception) -> None:
    assert query_error(("q",), error) is error


def test_an_error_of_a_kernel_is_one_of_the_query() -> None:
    assert isinstance(query_error(("q",), RunError("as_int64 needs digits")), QueryError)


def test_many_queries_are_counted() -> None:
    names = [f"q{number}" for number in range(1_200)]
    assert failure_text(names, "no", "").startswith("queries 'q0', 'q1', 'q2', 'q3', 'q4' and 1,195 more, which share")


@given(st.integers(1, 300), st.data())
def test_one_bad_row_is_found_among_any_number(length: int, data: Any) -> None:
    bad = data.draw(st.integers(0, length - 1))

    def attempt(start: int, stop: int) -> None:
        if start <= bad < stop:
            raise KeyError(bad)

    assert failing_range(attempt, length) == (bad, bad + 1)


@given(st.text() | st.binary())
def test_a_value_is_one_short_line(value: Any) -> None:
    text = shown(value)
    assert "\n" not in text
    assert len(text) <= LONGEST + 3
    text.encode()
