"""States that follow their instances: which is sent next, and what the new owner does until it has come."""

import numpy as np
import pytest
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import way_named

from shoal.compiler.program import compile_graph
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.stream import Stream
from shoal.model.control.fragment import NO_DEADLINE_US
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.schema import TIME
from shoal.model.query.window import tumbling
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.migration.following_states import FollowingStates
from shoal.runtimes.local.migration.part_messages import MissingState, StateArrival
from shoal.runtimes.local.migration.transit import IncomingInstance
from shoal.runtimes.local.migration.way import MoveWay

SECOND_US = 1_000_000


def state_with(times_s: list[int], instance: int = 0, watermark_us: int = 0) -> LaneState:
    """The state of an instance that has counted rows in windows of a second."""
    left = Stream("left", witness.SCHEMA, time="ts")
    counted = left.partition_by("k", groups=witness.KEYS).window(tumbling(1)).aggregate(rows=count())
    (lane,) = compile_graph(Graph.of([counted.sink("counted")])).lanes
    state = LaneState(lane, watermark_us)
    times = np.array(times_s, np.int64) * SECOND_US
    rows = {INSTANCE: np.full(times.size, instance), TIME: times, "ts": times, "k": np.full(times.size, instance)}
    state.add(0, Block(rows, times.size), shared=False)
    state.settle()
    return state


def way(mechanism: str) -> MoveWay:
    found = way_named(mechanism)
    assert found is not None
    return found


def sent(states: FollowingStates) -> list[int]:
    found: list[int] = []
    while states.states:
        found += [each.instance for each in states.next()]
    return found


def test_states_are_sent_one_by_one_in_the_order_of_requests_and_fetched_ones_first() -> None:
    states = FollowingStates()
    for instance in (3, 1, 2, 0):
        states.add(instance, state_with([instance], instance), 1, way("meces"))
    assert [each.instance for each in states.next()] == [3]
    states.fetch(0)
    states.fetch(2)
    states.fetch(3)  # which has left already
    assert [each.instance for each in states.next()] == [2, 0]
    assert [each.instance for each in states.next()] == [1]


def test_the_state_whose_window_closes_first_is_sent_first() -> None:
    states = FollowingStates()
    missing = {
        instance: states.add(instance, state_with([time_s], instance), 1, way("lazy-latency"))
        for instance, time_s in enumerate([7, 2, 5])
    }
    assert missing[1] == MissingState(3 * SECOND_US - 1, results_fetch=True)
    assert sent(states) == [1, 2, 0]


def test_an_instance_without_state_misses_nothing() -> None:
    states = FollowingStates()
    assert states.add(0, state_with([]), 1, way("lazy-latency")).limit_us == NO_DEADLINE_US - 1


def test_the_state_with_the_largest_utility_per_byte_is_sent_first() -> None:
    states = FollowingStates()
    for instance, times_s in enumerate([[1], [1, 1, 1, 1], [1, 1]]):
        missing = states.add(instance, state_with(times_s, instance), 1, way("lazy-utility"))
        assert missing == MissingState(limit_us=0)
    worth = [-each.rank for each in states.states.values()]
    assert sent(states) == [int(place) for place in np.argsort([-each for each in worth], kind="stable")]


def incoming(missing: MissingState | None) -> IncomingInstance:
    return IncomingInstance(state_with([]), 0, set(), missing)


def row(time_s: int) -> Block:
    at = np.array([time_s * SECOND_US])
    return Block({INSTANCE: np.zeros(1, np.int64), TIME: at, "ts": at, "k": np.zeros(1, np.int64)}, 1)


def test_the_first_row_fetches_the_state_of_its_instance_and_waits_for_it() -> None:
    instance = incoming(MissingState(0, rows_fetch=True))
    assert instance.advance(2 * SECOND_US, [0]) == ([], [])
    assert not instance.fetches
    instance.add(0, row(3), 2 * SECOND_US)
    assert instance.fetches
    assert instance.advance(9 * SECOND_US, [0]) == ([], [])
    assert (instance.waiting_rows, instance.state.watermark_us) == (1, 0)
    instance.complete_with(StateArrival(0, state_with([1, 3]), 100))
    results, late = instance.advance(9 * SECOND_US, [0])
    assert sorted(n for block in results for n in block.columns["rows"].tolist()) == [1, 2]
    assert late == []
    assert instance.complete
    assert (instance.report.late_results, instance.report.state_bytes) == (2, 100)
    assert instance.report.late_s > 0


def test_windows_that_need_nothing_of_a_missing_state_close_and_the_first_that_does_fetches_it() -> None:
    instance = incoming(MissingState(5 * SECOND_US - 1, results_fetch=True))
    instance.add(0, row(1), 0)
    instance.add(0, row(4), 0)
    results, _ = instance.advance(3 * SECOND_US, [0])
    assert [block.columns["rows"].tolist() for block in results] == [[1]]
    assert not instance.fetches
    assert instance.advance(6 * SECOND_US, [0]) == ([], [])
    assert instance.fetches
    instance.complete_with(StateArrival(0, state_with([4, 5]), 100))
    results, _ = instance.advance(6 * SECOND_US, [0])
    assert sorted(n for block in results for n in block.columns["rows"].tolist()) == [1, 2]


def counted_merges(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The watermark of every merge from now on."""
    merges: list[int] = []
    plain = LaneState.advance

    def advance(state: LaneState, watermark_us: int) -> Block:
        merges.append(watermark_us)
        return plain(state, watermark_us)

    monkeypatch.setattr(LaneState, "advance", advance)
    return merges


def test_rows_that_are_on_time_join_an_instance_without_a_merge_each(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, merges = incoming(None), counted_merges(monkeypatch)
    for time_s in range(50):
        instance.add(0, row(time_s), time_s * SECOND_US)
    results, late = instance.advance(50 * SECOND_US, [0])
    assert sum(block.columns["rows"].sum() for block in results) == 50
    assert late == []
    assert len(merges) == 1


def test_rows_that_came_late_find_the_same_windows_closed_as_without_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, merges = incoming(None), counted_merges(monkeypatch)
    instance.add(0, row(1), 0)
    instance.add(0, row(1), 5 * SECOND_US)
    results, late = instance.advance(9 * SECOND_US, [0])
    assert [block.columns["rows"].tolist() for block in results] == [[1]]
    assert [block.length for block in late] == [1]
    assert merges == [5 * SECOND_US, 9 * SECOND_US]
