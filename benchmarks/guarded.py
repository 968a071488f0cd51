"""Our policy `guarded` against all others and against what is possible, on simulated machines of two sockets.

    python benchmarks/guarded.py --quick

Scenarios: `traffic` with the profiles W1 (a load that stays), W2 (it moves on every second) and W3 (a rush hour), a
rush hour of which every query gets every event, and `skew` (hot cells that move). Cores are so slow that the busiest
second needs the given share of all of them. Three rows tell what is possible: `bound` is a latency that no binding,
queue or order of tasks beats as long as instances are not split; `even` is a machine that divides all work evenly, one
step after another; `hindsight` is a run with a queue per worker under a
binding that is found for every second by looking into the future, longest first. Simulated time is deterministic: the
same version gives the same table.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from guarded_scenarios import CONF, Scenario, machine_file, record, scenarios
from record import add_options, written
from table import plain

from shoal.compiler.program import compile_graph
from shoal.control.settings import ControlSettings
from shoal.experiments.machine import described
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.hindsight import Recorded, in_order, longest_first, lower_bound
from shoal.policies.catalog import SUMMARIES
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.session.run import Run, start

MACHINES = {"numa:2x12": (2, 12), "numa:2x18": (2, 18)}
LOADS = (0.7, 0.9, 0.95)
RATE = 20_000
HAND_OVER_S = 1e-5
"""The work of a move on a core of any speed. An event here stands for many, a move does not."""
STUDIES = {"trigger": "periodic:2", "decision": "always"}
CONTROL = {
    **dict.fromkeys(("greedy", "dynamic-metis"), STUDIES),
    "two-level": {"trigger": "latency:0.03", "decision": "always"},
    "metis": {"profile_s": "2", "decision": "always"},
}
"""The policies of the studies are asked as there, and their proposals are always enacted; ours has the defaults."""
BOUND, HINDSIGHT = "bound", "hindsight"
HEADER = ["machine", "scenario", "load", "policy", "mean ms", "p99 ms", "max ms", "moves", "mean / bound"]


@dataclass(frozen=True)
class Trial:
    """A scenario on a machine at a load; `speed` is that of its cores."""

    machine: str
    scenario: Scenario
    load: float
    speed: float
    recorded: Recorded

    @property
    def workers(self) -> int:
        """Number of cores."""
        nodes, cores = MACHINES[self.machine]
        return nodes * cores


def trials(machines: Sequence[str], names: Sequence[str], loads: Sequence[float], rate: int) -> Iterator[Trial]:
    """All trials; a scenario is recorded once."""
    for scenario in scenarios(rate):
        if scenario.name not in names:
            continue
        recorded = record(scenario.job(), {})
        second = np.floor(recorded.begin_s).astype(np.int64)
        busiest_s = float(np.bincount(second, weights=recorded.work_s.sum(axis=1)).max())
        for machine in machines:
            nodes, cores = MACHINES[machine]
            for load in loads:
                yield Trial(machine, scenario, load, busiest_s / (load * nodes * cores), recorded)


class Foreseen:
    """Binds every second by the work that it will bring, longest first; used as a watcher of a run."""

    def __init__(self, trial: Trial, plan: TaskPlan) -> None:
        """Sum up the work of every instance in every second."""
        second = np.floor(trial.recorded.begin_s).astype(np.int64)
        work_s = trial.recorded.work_s[:, plan.instance_tasks]
        self._work_s = np.stack([work_s[second == number].sum(axis=0) for number in range(int(second.max()) + 1)])
        self._workers, self._next = trial.workers, 0
        self._instances = plan.instances

    def __call__(self, run: Run, done: EpochCommitted) -> None:
        """Bind for the next second, one report before it begins."""
        assert run.binding is not None
        if done.at_s < self._next - 0.15 or self._next >= len(self._work_s):
            return
        placed = longest_first(self._work_s[self._next], self._workers).tolist()
        run.rebind(type(run.binding).of(dict(zip(self._instances, placed, strict=True)), self._workers))
        self._next += 1


def outcome(trial: Trial, policy: str, given: dict[str, str], directory: str) -> dict[str, Any]:
    """Run a trial under a policy, or with hindsight."""
    job = trial.scenario.job()
    nodes, cores = MACHINES[trial.machine]
    foreseen = policy == HINDSIGHT
    run = start(
        job,
        on="simulated",
        topology=machine_file(nodes, cores, trial.speed, directory),
        policy="round-robin" if foreseen else policy,
        control=ControlSettings.of({**CONTROL.get(policy, {}), **(given if policy == "guarded" else {})}),
        conf={**CONF, "hand_over_s": repr(HAND_OVER_S * trial.speed)},
    )
    watcher = None
    if foreseen:
        watcher = Foreseen(trial, TaskPlan(compile_graph(job.graph)))
    tally = run.wait(watcher)
    return {**tally.latency_ms(), "moves": tally.moves}


def compared(trial: Trial, policies: Sequence[str], given: dict[str, str]) -> list[dict[str, Any]]:
    """The bound, and every policy."""
    possible = {
        BOUND: lower_bound(trial.recorded, trial.workers, trial.speed),
        "even": in_order(trial.recorded, trial.workers, trial.speed),
    }
    shown = {"machine": trial.machine, "scenario": trial.scenario.name, "load": trial.load}
    found = [
        {**shown, "policy": name, "mean": each.mean_s * 1e3, "p99": each.p99_s * 1e3, "max": 0.0, "moves": 0}
        for name, each in possible.items()
    ]
    with tempfile.TemporaryDirectory() as directory:
        ran = [{**shown, "policy": policy, **outcome(trial, policy, given, directory)} for policy in policies]
    return [*found, *ran]


def rows(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A row per run."""
    least = {
        (each["machine"], each["scenario"], each["load"]): each["mean"] for each in found if each["policy"] == BOUND
    }
    return [
        [
            each["machine"], each["scenario"], f"{each['load']:.0%}", each["policy"],
            *(f"{each[name]:,.1f}" if each[name] else "" for name in ("mean", "p99", "max")),
            f"{each['moves']:,}", f"{each['mean'] / least[each['machine'], each['scenario'], each['load']]:.3f}",
        ]
        for each in found
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_options(parser, "one machine, one scenario, one load, three policies: does it run")
    parser.add_argument("--only", nargs="*", help="some scenarios: W1, W2, W3, rush, skew")
    parser.add_argument("--machines", nargs="*", choices=MACHINES, help="some machines")
    parser.add_argument("--loads", nargs="*", type=float, help="some loads, e.g. 0.95")
    parser.add_argument("--policies", nargs="*", choices=(*SUMMARIES, HINDSIGHT), help="some policies")
    parser.add_argument("--control", nargs="*", default=[], help="settings of the controller of guarded, NAME=VALUE")
    options = parser.parse_args()
    names = options.only or (["W2"] if options.quick else ["W1", "W2", "W3", "rush", "skew"])
    machines = options.machines or (["numa:2x12"] if options.quick else list(MACHINES))
    loads = options.loads or ([0.9] if options.quick else LOADS)
    policies = options.policies or (
        ["single-queue", "guarded", HINDSIGHT] if options.quick else [*SUMMARIES, HINDSIGHT]
    )
    given = dict(each.split("=", 1) for each in options.control)
    found = list[dict[str, Any]]()
    for trial in trials(machines, names, loads, 4000 if options.quick else RATE):
        found += compared(trial, policies, given)
        last = rows(found)[-len(policies) - 2 :]
        print(plain(HEADER, last), flush=True)
    print(f"written to {written('guarded', {'runs': found, 'control': given}, described(), options)}")


if __name__ == "__main__":
    main()
