"""A small world for the controller: instances whose work is a function of time, workers, and no clock but this one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shoal.control.controller import Controller
from shoal.control.journal import Decided, Entry
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding
from shoal.model.control.messages import CommandRefused, EpochCommitted, Event, MovesFinished, Rebind, Repartition
from shoal.model.control.partitioning import DECLARED, number_of, operator_of
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.static import round_robin
from shoal.workloads.traffic.queries import queries

Work = Callable[[int, float], float]
"""Work of an instance by its place in the list of instances and the time, as a share of one worker."""
GRAPH = Graph.of(queries(4))


def committed(snapshot: Snapshot, at_s: float, moves: int = 0) -> EpochCommitted:
    """An epoch that saw this."""
    rows = sum(load.events for load in snapshot.loads.values())
    return EpochCommitted(
        snapshot.epoch, rows, 0, 0, moves, 0, 0, snapshot.period_s, 0.0, 0.0, 0.0, 0.0, snapshot=snapshot, at_s=at_s
    )


@dataclass
class World:
    """Runs a controller against work; commands take effect with the next epoch."""

    work: Work
    policy: str = "guarded"
    workers: int = 2
    settings: ControlSettings = field(default_factory=ControlSettings)
    graph: Graph = GRAPH
    epoch_s: float = 0.5
    latency_s: Callable[[Sequence[float]], float] = lambda busy: 0.0
    now_s: float = 100.0
    epoch: int = 0
    part: Callable[[Sequence[int], int], float] = lambda slots, number: slots.count(number) / len(slots)
    """The part of a group's work that comes to an instance, by the instance of each of its slots."""
    topology: Topology | None = None
    entries: list[Entry] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Everything round-robin."""
        self.controller = Controller(self.graph, self.policy, self.settings)
        self.binding = round_robin(self.graph, self.workers)
        self.moves = 0
        self.moving: list[Rebind] = []
        self.partitioning = DECLARED

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """All that is bound."""
        return self.partitioning.instances(self.graph)

    def work_of(self, instance: InstanceId, now_s: float) -> float:
        """Work of an instance: its share of what the groups have whose slots it has."""
        operator = self.graph.operators[operator_of(instance)]
        places = {group: place for place, group in enumerate(self.graph.stateful_instances)}
        return sum(
            self.work(places[group], now_s) * self.part(self.partitioning.slots(group), number_of(instance))
            for group in operator.instances
        )

    def busy(self) -> list[float]:
        """The share of its time that every worker has to work now."""
        busy = [0.0] * self.binding.workers
        for instance in self.instances:
            busy[self.binding.worker_of[instance]] += self.work_of(instance, self.now_s)
        return busy

    def step(self) -> None:
        """One epoch."""
        busy = self.busy()
        mean = sum(busy) / len(busy)
        self.peaks.append(max(busy) / mean if mean else 1.0)
        self.now_s += self.epoch_s
        done, self.moving = self.moving, []
        self.send(committed(self.snapshot(busy), self.now_s))
        for rebind in done:
            self.send(MovesFinished(rebind.id, at_s=self.now_s))

    def snapshot(self, busy: Sequence[float]) -> Snapshot:
        """What there is to see."""
        shares = {i: self.work_of(i, self.now_s - self.epoch_s) for i in self.instances}
        loads = {
            i: InstanceLoad(int(1000 * share * self.epoch_s), share * self.epoch_s, 1, 1000)
            for i, share in shares.items()
        }
        latency_s = {"avg_speed": self.latency_s(busy)}
        busy_s = tuple(min(1.0, share) * self.epoch_s for share in busy)
        return Snapshot(
            self.epoch,
            self.binding,
            loads,
            {},
            period_s=self.epoch_s,
            latency_s=latency_s,
            busy_s=busy_s,
            topology=self.topology,
            partitioning=self.partitioning,
        )

    def send(self, event: Event) -> None:
        """Send an event to the controller and carry out its commands."""
        reaction = self.controller.handle(event)
        self.entries += reaction.entries
        self.epoch += 1
        for command in reaction.commands:
            if isinstance(command, Repartition):
                self.repartition(command)
            else:
                assert isinstance(command, Rebind)
                self.rebind(command.binding)
                self.moving.append(command)

    def repartition(self, command: Repartition) -> None:
        """Carry out a command to split and merge."""
        for change in command.changes:
            self.partitioning = self.partitioning.after(change, self.graph)
        wanted = Binding.of({**self.binding.worker_of, **command.worker_of}, self.binding.workers)
        self.binding = wanted.fitted(self.instances)

    def rebind(self, binding: Binding) -> None:
        """Use another binding, and count its moves."""
        self.moves += sum(1 for _ in self.binding.diff(binding))
        self.binding = binding

    def run(self, seconds: float) -> "World":
        """Run epochs for some seconds."""
        for _ in range(round(seconds / self.epoch_s)):
            self.step()
        return self

    def refuse(self, reason: str) -> None:
        """Let the runtime refuse what was asked for last."""
        self.send(CommandRefused(self.moving.pop(), reason, at_s=self.now_s))

    @property
    def decisions(self) -> list[Decided]:
        """What was decided."""
        return [entry for entry in self.entries if isinstance(entry, Decided)]
