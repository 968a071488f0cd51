"""Capacity is what arrives in time, and one byte more does not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import MechanismError
from shoal.mechanisms.shedding.capacity import TransferLink, capacity_bytes, transfer_s

LINKS = st.builds(
    TransferLink,
    st.floats(1.0, 1e7),
    st.floats(0.0, 1.0),
    st.one_of(st.none(), st.integers(1, 2000)),
    st.integers(0, 100),
    st.sampled_from([0.0, 50e-6]),
)
PATHS = st.lists(LINKS, min_size=1, max_size=3)


@given(PATHS, st.floats(-1.0, 100.0), st.floats(0.0, 2.0))
def test_capacity_is_the_most_that_arrives_in_time(
    path: list[TransferLink], time_left_s: float, setup_s: float
) -> None:
    found = capacity_bytes(path, time_left_s, setup_s)
    assert found == 0 or transfer_s(found, path, setup_s) <= time_left_s
    assert transfer_s(found + 1, path, setup_s) > time_left_s


@given(PATHS, st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_more_time_never_means_less_capacity(path: list[TransferLink], one_s: float, other_s: float) -> None:
    assert capacity_bytes(path, min(one_s, other_s)) <= capacity_bytes(path, max(one_s, other_s))


def test_headers_and_gaps_take_their_part_of_the_bandwidth() -> None:
    star = TransferLink(1e6, segment_bytes=536, overhead_bytes=54, gap_s=50e-6)
    assert capacity_bytes([star], 1.0) == 536 * int(1 / (590e-6 + 50e-6))


def test_the_slowest_channel_of_a_path_decides() -> None:
    fast, slow = TransferLink(1e9, latency_s=0.25), TransferLink(1000.0, latency_s=0.25)
    assert capacity_bytes([fast, slow, fast], 2.75) == 2000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: TransferLink(0.0), "bytes_per_s of a link must be more than 0", id="no bandwidth"),
        pytest.param(lambda: TransferLink(1.0, -1.0), "latency_s of a link must be 0 or more", id="negative latency"),
        pytest.param(lambda: TransferLink(1.0, 0.0, 0), "segment_bytes of a link must be at least 1", id="no segment"),
        pytest.param(lambda: capacity_bytes([], 1.0), "a transfer must have at least one link", id="no link"),
        pytest.param(
            lambda: capacity_bytes([TransferLink(1.0)], math.nan), "time left for a transfer must be", id="NaN"
        ),
        pytest.param(
            lambda: capacity_bytes([TransferLink(1.0)], 1.0, -1.0), "setup_s of a transfer must be", id="setup"
        ),
    ],
)
def test_impossible_transfers_are_rejected(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(MechanismError, match=message):
        make()
