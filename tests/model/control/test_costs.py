"""The cost of moves: what is learned from measurements, and from which links."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.costs import BYTES_PER_S, HAND_OVER_S, LinkCosts, MeasuredMoves
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId

A, B, C = (InstanceId(f"{name}/0") for name in "abc")
BEFORE = Binding.of({A: 0, B: 0, C: 2}, 4)
NUMA = Topology.of(nodes=2, workers=4)

links = st.one_of(st.none(), st.tuples(st.integers(0, 2), st.integers(0, 2)))
measurements = st.builds(
    MeasuredMoves,
    moves=st.integers(0, 500),
    link_bytes=st.dictionaries(links, st.floats(0, 1e12), max_size=4),
    seconds=st.floats(0, 1e4),
)


def epoch(after: Binding, topology: Topology | None, moved: int = 600, *sizes: int) -> EpochCommitted:
    loads = {i: InstanceLoad(0, 0.0, 0, size) for i, size in zip((A, B, C), sizes, strict=False)}
    snapshot = Snapshot(1, after, loads, topology=topology)
    return EpochCommitted(1, 0, 0, 0, 3, 0, moved, 1.0, 1.0, 0.0, 0.25, 0.0, snapshot, at_s=0.0)


@given(st.lists(measurements, max_size=5), measurements)
def test_a_measurement_brings_what_is_expected_closer_and_never_beyond(
    past: list[MeasuredMoves], newest: MeasuredMoves
) -> None:
    costs = LinkCosts()
    for one in past:
        costs = costs.learned(one)
    before_s, after_s = costs.expected_s(newest), costs.learned(newest).expected_s(newest)
    if newest.moves and newest.seconds:
        low, high = sorted((before_s, newest.seconds))
        assert low * (1 - 1e-6) <= after_s <= high * (1 + 1e-6)
    else:
        assert costs.learned(newest) is costs


def test_both_the_hand_over_and_each_bandwidth_are_found_whatever_they_are() -> None:
    true = LinkCosts(hand_over_s=0.02, link_bytes_per_s={(0, 0): 4e9, (0, 1): 1e8})
    draw, known = random.Random(1), LinkCosts()
    for _ in range(600):
        amount = 10 ** draw.uniform(4, 9)
        measured = MeasuredMoves(draw.randint(1, 20), {draw.choice([(0, 0), (0, 1)]): amount}, seconds=1.0)
        known = known.learned(replace(measured, seconds=true.expected_s(measured)))
    assert known.hand_over_s == pytest.approx(0.02, rel=0.05)
    assert known.bandwidth((0, 1)) == pytest.approx(1e8, rel=0.05)
    assert known.bandwidth((0, 0)) == pytest.approx(4e9, rel=0.25)


def test_moves_without_state_teach_the_hand_over_alone() -> None:
    known = LinkCosts().learned(MeasuredMoves(10, {(0, 0): 0.0}, seconds=1.01))
    assert known.hand_over_s == pytest.approx(HAND_OVER_S + 0.2 * (0.101 - HAND_OVER_S))
    assert known.link_bytes_per_s == {}


def test_a_link_that_was_not_used_stays_as_it_was() -> None:
    known = LinkCosts().learned(MeasuredMoves(1, {(0, 1): 1e9}, seconds=9.0))
    assert known.bandwidth((0, 1)) < BYTES_PER_S == known.bandwidth((1, 0)) == known.bandwidth(None)


def test_bytes_over_an_unknown_link_teach_what_is_believed_of_all_others() -> None:
    known = LinkCosts().learned(MeasuredMoves(1, {None: 1e9}, seconds=9.0))
    assert known.bandwidth((3, 4)) == known.bytes_per_s < BYTES_PER_S


def test_what_fits_a_time_is_by_the_slowest_link_that_is_known() -> None:
    assert LinkCosts(bytes_per_s=100.0).bytes_within(2.0) == 200
    assert LinkCosts(100.0, link_bytes_per_s={(0, 0): 900.0, (0, 1): 300.0}).bytes_within(2.0) == 600


@pytest.mark.parametrize(
    ("event", "before", "expected"),
    [
        pytest.param(epoch(BEFORE, None), None, {(0, 0): 600}, id="one node without a topology"),
        pytest.param(epoch(BEFORE, Topology.of(1, 4)), None, {(0, 0): 600}, id="one node"),
        pytest.param(epoch(BEFORE, NUMA), None, {None: 600}, id="nothing known of before"),
        pytest.param(
            epoch(Binding.of({A: 1, B: 2, C: 1}, 4), NUMA, 600, 100, 200, 300),
            BEFORE,
            {(0, 0): 100, (0, 1): 200, (1, 0): 300},
            id="by the state of what moved",
        ),
        pytest.param(
            epoch(Binding.of({A: 1, B: 2, C: 2}, 4), NUMA), BEFORE, {(0, 0): 300, (0, 1): 300}, id="evenly if unknown"
        ),
        pytest.param(
            epoch(Binding.of({A: 0, B: 0, C: 1}, 2), Topology.of(2, 2)),
            BEFORE,
            {None: 600},
            id="from a worker that left",
        ),
    ],
)
def test_the_bytes_of_an_epoch_belong_to_the_links_of_its_moves(
    event: EpochCommitted, before: Binding | None, expected: dict[object, float]
) -> None:
    measured = MeasuredMoves.of(event, before)
    assert measured.link_bytes == pytest.approx(expected)
    assert (measured.moves, measured.seconds) == (3, 0.25)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bytes_per_s": 0.0}, "bytes_per_s must be more than 0; got 0.0"),
        ({"link_bytes_per_s": {(0, 1): -1.0}}, "bytes_per_s of (0, 1) must be more than 0; got -1.0"),
        ({"hand_over_s": float("nan")}, "hand_over_s must be 0 or more; got nan"),
        ({"newest": 0.0}, "newest must be more than 0 and at most 1; got 0.0"),
    ],
)
def test_costs_that_make_no_sense_are_a_clear_error(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LinkCosts(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message
