"""The subscriptions of geo-pubsub: of the declared size, the same for the same index, and never changed when gone."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.geo_pubsub.test_points import heats

from shoal.errors import ConfigError
from shoal.workloads.geo_pubsub.change_times import ChangeTimes
from shoal.workloads.geo_pubsub.cities import SPACE
from shoal.workloads.geo_pubsub.hotspots import SIDE, Heat, Scenario
from shoal.workloads.geo_pubsub.points import GeoPoints
from shoal.workloads.geo_pubsub.subscriptions import FIRST_HOT, SubscriptionChanges, Subscriptions

untimed = settings(deadline=None, max_examples=40)  # the first example may compile
WIDTH, HEIGHT = SPACE[2] - SPACE[0], SPACE[3] - SPACE[1]


@st.composite
def changing(draw: st.DrawFn) -> SubscriptionChanges:
    return SubscriptionChanges(
        draw(heats().filter(lambda heat: heat.hot_s == 0 or heat.hot_s > 0.1)),
        subscriptions=draw(st.integers(1, 20)),
        churn=draw(st.integers(1, 500)),
        hot_subscriptions=draw(st.integers(0, 50)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


def arrays(stream: Subscriptions | SubscriptionChanges, start: int, stop: int) -> dict[str, Any]:
    """Rows of a stream as arrays, times in seconds from its start."""
    batch = stream.batch(start, stop)
    times = (batch["ts"].cast(pa.int64()).to_numpy() - stream.start_us) / 1e6
    others = ("subscription", "min_x", "min_y", "max_x", "max_y", "least")
    deleted = np.array([action == "delete" for action in batch["action"].to_pylist()], bool)
    return {"at_s": times, "deleted": deleted, **{name: batch[name].to_numpy() for name in others}}


def centres(columns: dict[str, Any]) -> Any:
    """The centres of rectangles, in shares of the space."""
    x, y = ((columns[f"min_{axis}"] + columns[f"max_{axis}"]) / 2 for axis in "xy")
    return (x - SPACE[0]) / WIDTH, (y - SPACE[1]) / HEIGHT


@untimed
@given(changing(), st.lists(st.integers(0, 2000), min_size=3, max_size=3).map(sorted))
def test_a_subscription_and_a_change_are_the_same_however_streams_are_cut(
    changes: SubscriptionChanges, cuts: list[int]
) -> None:
    start, middle, stop = cuts
    for stream in (changes, Subscriptions(changes.heat, 2000, seed=changes.seed)):
        parts = pa.Table.from_batches([stream.batch(start, middle), stream.batch(middle, stop)])
        assert parts.combine_chunks() == pa.Table.from_batches([stream.batch(start, stop)])


@untimed
@given(changing())
def test_only_what_is_there_is_updated_or_deleted_and_every_change_has_its_own_time(
    changes: SubscriptionChanges,
) -> None:
    batch = changes.batch(0, 3000)
    times = batch["ts"].cast(pa.int64()).to_numpy() - changes.start_us
    assert times[0] > 0
    assert (np.diff(times) > 0).all()
    alive, inserted = set(range(changes.subscriptions)), 0
    for row in batch.select(["subscription", "action"]).to_pylist():
        subscription, action = row["subscription"], row["action"]
        if action == "delete":
            alive.remove(subscription)
        else:
            assert (subscription in alive) == (action == "update")
            inserted += action == "insert" and subscription < FIRST_HOT
            alive.add(subscription)
    unhot = sum(subscription < FIRST_HOT for subscription in alive)
    assert unhot in (changes.subscriptions, changes.subscriptions + 1)
    inserted_and_others = int((batch["subscription"].to_numpy() < FIRST_HOT).sum())
    assert inserted == pytest.approx(inserted_and_others / 4, abs=1)


@untimed
@given(changing(), st.integers(0, 3000))
def test_times_of_changes_can_be_computed_both_ways(changes: SubscriptionChanges, index: int) -> None:
    times = changes.times
    offset_us = times.offset_us(index)
    assert changes.start_us + offset_us == changes.batch(index, index + 1)["ts"].cast(pa.int64())[0].as_py()
    assert times.before(offset_us) == index
    assert times.before(offset_us + 1) == index + 1
    assert changes.index_at(changes.seconds_at(index)) == index


@pytest.mark.parametrize(
    ("scenario", "hotspots"), [("none", 0), ("step", 1), ("moving", 1), ("double", 2), ("consecutive", 2)]
)
def test_the_subscriptions_of_a_hotspot_come_as_it_starts_and_go_as_it_ends(scenario: Scenario, hotspots: int) -> None:
    heat = Heat(scenario, hot_from_s=10, hot_s=40)
    changes = SubscriptionChanges(heat, churn=20, hot_subscriptions=300)
    columns = arrays(changes, 0, changes.index_at(100.0))
    at_s, ids, deleted = (columns[name] for name in ("at_s", "subscription", "deleted"))
    hot = ids >= FIRST_HOT
    assert Counter(deleted[hot].tolist()) == ({False: 300 * hotspots, True: 300 * hotspots} if hotspots else {})
    assert int((~hot).sum()) == pytest.approx(100 * 20, abs=4)
    for number, hotspot in enumerate(heat.hotspots):
        mine = (ids - FIRST_HOT) // 300 == number
        length_s = (hotspot.until_us - hotspot.from_us) / 1e6
        for gone, from_s in ((False, hotspot.from_us / 1e6), (True, hotspot.until_us / 1e6)):
            chosen = mine & hot & (deleted == gone)
            assert sorted(ids[chosen]) == list(range(FIRST_HOT + 300 * number, FIRST_HOT + 300 * (number + 1)))
            assert from_s < at_s[chosen].min() <= at_s[chosen].max() <= from_s + length_s / 2
        x, y = centres({name: values[mine & hot & ~deleted] for name, values in columns.items()})
        moved = (0.35, 0.35) if scenario == "moving" else (0.0, 0.0)  # half of its way
        assert (abs(x - hotspot.start[0] - moved[0] / 2) <= SIDE / 2 + moved[0] / 2 + 1e-6).all()
        assert (abs(y - hotspot.start[1] - moved[1] / 2) <= SIDE / 2 + moved[1] / 2 + 1e-6).all()


def test_subscriptions_have_the_declared_side_and_lie_where_points_do() -> None:
    columns = arrays(Subscriptions(Heat("none"), seed=4), 0, 50_000)
    sides = [(columns[f"max_{axis}"] - columns[f"min_{axis}"]) for axis in "xy"]
    assert sides[0] == pytest.approx(0.0016 * WIDTH)
    assert sides[1] == pytest.approx(0.0016 * HEIGHT)
    points = GeoPoints(Heat("none"), seed=4).columns(0, 50_000)
    seen = [((points["x"] - SPACE[0]) / WIDTH, (points["y"] - SPACE[1]) / HEIGHT), centres(columns)]  # type: ignore[operator]
    histograms = [np.histogram2d(x, y, bins=8, range=[(0, 1), (0, 1)])[0] / 50_000 for x, y in seen]
    assert histograms[0] == pytest.approx(histograms[1], abs=0.006)
    assert not np.array_equal(seen[0][0], seen[1][0])


def test_changes_lie_where_points_do_at_their_time() -> None:
    heat = Heat("step", hot_from_s=1, hot_s=100)
    x, y = centres(arrays(SubscriptionChanges(heat, churn=10_000), 10_000, 60_000))
    hot = (abs(x - 0.15) <= SIDE / 2) & (abs(y - 0.15) <= SIDE / 2)
    assert hot.mean() == pytest.approx(0.4, abs=0.01)


def test_without_churn_changes_end_with_the_last_hotspot() -> None:
    none = SubscriptionChanges(Heat("none"), churn=0, hot_subscriptions=5)
    assert none.times.total == 0
    some = SubscriptionChanges(Heat("step"), churn=0, hot_subscriptions=5)
    assert some.times.total == 10
    with pytest.raises(ConfigError, match="has 10 changes of subscriptions; got number 10"):
        some.batch(5, 11)
    assert SubscriptionChanges(churn=1).times.total is None


def test_subscriptions_are_all_there_at_the_start() -> None:
    first = Subscriptions(subscriptions=7)
    assert [first.index_at(seconds) for seconds in (0.0, 1e-6, 9.0)] == [0, 7, 7]
    assert set(arrays(first, 0, 7)["at_s"]) == {0.0}
    assert first.seconds_at(6) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Subscriptions(subscriptions=0), "subscriptions must be a whole number from 1"),
        (lambda: Subscriptions(side=2.0), "side must be a number from 0 to 1; got 2.0"),
        (lambda: SubscriptionChanges(churn=-1), "churn must be a whole number from 0"),
        (
            lambda: ChangeTimes(Heat(hot_s=0.001), 100, 1000),
            "subscriptions must not change more than once a microsecond; got churn 100 per second and 1000 ",
        ),
    ],
)
def test_settings_that_make_no_sense_are_rejected(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^geo-pubsub {message}"):
        make()
