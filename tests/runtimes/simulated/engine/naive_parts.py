"""What the naive simulation consists of: cells of steps, tasks, units and workers."""

from dataclasses import dataclass, field

from shoal.runtimes.simulated.engine.world import SEED_STRIDE, WORKER_STRIDE, Rules, Tasks
from shoal.runtimes.simulated.machine.machine import Machine


@dataclass
class Cell:
    """The part of a task in a step."""

    work_s: float
    once_s: float
    size: float
    missing: int
    varied: float = 1.0
    place: int = 0
    ends: bool = False
    implied: bool = False
    done: bool = False
    ran_on: int | None = None


@dataclass
class Step:
    """One arrival; `cells` has those tasks that have something to do."""

    arrival_s: float
    rows: int
    cells: dict[int, Cell]

    @property
    def is_done(self) -> bool:
        return all(cell.done for cell in self.cells.values())


@dataclass
class Task:
    """An operator of an instance."""

    unit: int
    group: int
    fixed_s: float
    inputs: list[int]
    outputs: list[int]
    state: str = "waiting"
    next: int = 0
    last_node: int | None = None
    last_run_s: float = 0.0
    busy_s: float = 0.0
    due: bool = False
    blocked: bool = False
    ended: bool = False
    polled: bool = False


@dataclass
class Unit:
    """What is bound to a worker."""

    owner: int
    target: int | None = None
    frozen_since_s: float | None = None
    at_work: int = 0
    state_bytes: float = 0.0
    extra_s: float = 0.0


@dataclass
class Worker:
    """A core."""

    host: int
    node: int
    up: bool
    in_use: bool
    access_s: float
    task: int | None = None
    turn: int = 0
    steps: list[int] = field(default_factory=list)
    last: tuple[int, int] | None = None
    made: list[int] = field(default_factory=list)
    part_s: float = 0.0
    free_s: float = 0.0
    starting: bool = False
    draws: int = 0
    began_s: float = 0.0
    worked_s: float = 0.0
    start: int = 0

    @property
    def is_idle(self) -> bool:
        return self.up and self.task is None and not self.starting


def tasks_of(tasks: Tasks) -> list[Task]:
    """Every task with its inputs and outputs."""
    edges = tasks.edges.tolist()
    return [
        Task(
            int(tasks.unit[n]),
            int(tasks.group[n]),
            float(tasks.fixed_s[n]),
            [a for a, b in edges if b == n],
            [b for a, b in edges if a == n],
        )
        for n in range(tasks.number)
    ]


def workers_of(machine: Machine, rules: Rules, cores: list[int]) -> list[Worker]:
    """Every core of a machine, those in use switched on."""
    workers = [
        Worker(int(machine.worker_host[n]), int(machine.worker_node[n]), n in cores, n in cores, 0.0)
        for n in range(machine.workers)
    ]
    for number, worker in enumerate(workers):
        worker.draws = (rules.seed * SEED_STRIDE + number * WORKER_STRIDE + 1) % 2**31
        worker.access_s = _access_s(machine, rules, worker, [workers[core] for core in cores])
    return workers


def _access_s(machine: Machine, rules: Rules, worker: Worker, used: list[Worker]) -> float:
    if rules.queues == "worker-queue":
        return machine.queue_s[0]
    same = [each for each in used if rules.queues == "single-queue" or each.node == worker.node]
    far = rules.queues == "single-queue" and len({each.node for each in used}) > 1
    curve = machine.queue_costs(machine.workers)
    return float(curve[max(1, len(same)) - 1]) + (machine.remote_queue_s if far else 0.0)
