"""A flow on a simulated network: the run, and what tasks do in it, by the clock of the simulation.

Tasks are looked at after every epoch, so that they begin with a delay of at most an epoch. Rows of a task that sends as
fast as possible are due as fast as the link of their node carries them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from shoal.errors import RunError
from shoal.experiments.coordination.flow_run import Watch
from shoal.experiments.coordination.nodes.dataset_rows import DatasetRows
from shoal.experiments.coordination.nodes.node_tasks import UNITS
from shoal.experiments.coordination.nodes.node_trace import DEPLOYED
from shoal.experiments.coordination.nodes.pacing import MILLISECONDS, SENDS, Block, at_rate, paced_rows
from shoal.experiments.coordination.simulated.event_times import backward_us
from shoal.experiments.coordination.simulated.moving_queries import MovingQueries, QueryMove
from shoal.experiments.coordination.simulated.network_plan import NetworkPlan
from shoal.experiments.coordination.simulated.node_counts import CountingSink, NodeCounts
from shoal.experiments.coordination.simulated.sent_rows import SendSchedule, SentRows
from shoal.experiments.coordination.simulated.task_course import PendingTask, TaskCourse
from shoal.experiments.engines.row_types import columns_of
from shoal.experiments.experiment import Task, TaskFlow
from shoal.experiments.language.task_check import every_task
from shoal.experiments.language.task_table import NO_MIGRATION
from shoal.model.control.messages import EpochCommitted
from shoal.session.job import Job
from shoal.session.run import Run, start

VALUE_BYTES, HEADERS = 8, 1.04
"""The size of a value on a link as the simulation assumes it, and what headers add at most."""
SETTLED_S = 1.0
"""The least time without any change after which nothing is on its way any more."""
BLOCK_ROWS = 512


class DisconnectionFoundError(Exception):
    """A task cuts a node off at a time that was not known when the run began: it has to be run again with it."""

    def __init__(self, node: int, at_s: float) -> None:
        super().__init__(node, at_s)
        self.node, self.at_s = node, at_s


@dataclass(frozen=True)
class FlowSettings:
    """How a flow is simulated: cores of each node, settings of the runtime, rows of datasets, and when it must end."""

    cores: int
    conf: Mapping[str, str]
    dataset: Callable[[int], DatasetRows]
    late: Callable[[], bool]
    watch: Watch


class SimulatedFlow:
    """One simulated run of a flow. `outages`: when nodes are cut off, as far as it is known."""

    def __init__(
        self, plan: NetworkPlan, flow: TaskFlow, settings: FlowSettings, outages: list[tuple[int, float]]
    ) -> None:
        """Nothing runs yet."""
        self.plan, self._settings, self._outages = plan, settings, list(outages)
        self._graph = plan.graph(backward_us(flow.tasks, settings.dataset))
        self._operators = {number: plan.operators(each, self._graph) for number, each in plan.deployments.items()}
        read = {number: each for number, each in plan.file.streams.items() if each.name in self._graph.streams}
        self.schedules = {
            number: SendSchedule(pa.schema([column.with_nullable(True) for column in columns_of(each)]))
            for number, each in read.items()
        }
        self.sink = CountingSink()
        self.sinks = {plan.table(each): each.sinks[0] for each in plan.deployments.values() if each.sinks}
        first = [each for operators in self._operators.values() for each in operators.first]
        self.counts = NodeCounts(first, self._node_of, self.sinks, self.sink)
        workers = settings.cores * len(plan.nodes)
        self.moves = MovingQueries(self._running, self._graph.stateful_instances, workers)
        self._run: Run | None = None
        self._now_s = 0.0
        self._settled = self._clocks = False
        self._cut = 0
        self._relayed: dict[int, tuple[int, ...]] = {}
        self.trace: list[str] = []
        self._traced = True
        self.latency: dict[str, list[list[float]]] = {}
        self.course = TaskCourse(flow.tasks, self._begin, settings.watch)
        self._placed = set(_placed_by_tasks(flow))

    def run(self, topology: Mapping[str, str]) -> Run:
        """Run the flow to its end; raises a `RunError` with the reason if it cannot go on."""
        names = {each.name: number for number, each in self.plan.file.streams.items()}
        sources = {stream: SentRows(self.schedules[names[stream]]) for stream in self._graph.streams}
        self._run = run = start(
            Job("flow", self._graph, sources),
            on="simulated",
            workers=self._settings.cores * len(self.plan.nodes),
            sink=self.sink,
            policy="round-robin",
            mechanism="all-at-once",
            conf={"detail": "rows", "step_s": "0.002", "epoch_s": "0.01", "block_rows": str(BLOCK_ROWS)}
            | dict(topology)
            | dict(self._settings.conf),
        )
        for number, each in self.plan.deployments.items():
            if number not in self._placed:
                self.moves.add(self._move(number, each.hosts[0], "all-at-once", None, placing=True))
        self.course.advance()
        run.wait(self._tick)
        if self.course.waiting:
            raise RunError(f"the run has ended before its tasks: {self._shown()}")
        return run

    def _running(self) -> Run:
        if self._run is None:
            raise RunError("the run has not begun")
        return self._run

    def _tick(self, run: Run, event: EpochCommitted) -> None:
        """After every epoch: count what it has done, and let tasks go on."""
        if self._settings.late():
            raise RunError(f"it took too long: {self._shown()}")
        self._now_s = event.at_s
        self.counts.take(event)
        for table, mean_s in event.snapshot.latency_s.items():
            self.latency.setdefault(table, []).append([event.at_s, 1e3 * mean_s])
        self.moves.notice()
        idle = self.moves.idle and all(each.held or each.read == each.sent for each in self.schedules.values())
        self._settled = idle and self._now_s - self.counts.changed_s >= self._settle_s()
        self._clocks = any(each.by_clock for each in self.course.waiting)
        begun = self.course.begun
        self.course.advance()
        if self.course.done:
            run.drain()
        elif self._settled and begun == self.course.begun and not any(each.by_clock for each in self.course.waiting):
            raise RunError(f"nothing happens any more, and tasks are not done: {self._shown()}")

    def _settle_s(self) -> float:
        """The time that a block of rows takes on the links, several times."""
        network = self.plan.file.network
        if network is None:
            return SETTLED_S
        wide = max((len(each.columns) for each in self.plan.file.streams.values()), default=1)
        block_s = BLOCK_ROWS * wide * VALUE_BYTES * HEADERS * 8 / network.tuple_bits_per_s
        return max(SETTLED_S, 4 * (2 * block_s + network.tuple_latency_us / 1e6))

    def _shown(self) -> str:
        listed = [f"task {each.task.name} ({each.task.where}): {each.shown()}" for each in self.course.waiting]
        return "; ".join(dict.fromkeys(listed)) or "no task waits"

    def _begin(self, task: Task) -> list[PendingTask]:
        """Do a task; what is decided by the plan alone needs nothing here."""
        if task.name in SENDS:
            return [self._send(task)]
        found = self._does.get(task.name)
        return [] if found is None else list(found(task))

    @cached_property
    def _does(self) -> Mapping[str, Callable[[Task], Iterator[PendingTask]]]:
        """What tasks do that are not decided by the plan alone."""
        return {
            "adapt": self._adapt,
            "migrate": self._migrate,
            "moveQueryState": self._move_state,
            "moveStaticQueryState": self._move_state,
            "moveDynamicQueryState": self._await_moves,
            "bufferStream": self._hold,
            "stopStream": self._hold,
            "relayStream": self._hold,
            "resumeStream": self._resume,
            "disconnectNode": self._disconnect,
            "wait": self._wait,
            "retWhenReceived": self._received,
            "retReceivedXTuples": self._received,
            "retWhenProcessed": self._processed,
            "retEndOfStream": self._quiet,
            "traceTuple": self._mark,
            "deployQueries": self._deployed,
            "enableTrace": self._switch,
            "disableTrace": self._switch,
        }

    # rows

    def _send(self, task: Task) -> PendingTask:
        begin_s = last_s = self._now_s
        fast = self._at_link
        for rows, blocks in paced_rows(self._settings.dataset, task.name, task.arguments, fast):
            due_s = np.zeros(rows.rows)
            for first, stop, at_s in blocks:
                due_s[first:stop] = begin_s + at_s
            for stream in rows.tables:
                if stream in self.schedules:
                    self.schedules[stream].send(rows.tables[stream], due_s[rows.positions(stream)])
            begin_s = last_s = float(due_s.max(initial=begin_s))

        def over() -> bool:
            left = (each for each in self.schedules.values() if not each.held)
            return self._now_s >= last_s and all(each.read >= each.due_by(last_s) for each in left)

        return PendingTask(over, lambda: f"rows are sent until {last_s:g} s", task, by_clock=True)

    def _at_link(self, rows: DatasetRows) -> Iterator[Block]:
        """As fast as the link of a node carries whole rows."""
        network = self.plan.file.network
        values = sum(table.num_rows * len(table.column_names) for table in rows.tables.values())
        bits = values * VALUE_BYTES * HEADERS * 8 / max(1, rows.rows)
        return at_rate(rows.rows, network.tuple_bits_per_s / bits if network and bits else 1e6)

    def _hold(self, task: Task) -> Iterator[PendingTask]:
        for stream in task.arguments[0]:
            self.schedules[stream].hold(self._now_s)
        if task.name == "relayStream":
            self._relayed |= dict.fromkeys(task.arguments[0], task.arguments[2])
        if task.name == "stopStream" and task.arguments[1]:
            yield PendingTask(lambda: self._settled, lambda: "rows are on their way", task)

    def _resume(self, task: Task) -> Iterator[PendingTask]:
        self._let_go(task.arguments[0])
        yield from ()

    def _let_go(self, streams: tuple[int, ...]) -> None:
        for stream in streams:
            self._relayed.pop(stream, None)
            self.schedules[stream].resume()

    # moves

    def _node_of(self, worker: int) -> int:
        return self.plan.nodes[worker // self._settings.cores]

    def _move(
        self, number: int, node: int, mechanism: str, task: Task | None, operator: str = "", *, placing: bool = False
    ) -> QueryMove:
        operators, first = self._operators[number], self.plan.nodes.index(node) * self._settings.cores
        workers = tuple(range(first, first + self._settings.cores))
        return QueryMove(operators.named(operator) or operators.instances, workers, mechanism, task, placing)

    def _moved(self, move: QueryMove, node: int) -> Iterator[PendingTask]:
        """Let a query move; streams that were relayed to its node go on when it begins."""
        self.moves.add(move)
        self._let_go(tuple(stream for stream, nodes in self._relayed.items() if node in nodes))
        if move.task is not None:
            yield PendingTask(lambda: move.done, lambda: "state is on its way", move.task, by_clock=True)

    def _adapt(self, task: Task) -> Iterator[PendingTask]:
        number, node, mechanism = task.arguments
        placing = number in self._placed and not any(each.sent for each in self.schedules.values())
        if mechanism == NO_MIGRATION and not placing:
            return
        name = "all-at-once" if mechanism == NO_MIGRATION else mechanism
        yield from self._moved(self._move(number, node, name, task, placing=placing), node)

    def _migrate(self, task: Task) -> Iterator[PendingTask]:
        node, number, mechanism, operator = task.arguments
        if mechanism == NO_MIGRATION:
            return
        move = self._move(number, node, mechanism, task, operator)
        here = sorted({self._node_of(self.moves.worker(each)) for each in move.instances})
        if here != sorted(task.nodes):
            listed = ", ".join(map(str, here))
            raise RunError(f"task migrate ({task.where}): query {number} is at node {listed}, not at {task.nodes[0]}")
        yield from self._moved(move, node)

    def _move_state(self, task: Task) -> Iterator[PendingTask]:
        number, node = task.arguments
        mechanism = "rhino" if task.name == "moveStaticQueryState" else "all-at-once"
        waiting = list(self._moved(self._move(number, node, mechanism, task), node))
        if task.name == "moveQueryState":
            yield from waiting

    def _await_moves(self, task: Task) -> Iterator[PendingTask]:
        yield PendingTask(lambda: self.moves.idle, lambda: "state is on its way", task, by_clock=True)

    def _disconnect(self, task: Task) -> Iterator[PendingTask]:
        at_s = self._now_s + task.arguments[0] / MILLISECONDS
        for node in task.nodes:
            if self._cut == len(self._outages):
                raise DisconnectionFoundError(node, at_s)
            self._cut += 1
        yield PendingTask(lambda: self._now_s >= at_s, lambda: f"until {at_s:g} s", task, by_clock=True)

    # waiting and traces

    def _wait(self, task: Task) -> Iterator[PendingTask]:
        until_s = self._now_s + task.arguments[0] / UNITS[self.plan.file.dialect]
        yield PendingTask(lambda: self._now_s >= until_s - 1e-9, lambda: f"until {until_s:g} s", task, by_clock=True)

    def _received(self, task: Task) -> Iterator[PendingTask]:
        rows, counts = task.arguments[0], self.counts.received
        for node in task.nodes:
            yield PendingTask(
                lambda node=node: counts[node] >= rows,  # type: ignore[misc]
                lambda node=node: f"node {node} has received {counts[node]} rows of {rows}",  # type: ignore[misc]
                task,
            )

    def _processed(self, task: Task) -> Iterator[PendingTask]:
        rows, number, operator = task.arguments
        instances = self._operators[number].named(operator)

        def processed() -> int:
            return sum(self.counts.processed[each] for each in instances)

        yield PendingTask(
            lambda: processed() >= rows, lambda: f"{operator} has processed {processed()} rows of {rows}", task
        )

    def _quiet(self, task: Task) -> Iterator[PendingTask]:
        """Nothing is received for some time, or nothing is left that could be."""
        begun_s, quiet_s = self._now_s, task.arguments[0] / MILLISECONDS

        def over(node: int) -> bool:
            heard_s = max(begun_s, self.counts.heard_s.get(node, 0.0))
            return self._now_s - heard_s >= quiet_s or (self._settled and not self._clocks)

        for node in task.nodes:
            yield PendingTask(lambda node=node: over(node), lambda: "rows are received", task)  # type: ignore[misc]

    def _mark(self, task: Task) -> Iterator[PendingTask]:
        if self._traced:
            at_ns = round(self._now_s * 1e9)
            for node in task.nodes:
                self.trace.append(" ".join(map(str, (node, task.arguments[0], at_ns, at_ns, *task.arguments[1]))))
        yield from ()

    def _deployed(self, task: Task) -> Iterator[PendingTask]:
        if self._traced:
            at_ns = round(self._now_s * 1e9)
            name = self.plan.deployments[task.arguments[1]].query.name
            self.trace.append(f"0 {DEPLOYED} {at_ns} {at_ns} {name} {task.arguments[1]}")
        yield from ()

    def _switch(self, task: Task) -> Iterator[PendingTask]:
        self._traced = task.name == "enableTrace"
        yield from ()


def _placed_by_tasks(flow: TaskFlow) -> Iterator[int]:
    """Queries whose first place is that of a task `adapt`, before any rows are sent."""
    for task in every_task(flow.tasks):
        if task.name in SENDS:
            return
        if task.name == "adapt":
            yield task.arguments[0]
