"""Conditions on aggregates that all readers of a lane begin with, checked where the aggregates are computed.

A window that nobody wants is then never written out with its keys. The readers check again, which changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shoal.kernels.aggregate import AggregateKernel
from shoal.model.expression import Expression
from shoal.query.lane import Lane
from shoal.query.steps import DispatchByOrigin, Filter, Step


def with_conditions(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The lanes, those of windowed aggregates with the condition that all their readers share."""
    return tuple(_with_condition(lane, lanes) for lane in lanes)


def _with_condition(lane: Lane, lanes: Iterable[Lane]) -> Lane:
    kernel = lane.kernel
    if not isinstance(kernel, AggregateKernel):
        return lane
    readers = [feed.steps for other in lanes for feed in other.feeds if feed.origin == lane.number]
    readers += [outlet.steps for outlet in lane.outlets]
    conditions = [_first_condition(steps) for steps in readers]
    if not conditions or conditions[0] is None:
        return lane
    wanted = conditions[0]
    if any(condition is None or condition.text != wanted.text for condition in conditions):
        return lane
    if not set(wanted.columns()) <= {name for name, _ in kernel.shape.aggregates}:
        return lane
    return replace(lane, kernel=replace(kernel, having=wanted))


def _first_condition(steps: Sequence[Step]) -> Expression | None:
    """The condition of the filter that steps begin with, be it behind a dispatch by origin."""
    for step in steps:
        if isinstance(step, Filter):
            return step.condition
        if not isinstance(step, DispatchByOrigin):
            return None
    return None
