"""Scheduling policies: which operator a free worker runs next, and how many events it takes.

Every policy is a pure function of what the operators look like. Costs are per event; an operator's output cost is
what it takes to bring one of its events out at the end: its own cost and that of everything behind it, divided by
how much of its output arrives there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

LEAST_EVENTS = 32_768
"""Events an operator takes at least when it is its turn."""
LEAST_COST_S = 1e-9
MOST_EVENTS, MOST_EVENTS_STEP = 10_000.0, 1000.0
MOST_IDLE_S, MOST_IDLE_STEP_S = 0.001, 0.0001
BLOCK_EVENTS = 16_384
"""Events that policies without thresholds give an operator at a time."""


@dataclass(frozen=True)
class OperatorCost:
    """What an operator was measured to cost; `downstream` are the places of its readers in the list of operators."""

    cost_s: float
    selectivity: float
    downstream: tuple[int, ...] = ()
    weight: float = 1.0


class Candidate(NamedTuple):
    """An operator that could run now: its place in the list of operators, and what waits for it.

    `holds_back` if those before it cannot go on until it has made room.
    """

    place: int
    pending: int
    priority: float
    cost_s: float
    waited_s: float
    idle_s: float
    turns: int
    is_source: bool = False
    holds_back: bool = False


class Turn(NamedTuple):
    """An operator's turn: its place in the list of operators, and about how many events it should take."""

    place: int
    events: int


class SchedulingPolicy(Protocol):
    """Chooses turns."""

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Larger is more urgent; computed anew whenever costs and selectivities have been measured."""

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """The next turn, with so much time left until costs are measured again; None where nothing is worth it."""

    def adapted(self, gradient: float) -> "SchedulingPolicy":
        """The policy for the time after latency has changed by a share of itself."""


class Steady:
    """A policy that stays as it is."""

    def adapted(self, gradient: float) -> Self:  # noqa: ARG002
        """The same."""
        return self


def output_selectivity(operators: Sequence[OperatorCost]) -> list[float]:
    """How many results one event of each operator becomes, along the most productive way."""
    found: dict[int, float] = {}

    def of(place: int) -> float:
        if place not in found:
            behind = max((of(next_) for next_ in operators[place].downstream), default=1.0)
            found[place] = max(operators[place].selectivity, 1e-6) * behind
        return found[place]

    return [of(place) for place in range(len(operators))]


def output_cost_s(operators: Sequence[OperatorCost]) -> list[float]:
    """The time to bring one result out that begins as an event of each operator."""
    selectivity = output_selectivity(operators)
    own = [max(one.cost_s, LEAST_COST_S) / share for one, share in zip(operators, selectivity, strict=True)]
    return [own[place] + sum(own[next_] for next_ in _behind(operators, place)) for place in range(len(operators))]


def _behind(operators: Sequence[OperatorCost], place: int) -> set[int]:
    """Every operator behind another, each once."""
    seen: set[int] = set()
    todo = list(operators[place].downstream)
    while todo:
        next_ = todo.pop()
        if next_ not in seen:
            seen.add(next_)
            todo += operators[next_].downstream
    return seen


def _first(candidates: Sequence[Candidate], key: Callable[[Candidate], float]) -> Candidate:
    """The candidate with the largest key; sources only where there is nothing else, and each in its turn."""
    return max(candidates, key=lambda one: (not one.is_source, one.idle_s if one.is_source else key(one)))


@dataclass(frozen=True)
class Fcfs(Steady):
    """The operator whose oldest event has waited longest, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Nothing to compute."""
        return [0.0] * len(operators)

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Oldest first."""
        return Turn(_first(candidates, lambda one: one.waited_s).place, self.block_events)


