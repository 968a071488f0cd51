"""Flows that match: how what is wrong is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.language.python.left_and_right import LEFT, NO_TIME, TIMELESS, WHERE, WINDOWED, refused

from shoal.language.python.flow import Flow
from shoal.model.query.expression import col
from shoal.model.query.pattern import prev

COUNT = {"rows": "count(*)"}


def matched(pattern: str = "A B", flow: Flow = LEFT, **terms: Any) -> Flow:
    return flow.match(pattern, **{"within_s": 1, "measures": COUNT, **terms})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: matched(flow=TIMELESS), f"match {WHERE} {NO_TIME}", id="no event time"),
        pytest.param(
            lambda: matched(flow=WINDOWED),
            f"match {WHERE} must not stand between a window and its aggregate",
            id="a match in a window",
        ),
        pytest.param(lambda: matched("A*"), "pattern 'A*' must demand at least one row", id="a pattern of nothing"),
        pytest.param(
            lambda: matched(after="last_row"),
            f"match {WHERE} goes on past_last_row or next_row and selects strict or next; got 'last_row', 'strict'",
            id="another way to go on",
        ),
        pytest.param(
            lambda: matched(selection="any"),
            f"match {WHERE} goes on past_last_row or next_row and selects strict or next; got 'past_last_row', 'any'",
            id="another selection",
        ),
        pytest.param(
            lambda: matched("A !C B"),
            f"match {WHERE}: a negated element needs selection='next'; with 'strict' nothing lies in between",
            id="a negation where nothing is passed over",
        ),
        pytest.param(
            lambda: matched(define={"C": col("n") > 1}),
            f"match {WHERE} defines 'C'; the pattern has A, B",
            id="a condition for another variable",
        ),
        pytest.param(
            lambda: matched(define={"A": True}),
            f"match {WHERE} needs a condition for 'A', such as col('speed') > 0; got True",
            id="a condition that is no expression",
        ),
        pytest.param(
            lambda: matched(define={"A": col("n")}),
            f'match {WHERE} needs a condition for \'A\'; ["col","n"] is int64',
            id="a number as condition",
        ),
        pytest.param(
            lambda: matched(define={"A": prev("y") > 1}),
            f"match {WHERE} 'A' names unknown column 'y'; there are ts, k, n, x, seen",
            id="an unknown column of the row before",
        ),
        pytest.param(
            lambda: matched(measures={}),
            f"match {WHERE} needs at least one measure, e.g. measures={{'n': 'count(*)'}}",
            id="no measures",
        ),
        pytest.param(
            lambda: matched(measures={"it": "sum(A.k)"}),
            f"match {WHERE} 'it': sum needs numbers; 'k' is string",
            id="a sum of texts",
        ),
        pytest.param(
            lambda: matched(flow=LEFT.key_by("k"), measures={"k": "count(*)"}),
            f"match {WHERE}: measure 'k' has the name of a key",
            id="a measure with the name of a key",
        ),
        pytest.param(
            lambda: matched(within_s=-1),
            f"match {WHERE} needs a positive number of seconds; got -1",
            id="less than no time",
        ),
    ],
)
def test_a_wrong_match_is_refused(build: Callable[[], Any], message: str) -> None:
    refused(build, message)
