"""Conditions on aggregates that all readers of a lane begin with, checked where the aggregates are computed.

A window that no reader wants is then never materialized. The readers check again, which changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shoal.compiler.lane import Lane
from shoal.compiler.steps import DispatchByOrigin, Filter, Step
from shoal.model.query.expression import Expression


def with_conditions(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The lanes, each with the condition that all its readers share, where its kernel can check it."""
    return tuple(_with_condition(lane, lanes) for lane in lanes)


def _with_condition(lane: Lane, lanes: Iterable[Lane]) -> Lane:
    kernel = lane.kernel
    if kernel is None:
        return lane
    readers = [feed.steps for other in lanes for feed in other.feeds if feed.origin == lane.number]
    readers += [outlet.steps for outlet in lane.outlets]
    conditions = [_first_condition(steps) for steps in readers]
    if not conditions or conditions[0] is None:
        return lane
    wanted = conditions[0]
    if any(condition is None or condition.text != wanted.text for condition in conditions):
        return lane
    return replace(lane, kernel=kernel.with_condition(wanted))


def _first_condition(steps: Sequence[Step]) -> Expression | None:
    """The condition of the first filter, if only dispatches by origin precede it."""
    for step in steps:
        if isinstance(step, Filter):
            return step.condition
        if not isinstance(step, DispatchByOrigin):
            return None
    return None
