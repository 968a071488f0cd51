"""The streams of geo-pubsub: subscriptions are there when points need them, at any rate and amount."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources.rate import rate_of
from shoal.workloads.geo_pubsub.change_times import ChangeTimes
from shoal.workloads.geo_pubsub.feed import CHANGES, FIRST, POINTS, generated
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.workload import Amount

SETTINGS: dict[str, Any] = {
    "scenario": "step", "heat": 0.4, "hot_from_s": 2.0, "hot_s": 4.0, "spread": "uniform", "per_s": 1000,
    "subscriptions": 50, "churn": 10, "hot_subscriptions": 100, "side": 0.01,
}  # fmt: skip


@given(st.integers(0, 50), st.integers(0, 500), st.integers(1, 40))
def test_the_pace_of_changes_keeps_up_with_them(per_s: int, hot: int, until_s: int) -> None:
    times = ChangeTimes(Heat("consecutive", hot_from_s=5, hot_s=20), per_s, hot)
    rate = times.rate_until(until_s * 1_000_000)
    behind = [times.before(half_s * 500_000 + 1) - rate * half_s / 2 for half_s in range(1, 2 * until_s + 1)]
    assert max(behind) < 1
    if times.before(until_s * 1_000_000 + 1):
        assert max(behind) >= -1e-6  # and is not faster than it need be


def test_a_feed_ends_with_the_last_point() -> None:
    assert generated(0, 1001, SETTINGS).rows == {POINTS: 1001, FIRST: 50, CHANGES: 10}
    assert generated(0, 4001, SETTINGS).rows == {POINTS: 4001, FIRST: 50, CHANGES: 140}
    assert generated(0, 8001, SETTINGS).rows == {POINTS: 8001, FIRST: 50, CHANGES: 280}
    assert generated(0, 0, SETTINGS).rows == {POINTS: 0, FIRST: 50, CHANGES: 0}


def test_changes_are_read_at_their_pace_and_the_first_subscriptions_at_once() -> None:
    feed = generated(0, 8001, SETTINGS)
    assert feed.pace == pytest.approx(0.035)  # 140 changes in the first 4000 points
    sources = feed.sources(Amount(8001, rate_of("2000"), 500))
    assert {name: (each.events, each.rows_per_epoch) for name, each in sources.items()} == {
        POINTS: (8001, 500), FIRST: (50, 50), CHANGES: (280, 18),
    }  # fmt: skip
    assert sources[FIRST].pace() is None
    pace = sources[CHANGES].pace()
    assert pace is not None
    assert pace.due(10.0) == pytest.approx(2000 * 0.035 * 10, abs=1)


def test_at_event_time_all_streams_are_due_together() -> None:
    sources = generated(0, 8001, SETTINGS).sources(Amount(8001, rate_of("event-time"), 500))
    due = {name: source.pace().due(3.0) for name, source in sources.items() if (source.pace())}  # type: ignore[union-attr]
    assert due == {POINTS: 3000, CHANGES: 85}  # the clock of changes starts with the first of them, at 0.1 s


def test_without_changes_there_are_two_streams() -> None:
    feed = generated(0, 100, SETTINGS | {"churn": 0, "scenario": "none"})
    assert not feed.changing
    assert set(feed.sources(Amount(100))) == {POINTS, FIRST}
    assert feed.expected()["matches"].num_rows >= 0


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 1000))
def test_the_oracle_reads_all_streams(seed: int) -> None:
    found = generated(seed, 4001, SETTINGS | {"side": 0.2}).expected()["matches"]
    subscriptions = set(found["subscription"].to_pylist())
    assert any(each < 50 for each in subscriptions)
    assert any(50 <= each < 100 for each in subscriptions)
    assert any(each >= 1 << 40 for each in subscriptions)
