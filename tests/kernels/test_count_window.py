"""Windows that rows close: of a number of rows, and over an external time."""

from typing import Any

import pytest
from tests.kernels.rows import LEFT, Row, block, kernel, results_of, rows, sizes

from shoal.kernels.count_window import NEVER, RowMeasure
from shoal.kernels.kernel import FOREVER_US
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import approx_distinct, count, count_distinct, sum_, top_k
from shoal.model.query.schema import TIME
from shoal.model.query.window import Rows, Window

EXTERNAL = Stream("left", {"ts": "timestamp", "k": "string", "n": "timestamp not null", "x": "float64"}, time="ts")
"""A stream whose column `n` is a time."""


def counted(window: Rows) -> Any:
    return LEFT.key_by("k").window(window).aggregate(events=count(), total=sum_("n"))


def external(size: int, slide: int) -> Any:
    return EXTERNAL.key_by("k").window(Window(size, slide, on="n")).aggregate(events=count())


@pytest.mark.parametrize(
    ("window", "measure"),
    [
        pytest.param(Rows(10, 10), RowMeasure(10, 1, 1, 1, 1), id="windows one after another are one pane"),
        pytest.param(
            Rows(6, 4), RowMeasure(2, 3, 2, 3, 3), id="a pane is the greatest common divisor of size and jump"
        ),
        pytest.param(Rows(6, 4, partial=True), RowMeasure(2, 3, 2, 3, 1), id="partial windows begin earlier"),
        pytest.param(Window(30, 10, on="n"), RowMeasure(10, 3, 1, 0, NEVER), id="external time has panes of one slide"),
    ],
)
def test_a_window_is_measured_in_panes(window: Rows | Window, measure: RowMeasure) -> None:
    assert RowMeasure.of(window) == measure


@pytest.mark.parametrize(
    ("window", "wanted"),
    [
        pytest.param(Rows(2, 2), [(2, 2, 3), (4, 2, 7)], id="two rows, one after another"),
        pytest.param(Rows(3, 1), [(3, 3, 6), (4, 3, 9), (5, 3, 12)], id="three rows every one"),
        pytest.param(Rows(3, 2), [(3, 3, 6), (5, 3, 12)], id="three rows every two"),
        pytest.param(
            Rows(3, 2, partial=True), [(1, 1, 1), (3, 3, 6), (5, 3, 12)], id="three rows every two while filling"
        ),
        pytest.param(Rows(9, 9), [], id="more rows than the input has"),
        pytest.param(Rows(9, 3, partial=True), [(3, 3, 6)], id="more rows than the input has, while filling"),
    ],
)
def test_windows_of_rows_end_with_the_row_that_fills_them(window: Rows, wanted: list[Row]) -> None:
    found = results_of(counted(window), [(n, "a", n) for n in (5, 3, 1, 4, 2)])
    assert rows(found, "window_end", "events", "total") == wanted
    assert rows(found, TIME) == [(end,) for end, _, _ in wanted]


def test_rows_of_one_time_are_taken_in_the_order_of_their_columns() -> None:
    found = results_of(counted(Rows(2, 2)), [(0, "a", n) for n in (7, 1, 5, 3)])
    assert rows(found, "total") == [(4,), (12,)]


def test_a_key_resumes_its_window_after_a_long_pause() -> None:
    made = kernel(counted(Rows(3, 3)))
    state = made.open()
    made.process(state, block([(0, "a", 1), (1, "a", 2), (1, "b", 9)]))
    assert made.close_until(state, 10**6).length == 0
    made.process(state, block([(10**9, "a", 4)]))
    results = made.close_until(state, FOREVER_US)
    assert rows(results, "k", "window_end", "total") == [("a", 10**9, 7)]


def test_full_windows_leave_one_row_of_progress_per_key() -> None:
    made = kernel(counted(Rows(2, 2)))
    state = made.open()
    made.process(state, block([(time, key) for time in range(100) for key in "ab"]))
    made.close_until(state, FOREVER_US)
    assert sizes(state) == {2: 2}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        pytest.param([1, 5, 12], [(10, 2, 2), (20, 1, 2)], id="the first row past the end closes it"),
        pytest.param([1, 12, 5], [(10, 1, 1), (20, 1, 2)], id="a row of a closed window is too late"),
        pytest.param([1, 10], [(10, 1, 1), (20, 1, 1)], id="a row at the end is past it"),
        pytest.param([-5, 35], [(0, 1, 1), (40, 1, 1)], id="empty windows are not emitted"),
    ],
)
def test_an_external_window_is_closed_by_a_row_of_its_key(values: list[int], wanted: list[Row]) -> None:
    found = results_of(external(10, 10), [(time, "a", value) for time, value in enumerate(values)])
    assert [(end, events) for end, events, _ in wanted] == rows(found, "window_end", "events")


def test_another_key_closes_no_external_window() -> None:
    made = kernel(external(10, 10))
    state = made.open()
    made.process(state, block([(0, "a", 1), (1, "b", 99)]))
    assert made.close_until(state, 50).length == 0
    made.process(state, block([(50, "a", 11)]))
    assert rows(made.close_until(state, 51), "k", "window_end", TIME) == [("a", 10, 50)]


def test_windows_closed_by_the_end_of_the_stream_do_not_precede_earlier_results() -> None:
    made = kernel(external(20, 10))
    state = made.open()
    made.process(state, block([(3, "a", 5)]))
    assert made.close_until(state, 1000).length == 0
    results = made.close_until(state, FOREVER_US)
    assert rows(results, "window_end", "events", TIME) == [(10, 1, 1000), (20, 1, 1000)]
    assert sizes(state) == {2: 1}


def test_external_windows_take_aggregates_of_texts_and_sets_to_the_end() -> None:
    asked = {"kinds": count_distinct("k"), "about": approx_distinct("k"), "top": top_k("x", 2)}
    made = kernel(EXTERNAL.window(Window(10, 10, on="n")).aggregate(**asked))
    state = made.open()
    made.process(state, block([(0, "a", 1, 0.5), (1, "b", 2, 1.5), (2, "a", 3, 1.0)]))
    made.close_until(state, 100)
    assert rows(made.close_until(state, FOREVER_US), *asked) == [(2, 2, [1.5, 1.0])]


def test_sets_of_rows_from_several_blocks_are_merged() -> None:
    asked = {"kinds": count_distinct("k"), "numbers": count_distinct("n")}
    made = kernel(EXTERNAL.window(Window(10, 10, on="n")).aggregate(**asked))
    state = made.open()
    for second, (kind, number) in enumerate([("a", 1), ("b", 2), ("a", 2), ("c", 3)]):
        made.process(state, block([(second, kind, number, 0.5)]))
        made.close_until(state, second + 1)
    assert rows(made.close_until(state, FOREVER_US), *asked) == [(3, 3)]


def test_rows_wait_until_the_watermark_has_passed_them() -> None:
    made = kernel(counted(Rows(1, 1)))
    state = made.open()
    made.process(state, block([(5, "a")]))
    assert made.close_until(state, 5).length == 0
    assert made.close_until(state, 6).length == 1
