"""The pattern kernel: which rows a match takes, and when it is final."""

from typing import Any

import pytest
from tests.kernels.rows import LEFT, US, Row, block, kernel, results_of, rows, sizes

from shoal.kernels.kernel import FOREVER_US
from shoal.language.python.flow import Flow
from shoal.model.query.expression import col, lit
from shoal.model.query.pattern import prev
from shoal.model.query.schema import TIME

LETTERS = {letter: col("k") == letter.lower() for letter in "ABCDE"}


def matching(pattern: str, within_us: int = 100, **terms: Any) -> Flow:
    """Matches of a pattern whose variables are the letters that rows have."""
    define = {letter: condition for letter, condition in LETTERS.items() if letter in pattern}
    measures = {"began": "first(ts)", "ended": "last(ts)", "taken": "count(*)"}
    terms = {"define": define, "measures": measures, **terms}
    return LEFT.match(pattern, within_s=within_us * US, **terms)


def spelled(text: str) -> list[Row]:
    """A row per letter, one microsecond apart."""
    return [(time, letter) for time, letter in enumerate(text)]


def found(flow: Flow, text: str) -> list[Row]:
    return rows(results_of(flow, spelled(text)), "began", "ended", "taken")


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        pytest.param("A B", "abab", [(0, 1, 2), (2, 3, 2)], id="one after another"),
        pytest.param("A B", "axb", [], id="a row between is no match"),
        pytest.param("A B", "aab", [(1, 2, 2)], id="a beginning that fails gives way to the next"),
        pytest.param("A+ B", "aaab", [(0, 3, 4)], id="greedy from the first"),
        pytest.param("A+ (A | B)", "aaa", [(0, 2, 3)], id="greedy gives a row back"),
        pytest.param("A* A A B", "aaab", [(0, 3, 4)], id="greedy gives rows back"),
        pytest.param("A{2} A? B", "aaab", [(0, 3, 4)], id="an optional row is taken if present"),
        pytest.param("A{2} A? B", "aab", [(0, 2, 3)], id="an optional row may be missing"),
        pytest.param("A{2,3}", "aaaaa", [(0, 2, 3), (3, 4, 2)], id="not more rows than allowed"),
        pytest.param("A+?", "aaa", [(0, 0, 1), (1, 1, 1), (2, 2, 1)], id="reluctant takes as few as it can"),
        pytest.param("A+? B", "aab", [(0, 2, 3)], id="reluctant takes as many as it needs"),
        pytest.param("A (B | C) D", "abdacdaed", [(0, 2, 3), (3, 5, 3)], id="alternatives"),
        pytest.param("A B? C? D", "adabdacdabcd", [(0, 1, 2), (2, 4, 3), (5, 7, 3), (8, 11, 4)], id="left out or not"),
        pytest.param("A B* C", "abbbbd", [], id="a run that ends in nothing"),
    ],
)
def test_a_strict_pattern_takes_rows_one_after_another(pattern: str, text: str, wanted: list[Row]) -> None:
    assert found(matching(pattern), text) == wanted


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        pytest.param("A B", "axxb", [(0, 3, 2)], id="rows that do not fit are skipped"),
        pytest.param("A B", "aab", [(0, 2, 2)], id="the first beginning is preferred"),
        pytest.param("A !C B", "axb", [(0, 2, 2)], id="a row that is not forbidden is skipped"),
        pytest.param("A !C B", "acb", [], id="a forbidden row ends the match"),
        pytest.param("A !C B", "acab", [(2, 3, 2)], id="another beginning after a forbidden row"),
        pytest.param("A !C B D", "abcd", [(0, 3, 3)], id="forbidden only at its position"),
        pytest.param("A+ !C B", "aacab", [(3, 4, 2)], id="a run must not span a forbidden row"),
        pytest.param("A !(C | D) B", "adbab", [(3, 4, 2)], id="one of several that are forbidden"),
        pytest.param("A !C !D B", "adbacbab", [(6, 7, 2)], id="two that are forbidden"),
        pytest.param("A !B B", "acb", [(0, 2, 2)], id="a row that fits is not skipped"),
        pytest.param("A B+ C", "axbxbxc", [(0, 6, 4)], id="a run with skipped rows"),
    ],
)
def test_a_pattern_with_selection_next_skips_rows(pattern: str, text: str, wanted: list[Row]) -> None:
    assert found(matching(pattern, selection="next"), text) == wanted


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        pytest.param("past_last_row", [(0, 3, 4)], id="after the last row"),
        pytest.param("next_row", [(0, 3, 4), (1, 3, 3), (2, 3, 2)], id="with the next row"),
    ],
)
def test_the_next_match_begins_where_it_may(after: str, wanted: list[Row]) -> None:
    assert found(matching("A+ B", after=after), "aaab") == wanted


