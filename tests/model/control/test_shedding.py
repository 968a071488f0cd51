"""Shedding: what is asked for, and the ranges of event time in which it is in force."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.model.control.shedding import BEGINNING_US, END_US, MOST_RANGES, Shedding, ShedRule, StreamShedding, sampled

RANDOM = ShedRule("random", 0.5)
WINDOWS = ShedRule("windows", 0.5, span_us=10)


@pytest.mark.parametrize("text", ["random:0.2", "utility:price:0.25", "utility:a::b:0.25", "windows:0.5"])
def test_a_shedding_is_made_of_its_own_text(text: str) -> None:
    assert Shedding.of(text).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("random", "must end in a share"),
        ("random:many", "must end in a share of the rows, e.g. random:0.2; got 'random:many'"),
        ("random:0", "more than 0 and less than 1; got 0"),
        ("random:1", "more than 0 and less than 1; got 1"),
        ("random:nan", "more than 0 and less than 1; got nan"),
        ("random:x:0.2", "must be random:SHARE, utility:EXPRESSION:SHARE or windows:SHARE"),
        ("utility:0.2", "name a column, e.g. utility:price:0.2"),
        ("oldest:0.2", "must be random:SHARE"),
    ],
)
def test_a_text_that_is_no_shedding_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Shedding.of(text)


def test_intervals_are_only_for_random_rows() -> None:
    with pytest.raises(ConfigError, match="intervals are for shedding at random; got windows"):
        Shedding("windows", 0.2, intervals=True)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=40), st.sampled_from([RANDOM, WINDOWS]))
def test_no_event_time_that_was_read_changes_sides(steps: list[tuple[bool, int]], rule: ShedRule) -> None:
    """Whether an event time is in a range is fixed from the moment that a row of it may have been read."""
    state, sides = StreamShedding(rule), dict[int, bool]()
    for active, newest_us in steps:
        state = state.switched(active=active).read(newest_us)
        now = {us: any(each.start_us <= us < each.end_us for each in state.ranges) for us in range(newest_us + 1)}
        sides = {**now, **sides}
        assert all(now.get(us, side) == side for us, side in sides.items())
        assert state.active == active


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=40))
def test_ranges_of_windows_begin_and_end_where_windows_do(steps: list[tuple[bool, int]]) -> None:
    state = StreamShedding(WINDOWS)
    for active, newest_us in steps:
        state = state.switched(active=active).read(newest_us)
    edges = {us for each in state.ranges for us in (each.start_us, each.end_us)} - {BEGINNING_US, END_US}
    assert all(us % WINDOWS.span_us == 0 for us in edges)


def test_many_ranges_become_few_without_a_gap_for_what_was_sampled() -> None:
    state = StreamShedding(RANDOM)
    for step in range(3 * MOST_RANGES):
        state = state.read(step).switched(active=step % 2 == 0)
    assert len(state.ranges) <= MOST_RANGES
    assert not state.ranges[0].whole
    assert sampled(state.ranges, 1, 2) == (0.0, RANDOM.share)


def test_a_run_that_asks_for_another_rule_ends_the_ranges_of_the_one_before() -> None:
    first = StreamShedding().asked(RANDOM, always=True).read(100)
    other = ShedRule("random", 0.1)
    second = first.asked(other, always=True).read(200)
    assert [(each.start_us, each.end_us, each.rule.share) for each in second.ranges] == [
        (BEGINNING_US, 101, 0.5),
        (101, END_US, 0.1),
    ]
    assert second.asked(other, always=True) == second
    assert not second.asked(None, always=False).active
