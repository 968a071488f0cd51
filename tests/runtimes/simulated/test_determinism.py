"""One seed gives one run, byte by byte; another seed gives other delays, and the same results."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from tests.small_city import city, digest

from shoal.compiler.lane import Lane
from shoal.compiler.program import compile_graph
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.state_dependent import StateDependent
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.runtimes.simulated.task_costs import TaskCosts
from shoal.session.run import start

ROOT = Path(__file__).parents[3]


def digest_of_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    paths = os.pathsep.join((str(ROOT), environment.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("one_run.py")), "3"],
        env={**environment, "PYTHONPATH": paths},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_two_processes_have_the_same_results_journal_and_epochs() -> None:
    first, second = (digest_of_process(hash_seed) for hash_seed in ("1", "2"))
    assert len(first) == 64
    assert first == second


class Spread(StateDependent):
    """A delay model whose costs vary."""

    def lane(self, lane: Lane) -> Cost:
        return Cost(event_s=1e-6, spread=0.5)


def work_s(seed: int) -> list[float]:
    plan = TaskPlan(compile_graph(city().job.graph))
    ones, sizes = np.ones(plan.number, int), np.zeros(len(plan.instances))
    costs = TaskCosts(plan, Spread(plan.program), seed)
    steps = [costs.step(Counts(0, 0.0, 1, ones, ones, sizes)) for _ in range(2)]
    return [float(value) for step in steps for value in step.work_s]


def test_another_seed_draws_other_delays_and_the_same_seed_the_same() -> None:
    assert work_s(1) == work_s(1)
    assert work_s(1) != work_s(2)
    half = len(work_s(1)) // 2
    assert work_s(1)[:half] != work_s(1)[half:]


def test_the_seed_changes_no_result() -> None:
    digests = set()
    for seed in (1, 2):
        run = start(city().job, on="simulated", topology="numa:2x2", seed=seed)
        run.wait()
        digests.add(digest(run))
    assert len(digests) == 1
