"""FollowingStates: state that a part of a lane still has of instances that have a new owner already, or drops."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import Kernel, State
from shoal.mechanisms.shedding.lost_state import lost_state
from shoal.mechanisms.shedding.report import shed_reports
from shoal.model.control.fragment import NO_DEADLINE_US, Fragments
from shoal.model.control.messages import LostState
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.migration.part_messages import MissingState
from shoal.runtimes.local.migration.way import First, MoveWay


@dataclass(frozen=True)
class FollowingState:
    """The state of an instance, and where it goes; the one with the lowest `rank` goes first."""

    instance: int
    state: LaneState
    target: int
    rank: float


class FollowingStates:
    """The states that follow their instances; used by one worker at a time, but any thread may read `states`."""

    def __init__(self) -> None:
        """Nothing follows."""
        self.states: dict[int, FollowingState] = {}
        self._fetched: set[int] = set()

    @property
    def nbytes(self) -> int:
        """Bytes of the states that are still here; any thread may ask."""
        return sum(each.state.nbytes for each in list(self.states.values()))

    @property
    def counts(self) -> Iterator[Ints]:
        """Rows of every instance in each of the states."""
        return (each.state.counts for each in self.states.values())

    def add(self, instance: int, state: LaneState, target: int, way: MoveWay) -> MissingState:
        """Keep the state of an instance until it is sent; returns what the new owner has to know.

        Fresh rows must have been merged, unless states go in the order of their requests.
        """
        fragments = Fragments.none() if way.first is First.REQUESTED else fragments_of(state)
        self.states[instance] = FollowingState(instance, state, target, _rank(fragments, way))
        if way.first is First.NEEDED and not state.kernel.on_arrival:
            return MissingState(_first_need_us(fragments) - 1, results_fetch=way.fetched)
        return MissingState(state.watermark_us, rows_fetch=way.fetched)

    def fetch(self, instance: int) -> None:
        """The new owner needs a state now; it may be on its way already."""
        if instance in self.states:
            self._fetched.add(instance)

    def next(self) -> Iterator[FollowingState]:
        """The states to be sent in this turn: those that are fetched, or else one of the others."""
        chosen = [each for each in self.states if each in self._fetched] or [min(self.states, key=self._rank_of)]
        self._fetched.clear()
        for instance in chosen:
            yield self.states.pop(instance)

    def _rank_of(self, instance: int) -> float:
        return self.states[instance].rank


def fragments_of(state: LaneState) -> Fragments:
    """The fragments of a state whose fresh rows have been merged."""
    return state.kernel.fragments(State(dict(state.tables), state.watermark_us))


def lost_with(state: LaneState, query: str) -> LostState:
    """What is lost if the state of an instance is dropped; its fresh rows must have been merged."""
    fragments = fragments_of(state)
    return lost_of(state.kernel, fragments, np.zeros(len(fragments), bool), state.tables, query)


def lost_of(kernel: Kernel, fragments: Fragments, arrived: NDArray[np.bool_], lost: Tables, query: str) -> LostState:
    """What a query has lost of an instance: the tables of the fragments that have not arrived."""
    last = int(fragments.instance.max(initial=0))
    sheds = shed_reports(kernel, fragments, arrived, lost, [query] * (last + 1))
    return lost_state(sheds, float(fragments.utility.sum()))


def query_of(lane: Lane, declared: int) -> str:
    """The query of a declared instance of a lane; all of them if several share it, the lane if others read it."""
    names = dict.fromkeys(outlet.query_of[declared] for outlet in lane.outlets)
    return ", ".join(name for name in names if name is not None) or f"lane {lane.number}"


def _first_need_us(fragments: Fragments) -> int:
    return int(fragments.needed_us.min()) if len(fragments) else NO_DEADLINE_US


def _rank(fragments: Fragments, way: MoveWay) -> float:
    if way.first is First.NEEDED:
        return float(_first_need_us(fragments))
    if way.first is First.USEFUL:
        return -float(fragments.utility.sum()) / max(1, fragments.total_bytes)
    return 0.0
