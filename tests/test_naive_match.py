"""The oracle of patterns: matches small enough to be checked by eye, and regular expressions."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_windows import patterns
from tests.test_naive import CARS, S, answers, car

from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.pattern import pattern as read
from shoal.model.query.pattern import prev
from shoal.model.query.window import tumbling


def runs(pattern: str, values: Sequence[float], **options: Any) -> list[Any]:
    """First, last and number of rows of the matches in rows with the given values, one a second.

    A accepts 1 and 2, B accepts 2 and 3, C accepts 4, D every row.
    """
    stated = {"A": col("x").is_in([1.0, 2.0]), "B": col("x").is_in([2.0, 3.0]), "C": col("x") == 4.0}
    define = {name: condition for name, condition in stated.items() if name in pattern}
    measures = {"first": "first(ts)", "last": "last(ts)", "n": "count(*)"}
    flow = CARS.match(pattern, **{"within_s": 100, "measures": measures, "define": define, **options})
    found = answers(flow, [car(second, 0, float(x)) for second, x in enumerate(values)])
    return [(first // S, last // S, n) for first, last, n in found]


@pytest.mark.parametrize(
    ("pattern", "values", "options", "expected"),
    [
        pytest.param("A+ B", [1, 1, 2, 3, 1], {}, [(0, 3, 4)], id="greedy runs take all they can"),
        pytest.param("A+? B", [1, 1, 2, 3, 1], {}, [(0, 2, 3)], id="reluctant runs take no more than needed"),
        pytest.param("A+ B", [1, 2, 1], {}, [(0, 1, 2)], id="a run gives a row back to the next element"),
        pytest.param("A+ B", [1, 4, 2, 3], {}, [(2, 3, 2)], id="strict rows are consecutive"),
        pytest.param("A B? C", [1, 4, 1, 3, 4], {}, [(0, 1, 2), (2, 4, 3)], id="optional elements may be skipped"),
        pytest.param("A{2} C", [1, 1, 1, 4], {}, [(1, 3, 3)], id="numbers of rows are exact"),
        pytest.param("A{1,2}", [1, 1, 1], {}, [(0, 1, 2), (2, 2, 1)], id="matches follow each other"),
        pytest.param("A+", [1, 1, 1], {"after": "next_row"}, [(0, 2, 3), (1, 2, 2), (2, 2, 1)], id="or overlap"),
        pytest.param("A+", [1, 1, 1], {"within_s": 1}, [(0, 1, 2), (2, 2, 1)], id="a match is not longer than within"),
        pytest.param("A B", [1, 4, 4, 3], {"selection": "next"}, [(0, 3, 2)], id="next passes rows over"),
        pytest.param("A+ B", [1, 4, 1, 4, 3], {"selection": "next"}, [(0, 4, 3)], id="next also within runs"),
        pytest.param("A B+", [1, 3, 4, 3], {"selection": "next"}, [(0, 3, 3)], id="a greedy run at the end goes on"),
        pytest.param("A B+?", [1, 3, 4, 3], {"selection": "next"}, [(0, 1, 2)], id="a reluctant one ends at once"),
        pytest.param("A !C B", [1, 4, 3], {"selection": "next"}, [], id="a negated row between ends the attempt"),
        pytest.param("A !C B", [1, 5, 3, 4], {"selection": "next"}, [(0, 2, 2)], id="other rows between do not"),
        pytest.param("A !C B", [1, 4, 1, 3], {"selection": "next"}, [(2, 3, 2)], id="the next start row is tried"),
        pytest.param("A B", [1, 5, 3], {"selection": "next", "within_s": 1}, [], id="what comes too late is not taken"),
    ],
)
def test_a_pattern_matches_what_was_worked_out_by_hand(
    pattern: str, values: list[float], options: dict[str, Any], expected: list[Any]
) -> None:
    assert runs(pattern, values, **options) == expected


@settings(max_examples=100, deadline=None)
@given(st.composite(lambda draw: patterns(draw, negated=False))(), st.text("12345", max_size=30))
def test_strict_patterns_match_as_regular_expressions_do(pattern: str, text: str) -> None:
    classes = {"A": "12", "B": "23", "C": "4", "D": "12345"}
    expression = "".join(
        f"[{''.join(classes[letter] for letter in element.variables)}]{element.text.lstrip('(ABCD| )')}"
        for element in read(pattern).elements
    )
    expected = [(found.start(), found.end() - 1, len(found[0])) for found in re.finditer(expression, text)]
    assert runs(pattern, [float(digit) for digit in text]) == expected


def test_the_first_alternative_that_holds_names_a_row_and_measures_go_by_names() -> None:
    flow = CARS.key_by("k").match(
        "(A | B)+ C? D",
        within_s=10,
        define={"A": col("x") > 1, "B": col("x") > 0, "C": col("x") < -9, "D": col("x") <= 0},
        measures={"a": "count(A)", "b": "sum(B.x)", "c": "first(C.ts)", "c_mean": "mean(C.x)", "end": "last(D.ts)"},
    )
    events = [car(1, 7, 2.0), car(2, 7, 1.0), car(3, 7, 0.5), car(4, 7, 0.0), car(3, 8, 0.0)]
    assert answers(flow, events) == [(7, 1, 1.5, None, None, 4 * S)]


def test_prev_is_the_row_before_in_the_group_and_nothing_on_its_first_row() -> None:
    flow = CARS.key_by("k").match(
        "UP+", within_s=10, define={"UP": col("x") > prev("x")}, measures={"n": "count(UP)", "x": "first(x)"}
    )
    events = [car(0, 1, 1.0), car(1, 2, 9.0), car(2, 1, 2.0), car(3, 1, 3.0), car(4, 1, 0.0)]
    assert answers(flow, events) == [(1, 2, 2.0)]


def test_a_match_has_the_time_of_its_last_row() -> None:
    flow = CARS.match("A B", within_s=10, measures={"n": "count(*)"}).window(tumbling(1)).aggregate(n=count())
    assert answers(flow, [car(0), car(7)]) == [(8 * S, 1)]
