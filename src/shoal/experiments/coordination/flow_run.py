"""The coordinator: gives the tasks of a flow to nodes, in order, and knows when no more rows will come.

1. Tasks are begun in order. The next begins when the one before is done, unless that is `parallel` or has no `ack`;
   what is still going on is awaited at the end of the list of tasks.
2. When a task that sends rows is done and no other is going on, the coordinator looks ahead. If no more rows are sent
   before the engine of a node is stopped, that engine is told that its input has ended. So engines that answer at the
   end do so in time, results of open windows are emitted, and throughput ends when everything has been processed.
3. The first failure ends the flow. Its reason names the node, the task and the line of the file.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

from shoal.errors import RunError, ShoalError
from shoal.experiments.coordination.node_link import NodeLink
from shoal.experiments.coordination.nodes.node_tasks import FINISH, SENDS, UNITS
from shoal.experiments.experiment import Dialect, Task

TASK_LISTS = ("loopTasks", "runParallel", "batchTasks")
CHANGES = frozenset({*SENDS, "resumeStream", "adapt", "migrate"})
"""Tasks after which an engine may get rows again."""
Watch = Callable[[int, Task], object]
"""Called with the number of a task and the task, just before it begins."""


@dataclass
class _Level:
    """Where a list of tasks has come to: what is next, and how often the list will be done again."""

    tasks: Sequence[Task]
    next: int = 0
    again: int = 0


class FlowRun:
    """One run of a flow. `deadline_s` is a time of `time.monotonic` after which it has failed."""

    def __init__(
        self,
        nodes: Mapping[int, NodeLink],
        dialect: Dialect,
        deadline_s: float,
        watch: Watch = lambda _number, _task: None,
    ) -> None:
        """Nothing has begun."""
        self._nodes, self._dialect, self._deadline_s, self._watch = nodes, dialect, deadline_s, watch
        self._levels: list[_Level] = []
        self._started: set[int] = set()
        self._sending = 0
        self._number = 0
        self._failure: Future[None] = Future()
        self._lock = threading.RLock()

    def run(self, tasks: Sequence[Task]) -> None:
        """Carry out all tasks; raises a `RunError` with the reason of the first failure."""
        self._list(tasks, times=1)
        for node in sorted(self._started):
            self._await({self._begun(Task("stopRuntimeEnv", (node,)), node): f"stopRuntimeEnv of node {node}"})

    def fail(self, reason: str) -> None:
        """End the flow because of something that is no task; only the first reason counts."""
        with self._lock:
            if not self._failure.done():
                self._failure.set_exception(RunError(reason))

    def _list(self, tasks: Sequence[Task], times: int) -> None:
        level = _Level(tasks, again=times)
        self._levels.append(level)
        while level.again:
            level.next, level.again = 0, level.again - 1
            going_on: dict[Future[None], str] = {}
            while level.next < len(tasks):
                task = tasks[level.next]
                level.next += 1
                begun = self._begin(task)
                if not task.ack:
                    continue
                if task.parallel:
                    going_on |= begun
                else:
                    self._await(begun)
            self._await(going_on)
        self._levels.pop()

    def _begin(self, task: Task) -> dict["Future[None]", str]:
        """Begin a task, and say what is going on by it."""
        self._watch(self._number, task)
        self._number += 1
        if task.name == "loopTasks":
            self._list(task.arguments[1], task.arguments[0])
        elif task.name == "batchTasks":
            self._list(task.arguments[0], 1)
        elif task.name == "runParallel":
            self._together(task.arguments[0])
        elif not task.nodes:
            return self._own(task)
        else:
            return {self._begun(task, node): f"node {node} in {_shown(task)}" for node in task.nodes}
        return {}

    def _together(self, tasks: Sequence[Task]) -> None:
        """Begin all tasks, then wait for all of them. Lists among them are done one after another."""
        going_on: dict[Future[None], str] = {}
        for task in sorted(tasks, key=lambda each: each.name in TASK_LISTS):
            going_on |= self._begin(task)
        self._await(going_on)

    def _own(self, task: Task) -> dict["Future[None]", str]:
        """A task of the coordinator itself."""
        if task.name in ("enableTrace", "disableTrace", "addTpIds"):
            return {self._begun(task, node): f"node {node} in {_shown(task)}" for node in self._nodes}
        if task.name == "wait":
            seconds = task.arguments[0] / UNITS[self._dialect]
            future: Future[None] = Future()
            timer = threading.Timer(seconds, future.set_result, (None,))
            timer.daemon = True
            timer.start()
            return {future: f"the coordinator in {_shown(task)}"}
        return {}

    def _begun(self, task: Task, node: int) -> "Future[None]":
        if node not in self._nodes:
            raise RunError(f"{_shown(task)} is for node {node}; there are {', '.join(map(str, self._nodes))}")
        if task.name == "startRuntimeEnv":
            self._started.add(node)
        elif task.name == "stopRuntimeEnv":
            self._started.discard(node)
        if task.name not in SENDS:
            return self._nodes[node].begin(task.name, task.arguments)
        with self._lock:
            self._sending += 1
        sent: Future[None] = Future()
        self._nodes[node].begin(task.name, task.arguments).add_done_callback(lambda done: self._sent(done, sent))
        return sent

    def _sent(self, done: "Future[None]", sent: "Future[None]") -> None:
        """All rows of a task have been taken: engines that get no more are told so, before the task is over."""
        with self._lock:
            self._sending -= 1
            last = not self._sending
        if (error := done.exception()) is not None:
            sent.set_exception(error)
            return
        ends = [node for node in self._in_order() if self._gets_no_more(node)] if last else []
        self._finish(ends, sent)

    def _finish(self, nodes: Sequence[int], sent: "Future[None]") -> None:
        """Tell nodes one after another that their input has ended; then the task that sent it is over."""
        if not nodes:
            sent.set_result(None)
            return

        def then(done: "Future[None]") -> None:
            if (error := done.exception()) is not None:
                sent.set_exception(RunError(f"node {nodes[0]} at the end of its input: {error}"))
            else:
                self._finish(nodes[1:], sent)

        self._nodes[nodes[0]].begin(FINISH, ()).add_done_callback(then)

    def _in_order(self) -> list[int]:
        """Nodes whose engine runs, those that send before those that receive."""
        return sorted(self._started)

    def _gets_no_more(self, node: int) -> bool:
        for task in self._ahead():
            if task.name in CHANGES:
                return False
            if task.name == "stopRuntimeEnv" and node in task.nodes:
                return True
        return True

    def _ahead(self) -> Iterator[Task]:
        """The tasks that have not begun yet, in order; loops are looked through twice."""
        for level in reversed(self._levels):
            yield from _flat(level.tasks[level.next :])
            if level.again:
                yield from _flat(level.tasks)

    def _await(self, going_on: Mapping["Future[None]", str]) -> None:
        """Wait for tasks, until one of them fails, the flow fails or its time is up."""
        left = set(going_on)
        while left:
            timeout_s = max(0.0, self._deadline_s - time.monotonic())
            done, _ = wait({*left, self._failure}, timeout_s, FIRST_COMPLETED)
            if not done:
                raise RunError(f"it took too long: {'; '.join(sorted(going_on[each] for each in left))} was not done")
            if self._failure in done:
                during = "; ".join(sorted(going_on[each] for each in left))
                raise RunError(f"{self._failure.exception()}; going on was {during}")
            for each in done:
                if (error := each.exception()) is not None:
                    raise _failed(going_on[each], error)
            left -= done


def _failed(what: str, error: BaseException) -> ShoalError:
    return RunError(f"{what}: {error}")


def _shown(task: Task) -> str:
    return f"task {task.name} ({task.where})" if task.where else f"task {task.name}"


def _flat(tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        inner: Any = next((each for each in task.arguments if task.name in TASK_LISTS and isinstance(each, tuple)), ())
        yield task
        yield from _flat(inner)
