"""Tasks in simulated time: which lists are going on, and what each of them waits for.

A list is a generator that yields while it waits. `advance` is called whenever the simulated clock has moved, and takes
every list as far as it goes. Rules of order are those of nodes: what is `parallel` is awaited at the end of its list,
what has no `ack` at the end of the flow, and lists inside `runParallel` are done at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shoal.experiments.coordination.flow_run import TASK_LISTS, Watch, repeated
from shoal.experiments.experiment import Task

Steps = Iterator[None]


@dataclass(frozen=True)
class PendingTask:
    """What a task waits for. `shown` says it for people; `by_clock`: time alone brings it about."""

    over: Callable[[], bool]
    shown: Callable[[], str]
    task: Task
    by_clock: bool = False


Begin = Callable[[Task], list[PendingTask]]
"""Begins a task that is no list of tasks, and says what is to be waited for."""


class TaskCourse:
    """The course of a flow; `begin` does what tasks say."""

    def __init__(self, tasks: Sequence[Task], begin: Begin, watch: Watch) -> None:
        """Nothing has begun."""
        self._begin, self._watch = begin, watch
        self.begun = 0
        self._unawaited: list[PendingTask] = []
        self._lists: list[Steps] = []
        self._waiting: dict[int, list[PendingTask]] = {}
        self._open(self._whole(tasks))

    @property
    def done(self) -> bool:
        """Whether all tasks are done."""
        return not self._lists

    @property
    def waiting(self) -> list[PendingTask]:
        """What has begun and is not over."""
        return [each for listed in self._waiting.values() for each in listed if not each.over()]

    def advance(self) -> None:
        """Take all lists as far as they go now."""
        moved = True
        while moved:
            moved = False
            for steps in list(self._lists):
                before = self.begun, len(self._lists)
                try:
                    next(steps)
                except StopIteration:
                    self._lists.remove(steps)
                moved |= before != (self.begun, len(self._lists))

    def _whole(self, tasks: Sequence[Task]) -> Steps:
        yield from self._list(tasks, 1)
        yield from self._wait(self._unawaited)

    def _list(self, tasks: Sequence[Task], times: int) -> Steps:
        for _ in range(times):
            parallel: list[PendingTask] = []
            for task in tasks:
                self._watch(self.begun, task)
                self.begun += 1
                if task.name in TASK_LISTS and task.name != "runParallel" and task.ack and not task.parallel:
                    yield from self._list(*repeated(task))
                    continue
                begun = self._begun(task)
                if not task.ack:
                    self._unawaited += begun
                elif task.parallel:
                    parallel += begun
                else:
                    yield from self._wait(begun)
            yield from self._wait(parallel)

    def _begun(self, task: Task) -> list[PendingTask]:
        if task.name == "runParallel":
            return [self._apart([each], 1, task) for each in task.arguments[0]]
        if task.name in TASK_LISTS:
            return [self._apart(*repeated(task), task)]
        return self._begin(task)

    def _apart(self, tasks: Sequence[Task], times: int, task: Task) -> PendingTask:
        """Do a list at the same time as what follows."""
        steps = self._list(tasks, times)
        self._open(steps)
        return PendingTask(lambda: steps not in self._lists, lambda: "its tasks are not done", task)

    def _open(self, steps: Steps) -> None:
        self._lists.append(steps)

    def _wait(self, waiting: list[PendingTask]) -> Steps:
        key = id(waiting)
        self._waiting[key] = waiting
        while not all(each.over() for each in waiting):
            yield
        del self._waiting[key]