@pytest.mark.parametrize(
    ("within_us", "wanted"),
    [
        pytest.param(3, [(0, 3, 4)], id="exactly as long as allowed"),
        pytest.param(2, [(1, 3, 3)], id="one too long, so one begins later"),
        pytest.param(1, [(2, 3, 2)], id="two too long"),
    ],
)
def test_a_match_lasts_no_longer_than_allowed(within_us: int, wanted: list[Row]) -> None:
    assert found(matching("A+ B", within_us), "aaab") == wanted


def test_a_match_is_emitted_once_no_longer_match_is_possible() -> None:
    made = kernel(matching("A B+", within_us=5))
    state = made.open()
    made.process(state, block(spelled("ab")))
    assert made.close_until(state, 5).length == 0
    assert sizes(state) == {1: 2}
    results = made.close_until(state, 6)
    assert rows(results, "began", "ended", TIME) == [(0, 1, 1)]
    assert made.hold_us == 6
    assert sizes(state) == {}


def test_a_match_that_cannot_grow_is_emitted_at_once() -> None:
    made = kernel(matching("A B+?", within_us=50))
    state = made.open()
    made.process(state, block(spelled("ab")))
    assert made.close_until(state, 1).length == 0
    assert rows(made.close_until(state, 2), "began", "ended") == [(0, 1)]


def test_a_row_exactly_at_the_deadline_belongs_to_the_match() -> None:
    made = kernel(matching("A B", within_us=5))
    state = made.open()
    made.process(state, block([(0, "a")]))
    assert made.close_until(state, 5).length == 0
    made.process(state, block([(5, "b")]))
    assert rows(made.close_until(state, 6), "began", "ended") == [(0, 5)]


def test_a_row_that_can_begin_nothing_is_not_kept() -> None:
    made = kernel(matching("A B", within_us=50))
    state = made.open()
    made.process(state, block(spelled("bbxb")))
    made.close_until(state, 10)
    assert sizes(state) == {}


def test_beginnings_behind_an_undecided_one_wait_for_it() -> None:
    made = kernel(matching("A+ B", within_us=50))
    state = made.open()
    made.process(state, block(spelled("aa")))
    made.close_until(state, 2)
    assert sizes(state) == {1: 2}
    made.process(state, block([(2, "b")]))
    assert rows(made.close_until(state, 3), "began", "taken") == [(0, 3)]
    assert sizes(state) == {}


def test_every_match_of_every_beginning_is_emitted_once() -> None:
    made = kernel(matching("A+ B", within_us=50, after="next_row"))
    state = made.open()
    emitted = []
    for time, letter in enumerate("aabab"):
        made.process(state, block([(time, letter)]))
        emitted += rows(made.close_until(state, time + 1), "began", "ended")
    emitted += rows(made.close_until(state, FOREVER_US), "began", "ended")
    assert emitted == [(0, 2), (1, 2), (3, 4)]


