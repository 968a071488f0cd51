"""The join kernel: which rows match, when pairs are emitted, and how long rows are kept."""

import math
from typing import Any

import pytest
from tests.kernels.rows import LEFT, RIGHT, US, Row, block, kernel, results_of, rows, sizes

from shoal.model.query.aggregate import top_k
from shoal.model.query.expression import col
from shoal.model.query.schema import TIME
from shoal.model.query.window import Window

NAN, INF = math.nan, math.inf


def within(lower: int, upper: int) -> tuple[float, float]:
    return lower * US, upper * US


@pytest.mark.parametrize(
    ("bounds", "matched"),
    [
        pytest.param((0, 0), [10], id="only at the same time"),
        pytest.param((-1, 1), [9, 10, 11], id="both bounds are included"),
        pytest.param((-2, -1), [8, 9], id="only before"),
        pytest.param((1, 2), [11, 12], id="only after"),
        pytest.param((3, 9), [], id="no row is that late"),
    ],
)
def test_rows_match_within_bounds_of_time(bounds: tuple[int, int], matched: list[int]) -> None:
    flow = LEFT.join(RIGHT, within_s=within(*bounds))
    found = results_of(flow, [(10,)], [(time,) for time in (8, 9, 10, 11, 12)])
    assert rows(found, "ts_right") == [(time,) for time in matched]
    assert rows(found, TIME) == [(max(10, time),) for time in matched]


@pytest.mark.parametrize(
    ("band", "here", "there", "matched"),
    [
        pytest.param(("n", "n", 0, 5), 3, [2, 3, 8, 9], [3, 8], id="both bounds are included"),
        pytest.param(("n", "n", 0.5, 1.5), 3, [3, 4, 5], [4], id="bounds of integers between integers"),
        pytest.param(("n", "n", None, -1), 3, [-(10**15), 2, 3], [-(10**15), 2], id="open below"),
        pytest.param(("n", "n", 1, None), 3, [3, 4, 10**15], [4, 10**15], id="open above"),
        pytest.param(("n", "n", 5, 1), 3, [3, 4, 8], [], id="lower bound above the upper"),
        pytest.param(
            ("x", "x", -0.1, 0.2), 0.1, [0.0, 0.1, 0.3, 0.31], [0.0, 0.1, 0.3], id="floats by their difference"
        ),
        pytest.param(("n", "n", 0, None), -(2**62), [-(2**63), 2**62], [2**62], id="open above, far apart"),
        pytest.param(("n", "n", None, 0), 2**62, [-(2**63), 2**63 - 1], [-(2**63)], id="open below, far apart"),
        pytest.param(("n", "n", -5, 5), 2**63 - 1, [2**63 - 3, -(2**63)], [2**63 - 3], id="the largest integer"),
        pytest.param(("n", "n", -5, 5), -(2**63), [4 - 2**63, 2**63 - 1], [4 - 2**63], id="the smallest integer"),
        pytest.param(("n", "n", 2, 5), 2**63 - 2, [2**63 - 1, -(2**63)], [], id="nothing lies above all integers"),
        pytest.param(("n", "n", -5, -2), 1 - 2**63, [2**63 - 1, -(2**63)], [], id="nothing lies below all integers"),
        pytest.param(("x", "x", 0.0, None), -INF, [-INF, 1.0, INF], [-INF, 1.0, INF], id="minus infinity is below all"),
        pytest.param(("x", "x", None, 0.0), INF, [-INF, 1.0, INF, NAN], [-INF, 1.0, INF], id="infinity is below NaN"),
        pytest.param(("x", "x", -1.0, 1.0), NAN, [1.0, NAN], [NAN], id="NaN is as large as NaN"),
        pytest.param(("x", "x", -1.0, 1.0), 1.0, [1.0, NAN], [1.0], id="NaN is larger than any bound"),
        pytest.param(("x", "x", 0.0, None), 1.0, [0.0, NAN], [NAN], id="NaN is not larger than no bound"),
        pytest.param(("x", "x", None, 0.0), NAN, [1.0, NAN], [1.0, NAN], id="NaN is above all"),
        pytest.param(("x", "x", None, 0.0), None, [1.0, NAN], [], id="null matches nothing"),
        pytest.param(("n", "n", -9, 9), 0, [None, 0, None], [0], id="nothing matches null"),
    ],
)
def test_rows_match_within_a_band_of_values(band: Any, here: float, there: list[float], matched: list[float]) -> None:
    column = band[0]

    def row(value: float) -> Row:
        return (0, "", value) if column == "n" else (0, "", 0, value)

    found = results_of(LEFT.join(RIGHT, within_s=(0, 0), band=band), [row(here)], [row(value) for value in there])
    assert repr(rows(found, f"{column}_right")) == repr([(value,) for value in matched])


def test_the_order_of_arrival_of_two_rows_does_not_matter() -> None:
    made = kernel(LEFT.join(RIGHT, on="k", within_s=within(-5, 5)))
    for first, second in ((0, 1), (1, 0)):
        state = made.open()
        made.process(state, block([(first + 1, "a")]), first)
        made.process(state, block([(second + 1, "a")]), second)
        assert rows(made.close_until(state, 0), "k", "ts", "ts_right", TIME) == [("a", 1, 2, 2)]


