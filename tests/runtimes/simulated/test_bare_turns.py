"""Turns that bring only a watermark: which parts of lanes take them, and what they cost."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.runtimes.simulated.delay.test_model import program

from shoal.model.control.binding import Binding
from shoal.policies.binding.static import round_robin
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.input.merges import Merges
from shoal.runtimes.simulated.input.task_plan import Counts, Merged, TaskPlan
from shoal.runtimes.simulated.task_costs import TaskCosts

HOUR_US = 3_600_000_000


def bare_of(name: str, stream: str, until_us: int, *, apart: bool = True) -> tuple[TaskPlan, Binding, list[int]]:
    """The tasks that take a turn for a watermark of a stream alone, with two workers; all others have none before."""
    compiled = program(name)
    plan, binding = TaskPlan(compiled, feeds_apart=apart), round_robin(compiled.graph, 2)
    epoch: Any = SimpleNamespace(fresh={}, state={})
    before = dict.fromkeys(compiled.inputs, 10 * HOUR_US)
    none = np.zeros(plan.number, np.int64)
    found = Merges().after(plan, epoch, none, before, {**before, stream: before[stream] + until_us}, binding, stream)
    return plan, binding, [] if found.bare is None else sorted(found.bare.tolist())


def test_every_lane_of_a_stream_takes_a_turn_for_its_watermark_on_every_worker() -> None:
    plan, binding, found = bare_of("ysb", "ad_events", 1)
    owners = plan.owners(binding, outside=False)
    assert sorted(owners[plan.unit[task]] for task in found) == [0, 1]


def lanes_of(plan: TaskPlan, tasks: list[int]) -> set[int]:
    return {lane.number for lane in plan.lanes for task in tasks if plan.first[lane.number] <= task < _end(plan, lane)}


def _end(plan: TaskPlan, lane: Any) -> int:
    return plan.first[lane.number] + plan.width(lane)


def test_lanes_of_other_streams_take_none_and_lanes_behind_wait_until_all_streams_have_advanced() -> None:
    plan, _, found = bare_of("nexmark", "person", 1)
    stateful = [lane for lane in plan.lanes if lane.kernel is not None]
    reading = {lane.number for lane in stateful if any(feed.origin == "person" for feed in lane.feeds)}
    assert lanes_of(plan, found) == reading
    assert any(isinstance(feed.origin, int) for lane in stateful for feed in lane.feeds)


def test_nobody_takes_them_where_no_local_run_is_imitated() -> None:
    assert bare_of("ysb", "ad_events", HOUR_US, apart=False)[2] == []


class Fixed:
    """A model of costs with one cost for everything."""

    def stream(self, _stream: str) -> Cost:
        return Cost(fixed_s=1e-4, event_s=1e-8)

    def lane(self, _lane: object) -> Cost:
        return Cost(fixed_s=1e-4, event_s=1e-8, bare_s=2e-5)

    def feed(self, _stream: str, _lane: object) -> Cost:
        return Cost(fixed_s=1e-4, event_s=1e-8)


def test_a_task_without_rows_pays_the_small_fixed_part_and_one_with_rows_its_usual_one() -> None:
    compiled = program("ysb")
    plan, model = TaskPlan(compiled, feeds_apart=True), Fixed()
    costs = TaskCosts(plan, model, 0)  # type: ignore[arg-type]
    events, none = np.zeros(plan.number, np.int64), np.zeros(len(plan.instance_tasks))
    first, second = plan.instance_tasks[:2].tolist()
    events[[0, first]] = 10
    merged = Merged(none, none, none, none, np.array([first, second]))
    step = costs.step(Counts(0, 0.0, 10, events, np.zeros(plan.number, np.int64), none, merged))
    assert step.varied is not None
    assert step.varied[[first, second]].tolist() == [1.0, -0.2]
    assert (step.work_s[[first, second]] > 0).all()


class Closing(Fixed):
    """The same, with turns that have results."""

    def lane(self, _lane: object) -> Cost:
        return Cost(fixed_s=1e-4, closings=(1e-3, 3e-3))


def test_a_turn_with_results_draws_what_it_costs_beside_once_for_all_instances_of_a_lane_on_a_worker() -> None:
    compiled = program("ysb")
    plan = TaskPlan(compiled, feeds_apart=True)
    costs = TaskCosts(plan, Closing(), 0, workers=1)  # type: ignore[arg-type]
    results, none = np.zeros(plan.number, np.int64), np.zeros(len(plan.instance_tasks))
    chosen = plan.instance_tasks[:3]
    results[chosen] = 5
    counts = Counts(0, 0.0, 0, np.zeros(plan.number, np.int64), results, none, Merged(none, none, none, none))
    drawn = [float(costs.step(counts).work_s[chosen].sum()) for _ in range(200)]
    assert set(np.round(drawn, 6).tolist()) == {0.001, 0.003}
    again = TaskCosts(plan, Closing(), 0, workers=1)  # type: ignore[arg-type]
    assert [float(again.step(counts).work_s[chosen].sum()) for _ in range(200)] == drawn