def test_keys_have_separate_matches() -> None:
    flow = LEFT.key_by("n").match("A B", within_s=1, define={"A": col("k") == "a"}, measures={"rows": "count(*)"})
    several = [(0, "a", 1), (1, "a", 2), (2, "b", 1), (3, "b", 2)]
    assert rows(results_of(flow, several), "n", "rows") == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("measure", "wanted"),
    [
        pytest.param("first(A.n)", 1, id="first of a variable"),
        pytest.param("last(A.n)", 5, id="last of a variable"),
        pytest.param("last(n)", 9, id="last of all"),
        pytest.param("count(A)", 3, id="count of a variable"),
        pytest.param("count(*)", 4, id="count of all"),
        pytest.param("sum(A.n)", 8, id="sum"),
        pytest.param("mean(n)", 4.25, id="mean"),
        pytest.param("min(A.n)", 1, id="min"),
        pytest.param("max(A.n)", 5, id="max"),
        pytest.param("first(B.k)", "b", id="first text"),
        pytest.param("first(C.k)", None, id="a text of no row"),
        pytest.param("first(C.n)", None, id="a number of no row"),
        pytest.param("mean(C.x)", None, id="a mean of no row"),
        pytest.param("max(C.n)", None, id="an extreme of no row"),
        pytest.param("count(C)", 0, id="a count of no row"),
    ],
)
def test_a_match_is_measured(measure: str, wanted: Any) -> None:
    flow = matching("A+ B C?", measures={"it": measure})
    found = results_of(flow, [(0, "a", 1), (1, "a", 2), (2, "a", 5), (3, "b", 9)])
    assert rows(found, "it") == [(wanted,)]


def test_a_row_is_named_after_the_first_alternative_it_fits() -> None:
    flow = LEFT.match(
        "(A | B)+",
        within_s=1,
        define={"A": col("n") > 5, "B": col("n") > 0},
        measures={"a": "count(A)", "b": "count(B)"},
    )
    assert rows(results_of(flow, [(0, "", 9), (1, "", 3), (2, "", 7)]), "a", "b") == [(2, 1)]


def test_a_condition_reads_the_previous_row_across_watermarks_and_fails_on_the_first_row() -> None:
    flow = LEFT.match("A", within_s=US, define={"A": col("n") >= prev("n")}, measures={"at": "first(ts)"})
    made = kernel(flow)
    state = made.open()
    emitted = []
    for time, n in enumerate((5, 5, 3, 4)):
        made.process(state, block([(time, "", n)]))
        emitted += rows(made.close_until(state, time + 1), "at")
    assert emitted == [(1,), (3,)]
    made.close_until(state, FOREVER_US)
    assert sizes(state) == {2: 1}


def test_a_condition_that_always_holds_accepts_every_row() -> None:
    flow = LEFT.match("A B", within_s=1, define={"A": lit(1) == 1}, measures={"at": "last(ts)"})
    assert rows(results_of(flow, spelled("xyz")), "at") == [(1,)]


def test_equal_rows_keep_their_order_when_a_state_moves_part_by_part() -> None:
    conditions = {"S": col("n") == 0, "B": col("n") > prev("n"), "A": col("n") == prev("n"), "C": col("n") == 7}
    flow = LEFT.match("S B A C", within_s=1, define=conditions, measures={"rows": "count(*)"})
    made = kernel(flow)
    state = made.open()
    made.process(state, block([(0, "", 0), (1, "", 1), (1, "", 1)]))
    made.close_until(state, 2)
    second = made.fragments(state).ids[1:2]
    made.absorb(state, made.extract(state, second))
    made.process(state, block([(3, "", 7)]))
    assert rows(made.close_until(state, FOREVER_US), "rows") == [(4,)]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_block_decides_nothing_while_rows_of_a_partial_match_are_elsewhere(missing: int) -> None:
    searching = kernel(matching("A B C", within_us=50))
    state = searching.open()
    searching.process(state, block(spelled("ab")))
    searching.close_until(state, 2)
    away = searching.extract(state, searching.fragments(state).ids[missing : missing + 1])
    searching.process(state, block([(2, "c")]))
    searching.absorb(state, away)
    emitted = searching.close_until(state, FOREVER_US)
    assert rows(emitted, "began", "ended", "taken") == [(0, 2, 3)]
