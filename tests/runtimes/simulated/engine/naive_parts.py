"""What the naive simulation consists of: cells of steps, tasks, units and workers."""

from dataclasses import dataclass, field


@dataclass
class Cell:
    """The part of a task in a step."""

    work_s: float
    size: float
    missing: int
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
    began_s: float = 0.0
    worked_s: float = 0.0
