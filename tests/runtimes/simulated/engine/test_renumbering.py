"""A simulation that gets more tasks while it runs: what was under way goes on as if nothing had happened."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtimes.simulated.engine.scenario import Scenario, Script, scenarios

from shoal.runtimes.simulated.engine.simulation import Simulation, StepInput, Tasks
from shoal.runtimes.simulated.machine.machine import Machine

Ints = npt.NDArray[np.int64]
END_S = 2000.0


class PaddedScript(Script):
    """A script whose steps have nothing to do for tasks that were added; `place`: where the others are now."""

    place: Ints
    number = 0

    def read(self, source: int, now_s: float) -> tuple[StepInput | None, float]:
        step, again_s = super().read(source, now_s)
        if step is None or not self.number:
            return step, again_s
        padded: dict[str, Any] = {}
        for name in ("work_s", "bytes", "events", "results", "once_s", "varied", "occasions", "places", "ends"):
            values = getattr(step, name)
            padded[name] = None if values is None else self._padded(np.asarray(values))
        return replace(step, **padded), again_s

    def _padded(self, values: Any) -> Any:
        found = np.zeros(self.number, values.dtype)
        found[self.place] = values
        return found


def grown(tasks: Tasks, place: Ints, number: int) -> tuple[Tasks, list[int]]:
    """The same tasks at other places among more, which have a unit each and no channels; and the units of those."""
    added = sorted({*range(number)} - {*place.tolist()})
    unit, group, fixed_s = np.zeros(number, np.int64), np.full(number, 10_000), np.zeros(number)
    unit[place], group[place], fixed_s[place] = tasks.unit, tasks.group, tasks.fixed_s
    unit[added] = tasks.units + np.arange(len(added))
    return Tasks(tasks.sources, unit, group, fixed_s, place[tasks.edges]), added


def course(scenario: Scenario, seed: int | None) -> tuple[Any, ...]:
    """What becomes of a scenario, if tasks are added, with a seed that says where, between all moves or never.

    Workers wake up at once, since how long that takes is drawn by the number of the task.
    """
    scenario = replace(scenario, machine=replace(scenario.machine, wake_ups=Machine.wake_ups))
    simulation, script = scenario.simulation(), PaddedScript(scenario.steps)
    random, place = np.random.default_rng(seed), np.arange(scenario.tasks.number)
    tasks = scenario.tasks
    for at_s, unit, worker in sorted(scenario.moves):
        simulation.advance(at_s, script.read)
        if seed is not None:
            tasks, place = _grow(simulation, tasks, place, random)
            script.place, script.number = place, tasks.number
        simulation.move(unit, worker)
    simulation.advance(END_S, script.read)
    assert simulation.live == 0
    task_of = {int(new): old for old, new in enumerate(place)}
    results = [(task_of[int(r["task"])], int(r["step"]), float(r["latency_s"])) for r in simulation.take_results()]
    moves = [tuple(each) for each in simulation.take_moves().tolist()]
    return sorted(results), simulation.worked_s().tolist(), moves


def _grow(
    simulation: Simulation,
    tasks: Tasks,
    place: Ints,
    random: np.random.Generator,
) -> tuple[Tasks, Ints]:
    number = tasks.number + int(random.integers(0, 3))
    others = random.choice(np.arange(tasks.sources, number), tasks.number - tasks.sources, replace=False)
    moved = np.concatenate([np.arange(tasks.sources), np.sort(others)])
    after, added = grown(tasks, moved, number)
    owner = [*simulation.owners().tolist(), *[0] * len(added)]
    ranks = np.zeros(number)
    ranks[moved] = simulation.world.tasks["rank"]
    simulation.renumber(after, owner, moved, np.arange(tasks.units))
    simulation.set_ranks(ranks)
    return after, moved[place]


@given(scenarios(), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_tasks_that_are_added_change_nothing_on_one_host(scenario: Scenario, seed: int) -> None:
    assert course(scenario, seed) == course(scenario, None)


@given(scenarios(network=True, outages=True), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_tasks_that_are_added_change_nothing_on_a_network(scenario: Scenario, seed: int) -> None:
    assert course(scenario, seed) == course(scenario, None)
