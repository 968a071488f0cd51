"""Utilities: what is expected to need a fragment, for every kind of kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.rows import LEFT, RIGHT, Row, block, kernel

from shoal.kernels.kernel import State
from shoal.kernels.worth import NOTHING_LEARNED, Learned
from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.window import Rows, Window, hop, sessions, tumbling

S = 1_000_000


def state_of(made: Any, *inputs: Sequence[Row], watermark_s: float) -> State:
    state: State = made.open()
    for port, rows in enumerate(inputs):
        made.process(state, block([(int(row[0] * S), *row[1:]) for row in rows]), port)
    made.close_until(state, int(watermark_s * S))
    return state


def utilities(
    flow: Flow, *inputs: Sequence[Row], watermark_s: float, learned: Learned = NOTHING_LEARNED
) -> list[float]:
    made = kernel(flow)
    return sorted(made.fragments(state_of(made, *inputs, watermark_s=watermark_s), learned).utility.tolist())


def test_a_pane_is_worth_the_events_that_its_key_will_have_until_it_closes() -> None:
    flow = LEFT.key_by("k").window(tumbling(10)).aggregate(rows=count())
    often, rarely = [(0, "a")] * 8, [(0, "b")] * 2
    assert utilities(flow, [*often, *rarely], watermark_s=4) == pytest.approx([3.0, 12.0])


def test_an_older_pane_is_worth_less() -> None:
    flow = LEFT.key_by("k").window(hop(4, 2)).aggregate(rows=count())
    older, newer = utilities(flow, [(0, "a"), (2, "a")], watermark_s=3)
    assert (older, newer) == pytest.approx((2 / 3, 2.0))


def test_a_session_is_worth_the_events_until_its_gap_is_over() -> None:
    flow = LEFT.key_by("k").window(sessions(10)).aggregate(rows=count())
    assert utilities(flow, [(0, "a"), (2, "a"), (6, "b")], watermark_s=7) == pytest.approx([2 / 12 * 5, 1 / 10 * 9])


def test_rows_of_a_count_window_are_worth_the_rate_of_their_key() -> None:
    flow = LEFT.key_by("k").window(Rows(2, 1)).aggregate(rows=count())
    rows = [(n, "a") for n in range(6)] + [(n, "b") for n in range(2)]
    assert set(utilities(flow, rows, watermark_s=9)) == {2.0, 6.0}


def test_a_row_of_a_join_is_worth_the_partners_of_its_key_until_it_expires() -> None:
    made = kernel(LEFT.join(RIGHT, on="k", within_s=(-10, 10)))
    right = [(n, "a") for n in range(5)] + [(0, "b")]
    state = state_of(made, [(2, "a"), (2, "b"), (2, "c")], right, watermark_s=5)
    left = dict(zip(state.tables[0]["k"].to_pylist(), made.utility(0, state, NOTHING_LEARNED).tolist(), strict=True))
    assert left == pytest.approx({"a": 6 / 5 * 7, "b": 2 / 5 * 7, "c": 1 / 5 * 7})
    assert made.utility(1, state, NOTHING_LEARNED).max() == pytest.approx(2 / 5 * 9)


def test_a_row_of_a_join_that_is_about_to_expire_is_worth_less() -> None:
    older, newer = utilities(LEFT.join(RIGHT, on="k", within_s=(0, 10)), [(2, "a"), (4, "a")], watermark_s=5)
    assert (older, newer) == pytest.approx((7 / 3, 9 / 3))


def test_an_unmatched_row_of_an_outer_join_is_worth_one_more() -> None:
    inner, outer = (LEFT.join(RIGHT, on="k", within_s=(0, 10), how=how) for how in ("inner", "left"))
    rows = [(2, "c")], [(0, "b")]
    totals = [sum(utilities(flow, *rows, watermark_s=3)) for flow in (inner, outer)]
    assert totals[1] == totals[0] + 1


def test_a_row_that_cannot_be_ranked_is_worth_nothing() -> None:
    flow = LEFT.key_by("k").rank("n", 2)
    assert utilities(flow, [(5, "a", n) for n in range(4)], watermark_s=0) == [0.0, 0.0, 1.0, 1.0]


def test_a_key_is_worth_the_share_of_time_in_which_it_suppresses_rows() -> None:
    flow = LEFT.key_by("k").deduplicate(10)
    assert utilities(flow, [(0, "a"), (4, "b")], watermark_s=5) == pytest.approx([0.5, 0.9])


PATTERN = LEFT.key_by("k").match(
    "A B C",
    within_s=10,
    define={"A": col("n") == 1, "B": col("n") == 2, "C": col("n") == 3},
    measures={"ended": "last(ts)"},
)


def test_a_partial_match_is_worth_more_the_further_it_is_and_the_more_time_it_has() -> None:
    early, late = [(0, "a", 1)], [(0, "b", 1), (1, "b", 2)]
    young = [(4, "c", 1)]
    first, second, third = utilities(PATTERN, [*early, *late, *young], watermark_s=5)
    assert (first, second) == pytest.approx((1 - 0.75**0.5, 1 - 0.75**0.9))
    assert third == pytest.approx(1 - 0.5**0.5)


def test_what_was_learned_of_transitions_decides_between_stages() -> None:
    made = kernel(PATTERN)
    sample = [(10 * n + at, "a", 1 + at) for n in range(50) for at in range(3 if n % 5 == 0 else 2)]
    learned = made.learn(NOTHING_LEARNED, 0, block([(t * S, *rest) for t, *rest in [*sample, (600, "a", 9)]]))
    assert learned == Learned((50, 50, 10))
    assert made.learn(learned, 0, block([])) == learned
    assert learned.completion(1, 3) == pytest.approx(11 / 52)
    rows = [(0, "a", 1), (0, "b", 1), (1, "b", 2)]
    values = utilities(PATTERN, rows, watermark_s=2, learned=learned)
    assert values == pytest.approx([1 - (1 - 51 / 52 * 11 / 52) ** 0.8, 1 - (1 - 11 / 52) ** 0.8])


def test_a_partial_match_is_one_fragment_with_all_its_rows() -> None:
    made = kernel(PATTERN)
    state = state_of(made, [(0, "a", 1), (1, "a", 2), (0, "b", 1)], watermark_s=5)
    fragments = made.fragments(state)
    assert len(fragments) == 2
    lost = made.extract(state, fragments.ids[np.argmax(fragments.utility)][None])
    assert lost[1]["n"].tolist() == [1, 2]


def test_rows_that_wait_share_one_match_with_the_partial_match_of_their_key() -> None:
    rows = [(0, "a", 1), (6, "a", 1), (6, "a", 2), (6, "b", 1)]
    made = kernel(PATTERN)
    fragments = made.fragments(state_of(made, rows, watermark_s=5))
    by_table = sorted(zip(fragments.table.tolist(), fragments.utility.tolist(), strict=True))
    assert by_table == [(0, pytest.approx(0.25 / 3))] * 2 + [(0, pytest.approx(0.25)), (1, pytest.approx(0.25 / 3))]


def test_rows_that_wait_are_a_match_each_if_matches_overlap() -> None:
    terms: dict[str, Any] = {"within_s": 10, "define": {"B": col("n") == 2}, "measures": {"ended": "last(ts)"}}
    flow = LEFT.key_by("k").match("A B", after="next_row", **terms)
    assert utilities(flow, [(6, "a", 1), (6, "a", 3)], watermark_s=5) == [0.5, 0.5]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 12), st.sampled_from("abc"), st.integers(1, 3)), min_size=1))
def test_the_fragments_of_a_key_of_a_pattern_share_its_whole_worth(events: list[Row]) -> None:
    made = kernel(PATTERN)
    state = state_of(made, sorted(events), watermark_s=6)
    shares: dict[int, float] = {}
    for number, table in state.tables.items():
        _, first = np.unique(made.row_ids(number, table), return_index=True)
        keys, found = made.state_keys(number, table)[first], made.worth_shares(number, state)[first]
        for key, share in zip(keys.tolist(), found.tolist(), strict=True):
            shares[key] = shares.get(key, 0.0) + share
    assert list(shares.values()) == pytest.approx([1.0] * len(shares))


def test_a_lost_partial_match_costs_a_result_per_beginning_if_matches_overlap() -> None:
    terms: dict[str, Any] = {"within_s": 10, "define": {"B": col("n") == 2}, "measures": {"ended": "last(ts)"}}
    overlapping, apart = (
        kernel(LEFT.key_by("k").match("A+? B", after=after, **terms)) for after in ("next_row", "past_last_row")
    )
    rows = [(0, "a", 1), (1, "a", 1), (2, "a", 1)]
    states = [state_of(made, rows, watermark_s=5) for made in (overlapping, apart)]
    assert overlapping.error_bounds(states[0].tables).results.most == 3
    assert apart.error_bounds(states[1].tables).results.most is None


def test_a_bound_of_a_window_counts_every_window_once() -> None:
    made = kernel(LEFT.key_by("k").window(Window(4 * S, S)).aggregate(rows=count()))
    state = state_of(made, [(0, "a"), (1, "a"), (1, "a"), (0, "b")], watermark_s=0)
    bounds = made.error_bounds(state.tables)
    assert bounds.results.most == 5 + 4
    assert bounds.columns["rows"].most == 3
