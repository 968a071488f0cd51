"""The policy `state-based` of the study Enjima: smallest output cost first, with thresholds that follow latency."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from shoal.policies.scheduling.policy import Candidate, OperatorCost, Turn, above_threshold, output_cost_s

MOST_EVENTS, MOST_EVENTS_STEP = 10_000.0, 1000.0
MOST_IDLE_S, MOST_IDLE_STEP_S = 0.0003, 0.0001


@dataclass(frozen=True)
class Thresholds:
    """The pending events, or the idle time, that make an operator worth a turn."""

    events: float = 1000.0
    idle_s: float = 0.0002

    def adjusted(self, gradient: float) -> "Thresholds":
        """Larger while latency grows, so that every turn does more; smaller while it falls."""
        events = _stepped(self.events, gradient, MOST_EVENTS_STEP, MOST_EVENTS)
        return Thresholds(events, _stepped(self.idle_s, gradient, MOST_IDLE_STEP_S, MOST_IDLE_S))


def _stepped(value: float, gradient: float, step: float, most: float) -> float:
    """A value changed by a share of itself, by at most one step up; unchanged if it would leave its range."""
    changed = value + min(gradient * value, step)
    return changed if 0 < changed < most else value


@dataclass(frozen=True)
class StateBased:
    """The operator with the smallest output cost, weighted by the latency of its queries, among those worth a turn.

    The thresholds follow latency. If latency grew faster after a change of the thresholds, the change is undone.
    """

    sources_last: ClassVar[bool] = True
    by_age: ClassVar[bool] = False

    thresholds: Thresholds = Thresholds()
    before: tuple[Thresholds, float] | None = None
    """The thresholds before the last change, and the gradient that led to it."""

    def priorities(self, operators: Sequence[OperatorCost]) -> list[float]:
        """Weight over output cost."""
        return [one.weight / cost for one, cost in zip(operators, output_cost_s(operators), strict=True)]

    def choose(self, candidates: Sequence[Candidate], left_s: float) -> Turn | None:
        """Largest priority first."""
        return above_threshold(candidates, left_s, self.thresholds.events, self.thresholds.idle_s)

    def adapted(self, gradient: float) -> "StateBased":
        """Other thresholds, or those from before the last change if it made latency worse."""
        if self.before is not None and gradient > self.before[1]:
            return StateBased(self.before[0])
        adjusted = self.thresholds.adjusted(gradient)
        return self if adjusted == self.thresholds else StateBased(adjusted, (self.thresholds, gradient))
