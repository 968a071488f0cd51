"""The protocol of scheduling policies, and what several of them share.

Costs are per event. The output cost of an operator is the time to bring one result to the end that begins as an event
of this operator: its own cost and that of everything downstream, over the share of its output that arrives there.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, NamedTuple, Protocol, Self

LEAST_EVENTS = 32_768
"""Fewest events in a turn of the policies with thresholds."""
LEAST_COST_S = 1e-9
BLOCK_EVENTS = 16_384
"""Events in a turn of the policies without thresholds."""


class OperatorCost(NamedTuple):
    """The measured cost of an operator; `downstream` are the positions of its readers in the list of operators."""

    cost_s: float
    selectivity: float
    downstream: tuple[int, ...] = ()
    weight: float = 1.0


class Candidate(NamedTuple):
    """An operator that could run now: its position in the list of operators, and its pending input.

    `holds_back` if operators upstream are blocked until it has made room.
    """

    position: int
    pending: int
    priority: float
    cost_s: float
    waited_s: float
    idle_s: float
    turns: int
    is_source: bool = False
    holds_back: bool = False


class Turn(NamedTuple):
    """An operator's turn: its position in the list of operators, and about how many events it takes."""

    position: int
    events: int


BY_PRIORITY: Callable[[Candidate], float] = attrgetter("priority")
_BY_IDLENESS: Callable[[Candidate], float] = attrgetter("idle_s")


class SchedulingPolicy(Protocol):
    """Chooses turns; an immutable value.

    `sources_last`: a source gets a turn only if there is none for any other candidate, so that sources are asked only
    then. `by_age`: it reads `waited_s` of candidates, which is 0 otherwise. Both make decisions cheaper.
    """

    sources_last: ClassVar[bool]
    by_age: ClassVar[bool]

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Called whenever costs were measured; returns a priority per operator, larger is more urgent."""

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """Called by a free worker with at least one candidate; returns its turn, or None to wait.

        `left_s` is the time until costs are measured again.
        """

    def adapted(self, gradient: float) -> "SchedulingPolicy":
        """Called after each measurement with the relative change of latency; returns the policy to use from now on."""


class Steady:
    """A policy that does not adapt to latency and has sources wait for everything else."""

    sources_last: ClassVar[bool] = True
    by_age: ClassVar[bool] = False

    def adapted(self, gradient: float) -> Self:  # noqa: ARG002
        """The same policy."""
        return self


def output_selectivity(operators: Sequence[OperatorCost]) -> list[float]:
    """The number of results per event of each operator, along the most productive path."""
    found = [1.0] * len(operators)
    for position in _readers_first(tuple(one.downstream for one in operators)):
        own, readers = operators[position].selectivity, operators[position].downstream
        behind = max([found[next_] for next_ in readers]) if readers else 1.0
        found[position] = max(own, 1e-6) * behind
    return found


def output_cost_s(operators: Sequence[OperatorCost]) -> list[float]:
    """The time to bring one result to the end that begins as an event of each operator."""
    selectivity = output_selectivity(operators)
    own = [max(one.cost_s, LEAST_COST_S) / share for one, share in zip(operators, selectivity, strict=True)]
    behind = _all_downstream(tuple(one.downstream for one in operators))
    return [cost_s + sum([own[next_] for next_ in reached]) for cost_s, reached in zip(own, behind, strict=True)]


def downstream(operators: Sequence[OperatorCost], position: int) -> frozenset[int]:
    """The positions of all operators downstream of one, each once."""
    return _all_downstream(tuple(one.downstream for one in operators))[position]


@lru_cache(maxsize=16)
def _readers_first(readers: tuple[tuple[int, ...], ...]) -> list[int]:
    """The positions of all operators, each after those of its readers; the same in every measurement of a run."""
    behind = _all_downstream(readers)
    return sorted(range(len(readers)), key=lambda position: len(behind[position]))


@lru_cache(maxsize=16)
def _all_downstream(readers: tuple[tuple[int, ...], ...]) -> list[frozenset[int]]:
    """The positions downstream of every operator, from those of its readers; the same in every measurement of a run."""
    found: list[frozenset[int]] = []
    for direct in readers:
        reached: set[int] = set()
        todo = list(direct)
        while todo:
            next_ = todo.pop()
            if next_ not in reached:
                reached.add(next_)
                todo += readers[next_]
        found.append(frozenset(reached))
    return found


def first(candidates: Sequence[Candidate], key: Callable[[Candidate], float]) -> Candidate:
    """The candidate with the largest key; sources only if there is no other, the one that was idle longest."""
    if len(candidates) == 1:
        return candidates[0]
    inner = [one for one in candidates if not one.is_source]
    return max(inner, key=key) if inner else max(candidates, key=_BY_IDLENESS)


def above_threshold(candidates: Sequence[Candidate], left_s: float, threshold: float, idle_s: float) -> Turn | None:
    """The turn of the most urgent candidate that is worth one, with as many events as fit into the time left.

    Worth a turn are sources, candidates with at least `threshold` events, those that hold others back, and those that
    were idle for more than `idle_s`.
    """
    eligible = [
        one for one in candidates if one.pending >= threshold or one.idle_s > idle_s or one.is_source or one.holds_back
    ]
    if not eligible:
        return None
    chosen = first(eligible, BY_PRIORITY)
    return Turn(chosen.position, max(round(max(left_s, 0.0) / max(chosen.cost_s, LEAST_COST_S)), LEAST_EVENTS))


def latency_weight(gradient: float) -> float:
    """The weight of a query by the relative change of its latency: above 1 if latency grows, below if it falls."""
    return 1.0 + max(-1.0, min(1.0, gradient)) / 10
