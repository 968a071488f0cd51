"""The policy `guarded` beside all others and beside what is possible, on simulated machines of two sockets.

Cores are so slow that the busiest second needs the given share of all of them. Three names stand for what is possible:
`bound` is a latency that no binding, queue or order of tasks beats as long as instances are not split; `even` is a
machine that divides all work evenly, one step after another; `hindsight` is a run with a queue per worker under a
binding that is found for every second by looking into the future, longest first. `even-nodes` is a run with a queue per
memory node under a binding that never changes: it is drawn at random among those that give all nodes the same work of
the whole run, by looking into the future. Simulated time is deterministic.

When the input ends, all open windows close at once, which makes two thirds of all results. `open_ms` is the latency of
the results before that.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from measures.control.load_scenarios import CONF, LoadScenario, machine_file, record, scenarios
from shoal.compiler.program import compile_graph
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.hindsight import Recorded, in_order, longest_first, lower_bound
from shoal.runtimes.simulated.input.task_plan import TaskPlan
from shoal.session.run import Run, start

MACHINES = {"numa:2x12": (2, 12), "numa:2x18": (2, 18)}
HAND_OVER_S = 1e-5
"""The work of a move on a core of any speed. An event here stands for many, a move does not."""
STUDIES = {"trigger": "periodic:2", "decision": "always"}
CONTROL = {
    **dict.fromkeys(("greedy", "dynamic-metis"), STUDIES),
    "two-level": {"trigger": "latency:0.03", "decision": "always"},
    "metis": {"profile_s": "2", "decision": "always"},
}
"""The policies of the studies are asked as there, and their proposals are always enacted; ours has the defaults."""
HINDSIGHT, EVEN_NODES = "hindsight", "even-nodes"
UNASKED = {"trigger": "periodic:1000000", "split": "0"}
"""Control that never decides."""
POSSIBLE = ("bound", "even")
Watcher = Callable[[Run, EpochCommitted], None]


@dataclass(frozen=True)
class LoadedMachine:
    """A scenario on a machine; `speed` is that of its cores, such that the busiest second has a load."""

    machine: str
    scenario: LoadScenario
    recorded: Recorded
    speed: float

    @classmethod
    def of(cls, machine: str, scenario: LoadScenario, load: float) -> "LoadedMachine":
        """Record the scenario to find the speed."""
        nodes, cores = MACHINES[machine]
        recorded = record(scenario.job(), {})
        second = np.floor(recorded.begin_s).astype(np.int64)
        busiest_s = float(np.bincount(second, weights=recorded.work_s.sum(axis=1)).max())
        return cls(machine, scenario, recorded, busiest_s / (load * nodes * cores))

    @property
    def workers(self) -> int:
        """Number of cores."""
        nodes, cores = MACHINES[self.machine]
        return nodes * cores


class Foreseen:
    """Binds every second by the work that it will bring, longest first; used as a watcher of a run."""

    def __init__(self, loaded: LoadedMachine, plan: TaskPlan) -> None:
        """Sum up the work of every instance in every second."""
        second = np.floor(loaded.recorded.begin_s).astype(np.int64)
        work_s = loaded.recorded.work_s[:, plan.instance_tasks]
        self._work_s = np.stack([work_s[second == number].sum(axis=0) for number in range(int(second.max()) + 1)])
        self._workers, self._next = loaded.workers, 0
        self._instances = plan.instances

    def __call__(self, run: Run, done: EpochCommitted) -> None:
        """Bind for the next second, one report before it begins."""
        if done.at_s < self._next - 0.15 or self._next >= len(self._work_s):
            return
        placed = longest_first(self._work_s[self._next], self._workers).tolist()
        run.rebind(Binding.of(dict(zip(self._instances, placed, strict=True)), self._workers))
        self._next += 1


class Placed:
    """Binds once, to nodes with the same work in the whole run, drawn at random; used as a watcher of a run."""

    def __init__(self, loaded: LoadedMachine, plan: TaskPlan, draw: int) -> None:
        """Find the binding: the instances in random order, those with most work first, each on the emptiest node."""
        nodes, cores = MACHINES[loaded.machine]
        work_s = loaded.recorded.work_s[:, plan.instance_tasks].sum(axis=0)
        order = np.random.default_rng(draw).permutation(len(work_s))
        load_s, bound = np.zeros(nodes), np.zeros(nodes, np.int64)
        worker_of = {}
        for place in order[np.argsort(-work_s[order], kind="stable")].tolist():
            node = int(load_s.argmin())
            worker_of[plan.instances[place]] = node * cores + int(bound[node]) % cores
            load_s[node] += work_s[place]
            bound[node] += 1
        self.binding = Binding.of(worker_of, loaded.workers)
        self._bound = False

    def __call__(self, run: Run, done: EpochCommitted) -> None:
        """Bind after the first report."""
        del done
        if not self._bound:
            run.rebind(self.binding)
            self._bound = True


class UntilInputEnds:
    """Collects the latencies of results until a time, and passes reports on; used as a watcher of a run."""

    def __init__(self, until_s: float, onward: Watcher | None) -> None:
        """No result has come."""
        self.latency, self._until_s, self._onward = Histogram(), until_s, onward

    def __call__(self, run: Run, done: EpochCommitted) -> None:
        """Add the results of a report."""
        if done.at_s <= self._until_s and done.latency is not None:
            self.latency = merged([self.latency, done.latency])
        if self._onward is not None:
            self._onward(run, done)


def latency(
    machine: str, scenario: str, load: float, policy: str, rate: int = 20_000, seed: int = 0, draw: int = 0
) -> TrialOutcome:
    """The latency of a policy, or of what is possible, over the bound; `draw` is the seed of `even-nodes`."""
    known = {each.name: each for each in scenarios(rate, seed)}
    if machine not in MACHINES or scenario not in known:
        given = f"machine {machine!r} and scenario {scenario!r}"
        raise ConfigError(f"machines are {', '.join(MACHINES)}, scenarios {', '.join(known)}; got {given}")
    loaded = LoadedMachine.of(machine, known[scenario], load)
    least = lower_bound(loaded.recorded, loaded.workers, loaded.speed)
    if policy in POSSIBLE:
        found = least if policy == "bound" else in_order(loaded.recorded, loaded.workers, loaded.speed)
        times = {"latency_ms.mean": 1000 * found.mean_s, "latency_ms.p99": 1000 * found.p99_s}
    else:
        times = _run(loaded, policy, draw)
    return TrialOutcome({**times, "mean_over_bound": times["latency_ms.mean"] / (1000 * least.mean_s)})


def _run(loaded: LoadedMachine, policy: str, draw: int) -> dict[str, float]:
    job = loaded.scenario.job()
    nodes, cores = MACHINES[loaded.machine]
    watched: Watcher | None = None
    runs_as, control = policy, CONTROL.get(policy, {})
    if policy in (HINDSIGHT, EVEN_NODES):
        plan = TaskPlan(compile_graph(job.graph))
        watched = Foreseen(loaded, plan) if policy == HINDSIGHT else Placed(loaded, plan, draw)
        runs_as, control = ("round-robin", {}) if policy == HINDSIGHT else ("guarded", UNASKED)
    until = UntilInputEnds(float(loaded.recorded.begin_s[-1]), watched)
    with tempfile.TemporaryDirectory() as directory:
        run = start(
            job,
            on="simulated",
            topology=machine_file(nodes, cores, loaded.speed, directory),
            policy=runs_as,
            control=ControlSettings.of(control),
            conf={**CONF, "hand_over_s": repr(HAND_OVER_S * loaded.speed)},
        )
        tally = run.wait(until)
    times = {f"latency_ms.{name}": value for name, value in tally.latency_ms().items()}
    before = {f"open_ms.{name}": value for name, value in until.latency.summary_ms().items()}
    return {**times, **before, "moves": tally.moves}
