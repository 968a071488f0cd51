"""The NEXMark generator: three streams of one sequence, the same event for the same index."""

from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.nexmark.events import (
    FIRST_AUCTION,
    FIRST_PERSON,
    MAX_AUCTION_S,
    MAX_PRICE,
    MIN_AUCTION_S,
    PERSONS_AHEAD,
    Kind,
    NexmarkEvents,
    counts,
)

untimed = settings(deadline=None)  # the first example may compile
streams = st.builds(
    NexmarkEvents,
    kind=st.sampled_from(get_args(Kind)),
    per_s=st.integers(1, 100_000),
    seed=st.integers(0, 2**63 - 1),
)


def first(kind: Kind, events: int, per_s: int = 10_000, seed: int = 0) -> pa.Table:
    """Every event of one stream among the first events of the sequence."""
    return pa.table(NexmarkEvents(kind, per_s, seed, start_us=0).batch(0, counts(events)[kind]))


def numbers(table: pa.Table, column: str) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = table[column].cast(pa.int64()).to_numpy()
    return values


@untimed
@given(streams, st.lists(st.integers(0, 3000), min_size=3, max_size=3).map(sorted))
def test_an_event_is_the_same_however_the_stream_is_cut(events: NexmarkEvents, cuts: list[int]) -> None:
    start, middle, stop = cuts
    parts = pa.Table.from_batches([events.batch(start, middle), events.batch(middle, stop)])
    assert parts.combine_chunks() == pa.Table.from_batches([events.batch(start, stop)])


@untimed
@given(st.integers(0, 5000))
def test_the_streams_have_every_event_of_the_sequence_once(events: int) -> None:
    times = np.concatenate([numbers(first(kind, events), "ts") for kind in get_args(Kind)])
    assert np.sort(times).tolist() == [n * 100 for n in range(events)]


def test_of_every_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    kinds = {kind: numbers(first(kind, 100), "ts") // 100 for kind in get_args(Kind)}
    assert kinds["person"].tolist() == [0, 50]
    assert kinds["auction"].tolist() == [1, 2, 3, 51, 52, 53]
    assert kinds["bid"].tolist() == [*range(4, 50), *range(54, 100)]


def test_a_negative_number_of_events_is_rejected() -> None:
    with pytest.raises(ConfigError, match="must not be negative; got -1"):
        counts(-1)


def test_ids_count_up_from_a_thousand() -> None:
    assert first("person", 200)["id"].to_pylist() == list(range(1000, 1004))
    assert first("auction", 200)["id"].to_pylist() == list(range(1000, 1012))


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_sellers_exist_or_are_about_to_and_most_are_recent(seed: int) -> None:
    auctions = first("auction", 500_000, seed=seed)
    latest = FIRST_PERSON + np.arange(len(auctions)) // 3
    age = latest - numbers(auctions, "seller")
    assert (numbers(auctions, "seller") >= FIRST_PERSON).all()
    assert age.min() == -PERSONS_AHEAD
    assert np.mean(age < 200) > 0.85
    assert np.mean(age[5000:] > 1000) > 0.03


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_bids_are_for_auctions_that_exist_and_half_of_them_for_the_hot_one(seed: int) -> None:
    bids = first("bid", 500_000, seed=seed)
    cycle = np.arange(len(bids)) // 46
    latest = cycle * 3 + 2
    auction = numbers(bids, "auction") - FIRST_AUCTION
    assert (auction >= 0).all()
    assert (auction <= latest).all()
    assert np.mean(auction == latest // 100 * 100) == pytest.approx(0.5, abs=0.02)
    assert np.mean(latest - auction < 20_000) == 1
    bidder = numbers(bids, "bidder") - FIRST_PERSON
    assert (bidder >= 0).all()
    assert (bidder <= cycle).all()


def test_prices_are_skewed_and_within_their_bounds() -> None:
    price = numbers(first("bid", 500_000), "price")
    assert price.min() == 1
    assert MAX_PRICE - 10 < price.max() <= MAX_PRICE
    assert np.median(price) == pytest.approx(MAX_PRICE / 8, rel=0.05)
    assert np.mean(price) > 1.5 * np.median(price)


def test_auctions_expire_within_their_bounds_and_have_a_reserve_that_some_bids_meet() -> None:
    auctions = first("auction", 500_000)
    open_us = numbers(auctions, "expires") - numbers(auctions, "ts")
    assert open_us.min() >= MIN_AUCTION_S * 1_000_000
    assert open_us.max() <= MAX_AUCTION_S * 1_000_000
    assert np.mean(open_us) == pytest.approx(10_500_000, rel=0.02)
    assert (numbers(auctions, "initial") >= 1).all()
    assert (numbers(auctions, "reserve") >= numbers(auctions, "initial")).all()
    assert numbers(auctions, "reserve").max() < MAX_PRICE
    categories, how_often = np.unique(numbers(auctions, "category"), return_counts=True)
    assert categories.tolist() == [10, 11, 12, 13, 14]
    assert how_often / len(auctions) == pytest.approx(np.full(5, 0.2), abs=0.02)


def test_some_bids_come_after_their_auction_has_expired() -> None:
    auctions, bids = first("auction", 500_000), first("bid", 500_000)
    expires = numbers(auctions, "expires")[numbers(bids, "auction") - FIRST_AUCTION]
    assert 0.01 < np.mean(numbers(bids, "ts") > expires) < 0.5


def test_the_auctions_that_the_second_query_selects_get_bids() -> None:
    auctions = numbers(first("bid", 1_000_000), "auction")
    assert all(np.sum(auctions == wanted) > 0 for wanted in (1007, 1020, 2001, 2019, 2087))


def test_half_of_the_persons_live_in_the_states_that_the_third_query_selects() -> None:
    persons = first("person", 500_000)
    states = persons["state"].cast(pa.string()).to_pylist()
    for state, share in {"OR": 0.2, "ID": 0.1, "CA": 0.2}.items():
        assert states.count(state) / len(states) == pytest.approx(share, abs=0.02)
    assert set(zip(persons["city"].to_pylist(), states, strict=True)) >= {("Boise", "ID"), ("Bend", "OR")}
    assert len(set(persons["name"].to_pylist())) == 99


def test_event_time_never_goes_back_and_keeps_the_rate() -> None:
    times = numbers(first("bid", 3000, per_s=300), "ts")
    assert (np.diff(times) >= 0).all()
    assert times[[0, -1]].tolist() == [4 * 1_000_000 // 300, 2999 * 1_000_000 // 300]


def test_another_seed_makes_other_events() -> None:
    assert first("bid", 1000, seed=1) != first("bid", 1000, seed=2)


@pytest.mark.parametrize("wrong", [{"per_s": 0}, {"seed": -1}, {"per_s": 1.5}, {"start_us": 2**62}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    name = next(iter(wrong))
    with pytest.raises(ConfigError, match=f"nexmark {name} must be a whole number from"):
        NexmarkEvents("bid", **wrong)


def test_an_unknown_stream_and_a_backward_batch_are_rejected() -> None:
    with pytest.raises(ConfigError, match="must be one of person, auction, bid; got 'item'"):
        NexmarkEvents("item")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="got start 2, stop 1"):
        NexmarkEvents("bid").batch(2, 1)
