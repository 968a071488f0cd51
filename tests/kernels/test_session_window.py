"""The session kernel: when a session ends, and how sessions merge."""

import random
from typing import Any

import pytest
from tests.kernels.rows import LEFT, block, kernel, rows, sizes

from shoal.kernels.kernel import FOREVER_US
from shoal.model.query.aggregate import approx_distinct, count, count_distinct, sum_, variance
from shoal.model.query.schema import TIME
from shoal.model.query.window import Session

FLOW = LEFT.key_by("k").window(Session(10)).aggregate(events=count(), total=sum_("n"))
BOUNDS = ("k", "window_start", "window_end", "events")


@pytest.mark.parametrize(
    ("times", "sessions"),
    [
        pytest.param([0], [(0, 10, 1)], id="a single row"),
        pytest.param([0, 9], [(0, 19, 2)], id="just within the gap"),
        pytest.param([0, 10], [(0, 10, 1), (10, 20, 1)], id="exactly the gap apart"),
        pytest.param([0, 0, 0], [(0, 10, 3)], id="rows of one time"),
        pytest.param([-25, -16, -7, 40], [(-25, 3, 3), (40, 50, 1)], id="a chain is longer than the gap"),
    ],
)
def test_a_session_ends_after_a_gap_without_rows(times: list[int], sessions: list[Any]) -> None:
    made = kernel(FLOW)
    state = made.open()
    made.process(state, block([(time, "a") for time in times]))
    results = made.close_until(state, FOREVER_US)
    assert rows(results, *BOUNDS) == [("a", *session) for session in sessions]
    assert rows(results, TIME) == [(end - 1,) for _, end, _ in sessions]


def test_a_row_between_two_sessions_merges_them() -> None:
    made = kernel(FLOW)
    state = made.open()
    made.process(state, block([(0, "a", 1), (18, "a", 2)]))
    assert sizes(state) == {0: 2}
    made.process(state, block([(9, "a", 4)]))
    assert sizes(state) == {0: 1}
    assert rows(made.close_until(state, 28), *BOUNDS, "total") == [("a", 0, 28, 3, 7)]


def test_a_session_is_emitted_when_the_watermark_reaches_its_end_and_not_before() -> None:
    made = kernel(FLOW)
    state = made.open()
    made.process(state, block([(0, "a"), (5, "b")]))
    assert rows(made.close_until(state, 9), *BOUNDS) == []
    assert rows(made.close_until(state, 10), *BOUNDS) == [("a", 0, 10, 1)]
    assert sizes(state) == {0: 1}
    assert rows(made.close_until(state, 15), *BOUNDS) == [("b", 5, 15, 1)]
    assert sizes(state) == {}


def test_keys_and_instances_have_separate_sessions() -> None:
    made = kernel(FLOW)
    state = made.open()
    made.process(state, block([(0, "a"), (1, "b")], instance=0))
    made.process(state, block([(2, "a")], instance=1))
    results = made.close_until(state, FOREVER_US)
    assert rows(results, "#instance", *BOUNDS) == [(0, "a", 0, 10, 1), (0, "b", 1, 11, 1), (1, "a", 2, 12, 1)]


def test_lifted_input_is_sessions_not_rows() -> None:
    made = kernel(FLOW)
    lifted = made.lift(0, block([(time, "a") for time in range(100)]))
    assert len(lifted[0]) == 1
    assert len(made.merged([lifted, made.lift(0, block([(105, "a")]))])[0]) == 1


def test_the_order_in_which_sessions_are_merged_does_not_matter() -> None:
    wide = {"n": count(), "var": variance("x"), "different": count_distinct("n"), "about": approx_distinct("k")}
    made = kernel(LEFT.window(Session(10)).aggregate(**wide))
    draw = random.Random(1)
    several = [(draw.randint(0, 200), "k", draw.randint(0, 9), draw.uniform(-1, 1)) for _ in range(60)]
    found = []
    for _ in range(4):
        draw.shuffle(several)
        lifted = [made.lift(0, block(several[at : at + 7])) for at in range(0, 60, 7)]
        _, results = made.advance(made.merged(lifted[:4]), made.merged(lifted[4:]), 0, FOREVER_US)
        found.append(rows(results, "window_start", "window_end", *wide))
    assert found[0]
    assert all(each == found[0] for each in found)