@dataclass(frozen=True)
class RoundRobin(Steady):
    """The operator that has had the fewest turns, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Nothing to compute."""
        return [0.0] * len(operators)

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Fewest turns first."""
        return Turn(min(candidates, key=lambda one: one.turns).place, self.block_events)


@dataclass(frozen=True)
class MinLatency(Steady):
    """The operator whose events are soonest out, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """The inverse of the output cost."""
        return [1.0 / cost for cost in output_cost_s(operators)]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Nearest to the end first."""
        return Turn(_first(candidates, lambda one: one.priority).place, self.block_events)


@dataclass(frozen=True)
class HighestRate(Steady):
    """The operator that brings most results out per second of work, one block at a time."""

    block_events: int = BLOCK_EVENTS

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Output selectivity over the average cost on the way out."""
        selectivity = output_selectivity(operators)
        rates = []
        for place, one in enumerate(operators):
            way = [one.cost_s, *(operators[next_].cost_s for next_ in _behind(operators, place))]
            rates.append(selectivity[place] / max(sum(way) / len(way), LEAST_COST_S))
        return rates

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:  # noqa: ARG002
        """Largest rate first."""
        return Turn(_first(candidates, lambda one: one.priority).place, self.block_events)


@dataclass(frozen=True)
class MinCost(Steady):
    """Upstream first, so that each operator finds as much as possible to do at once."""

    threshold: int = 1000
    idle_s: float = 0.0002

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """The number of operators behind each."""
        return [float(len(_behind(operators, place))) for place in range(len(operators))]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """Most upstream of those with enough to do."""
        return _thresholded(candidates, left_s, self.threshold, self.idle_s)


@dataclass(frozen=True)
class Thresholds:
    """How much an operator must have to do, or how long it must have been idle, to be worth a turn."""

    events: float = 1000.0
    idle_s: float = 0.0002

    def adjusted(self, gradient: float) -> "Thresholds":
        """Larger while latency grows, so that turns do more each; smaller while it falls."""
        events = _stepped(self.events, gradient, MOST_EVENTS_STEP, MOST_EVENTS)
        return Thresholds(events, _stepped(self.idle_s, gradient, MOST_IDLE_STEP_S, MOST_IDLE_S))


def _stepped(value: float, gradient: float, step: float, most: float) -> float:
    """A value changed by a share of itself, by no more than a step up; as it was where it would leave its range."""
    changed = value + min(gradient * value, step)
    return changed if 0 < changed < most else value


@dataclass(frozen=True)
class StateBased:
    """The operator whose events are soonest out, weighted by its queries' latency, among those with enough to do.

    The thresholds follow latency; where latency grew faster after they were changed, the earlier ones return.
    """

    thresholds: Thresholds = Thresholds()
    before: tuple[Thresholds, float] | None = None

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Weight over output cost."""
        return [one.weight / cost for one, cost in zip(operators, output_cost_s(operators), strict=True)]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """The largest priority among the eligible."""
        return _thresholded(candidates, left_s, self.thresholds.events, self.thresholds.idle_s)

    def adapted(self, gradient: float) -> "StateBased":
        """Other thresholds, or those from before the last change if it made things worse."""
        if self.before is not None and gradient > self.before[1]:
            return StateBased(self.before[0])
        adjusted = self.thresholds.adjusted(gradient)
        return self if adjusted == self.thresholds else StateBased(adjusted, (self.thresholds, gradient))


def _thresholded(candidates: Sequence[Candidate], left_s: float, threshold: float, idle_s: float) -> Turn | None:
    """Operators with at least so many events, or as many as there is room for, or that have been idle for long.

    They take as many events as time is left for.
    """
    eligible = [
        one for one in candidates if one.is_source or one.holds_back or one.pending >= threshold or one.idle_s > idle_s
    ]
    if not eligible:
        return None
    chosen = _first(eligible, lambda one: one.priority)
    return Turn(chosen.place, max(round(max(left_s, 0.0) / max(chosen.cost_s, LEAST_COST_S)), LEAST_EVENTS))


def latency_weight(gradient: float) -> float:
    """How much more urgent a query is whose latency grew by a share, or less where it fell."""
    return 1.0 + max(-1.0, min(1.0, gradient)) / 10


@dataclass(frozen=True)
class Threads(RoundRobin):
    """No choice at all: a thread per operator, and the operating system decides."""


SCHEDULING: Mapping[str, SchedulingPolicy] = {
    "state-based": StateBased(),
    "fcfs": Fcfs(),
    "round-robin": RoundRobin(),
    "min-latency": MinLatency(),
    "min-cost": MinCost(),
    "highest-rate": HighestRate(),
    "threads": Threads(),
}