def test_a_pair_is_emitted_once_although_the_watermark_advances_several_times() -> None:
    made = kernel(LEFT.join(RIGHT, on="k", within_s=within(-50, 50)))
    state = made.open()
    made.process(state, block([(0, "a")]), 0)
    made.process(state, block([(1, "a")]), 1)
    assert [made.close_until(state, mark).length for mark in (0, 0, 1, 60)] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("side", "bounds", "alive_at", "gone_at"),
    [
        pytest.param(0, (-3, 5), 15, 16, id="the left until the upper bound is past"),
        pytest.param(1, (-3, 5), 13, 14, id="the right until the lower bound is past"),
        pytest.param(0, (-5, -2), 8, 9, id="the left only as long as an earlier right row may arrive"),
        pytest.param(1, (2, 5), 8, 9, id="the right only as long as an earlier left row may arrive"),
    ],
)
def test_a_row_is_kept_while_a_match_may_arrive(side: int, bounds: Any, alive_at: int, gone_at: int) -> None:
    made = kernel(LEFT.join(RIGHT, within_s=within(*bounds)))
    state = made.open()
    made.process(state, block([(10,)]), side)
    made.close_until(state, alive_at)
    assert sizes(state) == {side: 1}
    assert [fragment.deadline_us for fragment in made.fragments(state)] == [gone_at]
    made.close_until(state, gone_at)
    assert sizes(state) == {}


def test_an_unmatched_row_is_emitted_with_its_own_time_once_the_watermark_rules_out_a_match() -> None:
    made = kernel(LEFT.join(RIGHT, on="k", within_s=within(-3, 5), how="full", defaults={"n_right": 7}))
    state = made.open()
    made.process(state, block([(10, "a", 1)]), 0)
    made.process(state, block([(10, "b", 2)]), 1)
    names = ("k", "n", "n_right", "has_left", "has_right", TIME)
    assert rows(made.close_until(state, 13), *names) == []
    assert rows(made.close_until(state, 14), *names) == [("b", None, 2, False, True, 10)]
    assert rows(made.close_until(state, 15), *names) == []
    assert rows(made.close_until(state, 16), *names) == [("a", 1, 7, True, False, 10)]


@pytest.mark.parametrize(
    ("how", "bounds", "hold_us"),
    [
        pytest.param("inner", (-9, 9), 0, id="pairs are emitted at once"),
        pytest.param("left", (-9, 4), 4, id="a left row waits for the right"),
        pytest.param("left", (-9, -4), 0, id="a left row does not wait for earlier rows"),
        pytest.param("full", (-9, 4), 9, id="each waits for the other"),
        pytest.param("full", (2, 4), 4, id="a right row does not wait for earlier rows"),
    ],
)
def test_a_join_holds_back_what_it_waits_for(how: str, bounds: tuple[int, int], hold_us: int) -> None:
    assert kernel(LEFT.join(RIGHT, within_s=within(*bounds), how=how)).hold_us == hold_us


def test_a_row_whose_pairs_all_fail_the_condition_is_unmatched() -> None:
    flow = LEFT.join(RIGHT, on="k", within_s=(0, 0), how="left", where=col("n") < col("n_right"))
    found = results_of(flow, [(0, "a", 5), (0, "b", 5)], [(0, "a", 5), (0, "b", 6)])
    assert rows(found, "k", "n_right", "has_right") == [("a", None, False), ("b", 6, True)]


def test_rows_of_different_instances_do_not_match() -> None:
    made = kernel(LEFT.join(RIGHT, on="k", within_s=(0, 0)))
    state = made.open()
    made.process(state, block([(0, "a")], instance=0), 0)
    made.process(state, block([(0, "a")], instance=1), 1)
    assert made.close_until(state, 9).length == 0


def test_late_rows_match_nothing() -> None:
    made = kernel(LEFT.join(RIGHT, within_s=within(-9, 9)))
    state = made.open()
    made.process(state, block([(10,)]), 0)
    made.close_until(state, 10)
    late = made.process(state, block([(9,), (10,)]), 1)
    assert rows(late, "ts") == [(9,)]
    assert rows(made.close_until(state, 11), "ts_right") == [(10,)]


def test_null_keys_match_nothing_and_stay_alone_in_outer_joins() -> None:
    lefts, rights = [(0, None, 1), (0, "a", 2)], [(0, None, 3), (0, "a", 4)]
    found = {how: LEFT.join(RIGHT, on="k", within_s=(0, 0), how=how) for how in ("inner", "left", "full")}
    pairs = {how: rows(results_of(flow, lefts, rights), "k", "n", "n_right") for how, flow in found.items()}
    assert pairs["inner"] == [("a", 2, 4)]
    assert pairs["left"] == [(None, 1, None), ("a", 2, 4)]
    assert pairs["full"] == [(None, None, 3), (None, 1, None), ("a", 2, 4)]


def test_a_row_that_can_match_nothing_is_kept_only_if_it_is_emitted() -> None:
    for how, tables in (("inner", {}), ("left", {0: 1}), ("full", {0: 1, 1: 1})):
        made = kernel(LEFT.join(RIGHT, on="k", within_s=within(-9, 9), how=how))
        state = made.open()
        for port in (0, 1):
            made.process(state, block([(0, None)]), port)
        assert sizes(state) == tables


def test_a_list_may_be_missing() -> None:
    tops = RIGHT.window(Window(10, 10)).aggregate(top=top_k("n", 2))
    given = results_of(LEFT.join(tops, within_s=(0, 0), how="left", defaults={"top": [7]}), [(0,)])
    assert rows(given, "n", "top") == [(0, [7])]
    assert rows(results_of(LEFT.join(tops, within_s=(0, 0), how="left"), [(0,)]), "n", "top") == [(0, None)]


def test_a_missing_text_has_its_default() -> None:
    flow = LEFT.select("ts", "n").join(RIGHT, on="n", within_s=(0, 0), how="left", defaults={"k": "none", "x": 1})
    assert rows(results_of(flow, [(0, "", 1)], []), "n", "k", "x") == [(1, "none", 1.0)]
