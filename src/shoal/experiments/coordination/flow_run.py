"""The coordinator: gives the tasks of a flow to nodes, in order, and knows when no more rows will come.

1. Tasks of a list are begun in order. The next begins when the one before is done, unless that is `parallel`, which is
   awaited at the end of the list, or has no `ack`, which is awaited at the end of the flow.
2. `runParallel` does all of its tasks at the same time. A list that is `parallel`, has no `ack` or is inside
   `runParallel` has a thread of its own, on which its tasks are done in order.
3. When a task that sends rows is done and no other is going on, the coordinator looks ahead. If no more rows are sent
   before the engine of a node is stopped, that engine is told that its input has ended. So engines that answer at the
   end do so in time, results of open windows are emitted, and throughput ends when everything has been processed.
4. The first failure ends the flow, whoever waits for the task. Its reason names the node, the task and the line.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import RunError, ShoalError
from shoal.experiments.coordination.node_link import NodeLink
from shoal.experiments.coordination.nodes.node_tasks import FINISH, GIVES_ROWS, UNITS
from shoal.experiments.experiment import Dialect, Task

TASK_LISTS = ("loopTasks", "runParallel", "batchTasks")
Watch = Callable[[int, Task], object]
"""Called with the number of a task and the task, just before it begins."""


@dataclass
class _Level:
    """Where a list of tasks has come to: what is next, and how often the list will be done again."""

    tasks: Sequence[Task]
    next: int = 0
    again: int = 0


@dataclass(eq=False)
class _Branch:
    """Lists of tasks that are done in order on one thread, each inside the one before; `over` when all are done."""

    levels: list[_Level] = field(default_factory=list)
    over: "Future[None]" = field(default_factory=Future)

    def ahead(self) -> Iterator[Task]:
        """The tasks that have not begun yet, in order; loops are looked through twice."""
        for level in reversed(self.levels):
            yield from _flat(level.tasks[level.next :])
            if level.again:
                yield from _flat(level.tasks)


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
        self._branches: list[_Branch] = []
        self._going_on: dict[Future[None], str] = {}
        self._unawaited: list[Future[None]] = []
        self._started: set[int] = set()
        self._sending = 0
        self._number = 0
        self._failure: Future[None] = Future()
        self._lock = threading.RLock()

    def run(self, tasks: Sequence[Task]) -> None:
        """Carry out all tasks; raises a `RunError` with the reason of the first failure."""
        try:
            self._do(self._opened(tasks))
            self._await(self._unawaited)
            for node in sorted(self._started):
                self._await([self._begun(Task("stopRuntimeEnv", (node,)), node)])
        except ShoalError as error:
            self._fail(str(error))  # lists that are done at the same time end as well
            raise

    def fail(self, reason: str) -> None:
        """End the flow because of something that is no task."""
        going_on = self._listed()
        self._fail(f"{reason}{f'; going on was {going_on}' if going_on else ''}")

    def _fail(self, reason: str) -> None:
        """End the flow, whatever it waits for; only the first reason counts."""
        with self._lock:
            if not self._failure.done():
                self._failure.set_exception(RunError(reason))

    def _opened(self, tasks: Sequence[Task], times: int = 1) -> _Branch:
        """A branch that is known to all who look ahead, before it begins."""
        branch = _Branch([_Level(tasks, len(tasks), times)])
        with self._lock:
            self._branches.append(branch)
        return branch

    def _do(self, branch: _Branch) -> None:
        """Do the lists of a branch."""
        try:
            self._list(branch, branch.levels[-1])
        finally:
            with self._lock:
                self._branches.remove(branch)

    def _apart(self, branch: _Branch) -> "Future[None]":
        """Do a branch on a thread of its own."""

        def run() -> None:
            try:
                self._do(branch)
            except ShoalError as error:
                self._fail(str(error))
            except Exception as error:  # noqa: BLE001  (whoever waits must learn of every failure)
                self._fail(f"{type(error).__name__}: {error}")
            else:
                branch.over.set_result(None)

        threading.Thread(target=run, name="shoal-flow", daemon=True).start()
        return branch.over

    def _list(self, branch: _Branch, level: _Level) -> None:
        """Do a list as often as it says, and forget it."""
        while level.again:
            with self._lock:
                level.next, level.again = 0, level.again - 1
            parallel: list[Future[None]] = []
            while level.next < len(level.tasks):
                task, apart = self._next(level)
                begun = self._begin(task, branch, apart)
                if not task.ack:
                    self._unawaited += begun
                elif task.parallel:
                    parallel += begun
                else:
                    self._await(begun)
            self._await(parallel)
        branch.levels.remove(level)

    def _next(self, level: _Level) -> tuple[Task, list[_Branch]]:
        """The next task of a list, and what it does on other threads; both in one step for all who look ahead."""
        with self._lock:
            task = level.tasks[level.next]
            apart = []
            if task.name == "runParallel":
                apart = [self._opened([each]) for each in task.arguments[0]]
            elif task.name in TASK_LISTS and (task.parallel or not task.ack):
                apart = [self._opened(*repeated(task))]
            elif task.name in GIVES_ROWS:
                self._sending += len(task.nodes)
            level.next += 1
            return task, apart

    def _begin(self, task: Task, branch: _Branch, apart: Sequence[_Branch]) -> list["Future[None]"]:
        """Begin a task, and say what is going on by it; lists that are not apart are done when this returns."""
        with self._lock:
            number, self._number = self._number, self._number + 1
        self._check()
        self._watch(number, task)
        if apart:
            return [self._apart(each) for each in apart]
        if task.name in TASK_LISTS:
            tasks, times = repeated(task)
            level = _Level(tasks, len(tasks), times)
            with self._lock:
                branch.levels.append(level)
            self._list(branch, level)
            return []
        return [self._begun(task, node) for node in task.nodes] if task.nodes else self._own(task)

    def _own(self, task: Task) -> list["Future[None]"]:
        """A task of the coordinator itself."""
        if task.name in ("enableTrace", "disableTrace", "addTpIds"):
            return [self._begun(task, node) for node in self._nodes]
        if task.name == "wait":
            future: Future[None] = Future()
            timer = threading.Timer(task.arguments[0] / UNITS[self._dialect], future.set_result, (None,))
            timer.daemon = True
            timer.start()
            return [self._named(future, f"the coordinator in {_shown(task)}")]
        return []

    def _begun(self, task: Task, node: int) -> "Future[None]":
        if node not in self._nodes:
            raise RunError(f"{_shown(task)} is for node {node}; there are {', '.join(map(str, self._nodes))}")
        with self._lock:
            if task.name == "startRuntimeEnv":
                self._started.add(node)
            elif task.name == "stopRuntimeEnv":
                self._started.discard(node)
        done = self._nodes[node].begin(task.name, task.arguments)
        if task.name in GIVES_ROWS:
            sent: Future[None] = Future()
            done.add_done_callback(lambda done: self._sent(done, sent))
            done = sent
        return self._named(done, f"node {node} in {_shown(task)}")

    def _named(self, future: "Future[None]", what: str) -> "Future[None]":
        """A future that is listed until it is done, and whose failure ends the flow."""
        with self._lock:
            self._going_on[future] = what

        def over(done: "Future[None]") -> None:
            if (error := done.exception()) is not None:
                self._fail(f"{what}: {error}")
            with self._lock:
                del self._going_on[done]

        future.add_done_callback(over)
        return future

    def _sent(self, done: "Future[None]", sent: "Future[None]") -> None:
        """All rows of a task have been taken: engines that get no more are told so, before the task is over."""
        with self._lock:
            self._sending -= 1
            ends = [] if self._sending else [node for node in sorted(self._started) if self._gets_no_more(node)]
        if (error := done.exception()) is not None:
            sent.set_exception(error)
            return
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

    def _gets_no_more(self, node: int) -> bool:
        """Whether no list that is going on gives rows to anybody before it stops the engine of a node."""
        for branch in self._branches:
            for task in branch.ahead():
                if task.name in GIVES_ROWS:
                    return False
                if task.name == "stopRuntimeEnv" and node in task.nodes:
                    break
        return True

    def _check(self) -> None:
        """Raise the reason why the flow has failed, if it has."""
        if self._failure.done():
            self._failure.result()

    def _await(self, begun: Iterable["Future[None]"]) -> None:
        """Wait for tasks, until one of them fails, the flow fails or its time is up."""
        left = set(begun)
        self._check()
        while left:
            timeout_s = max(0.0, self._deadline_s - time.monotonic())
            done, _ = wait({*left, self._failure}, timeout_s, FIRST_COMPLETED)
            if not done:
                raise RunError(f"it took too long: {self._listed()} was not done")
            if any(each.exception() is not None for each in done):
                self._failure.result()  # the reason, which is there at the latest in a moment
            left -= done

    def _listed(self) -> str:
        with self._lock:
            return "; ".join(sorted(self._going_on.values()))


def repeated(task: Task) -> tuple[Sequence[Task], int]:
    """The tasks of a list, and how often they are done."""
    return (task.arguments[1], task.arguments[0]) if task.name == "loopTasks" else (task.arguments[0], 1)


def _shown(task: Task) -> str:
    return f"task {task.name} ({task.where})" if task.where else f"task {task.name}"


def _flat(tasks: Sequence[Task]) -> Iterator[Task]:
    for task in tasks:
        inner: Any = next((each for each in task.arguments if task.name in TASK_LISTS and isinstance(each, tuple)), ())
        yield task
        yield from _flat(inner)
