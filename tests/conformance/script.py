"""Scripts: what is done to a run, step by step, while it goes on."""

from collections.abc import Callable

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.graph import Graph, InstanceId, Query
from shoal.session.run import Run

Step = Callable[[Run, EpochCommitted], bool]
"""Looks at an epoch, acts if it likes, and says whether it is done."""


class Script:
    """Watches one run or several in a row, and takes one step after another, an epoch each at least."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.committed: list[EpochCommitted] = []

    def __call__(self, run: Run, event: EpochCommitted) -> None:
        self.committed.append(event)
        if self.steps and self.steps[0](run, event):
            del self.steps[0]

    def events_before(self, query: Query) -> int:
        """How many events had been taken in when a query first took part."""
        first = next(at for at, event in enumerate(self.committed) if takes_part(query, event))
        return sum(event.rows for event in self.committed[:first])


def do(*actions: Callable[[Run], object]) -> Step:
    """A step that acts at once."""

    def step(run: Run, event: EpochCommitted) -> bool:
        for action in actions:
            action(run)
        return True

    return step


def until(condition: Callable[[EpochCommitted], bool]) -> Step:
    """A step that waits for an epoch."""
    return lambda _, event: condition(event)


def add(query: Query) -> Step:
    return do(lambda run: run.add(query))


def remove(name: str) -> Step:
    return do(lambda run: run.remove(name))


def rebind(binding: Binding) -> Step:
    return do(lambda run: run.rebind(binding))


def pause(epochs: int) -> list[Step]:
    """Steps that wait for a number of epochs."""
    return [until(lambda _: True)] * epochs


drain = do(Run.drain)
stop = do(Run.stop)


def instances(query: Query) -> set[InstanceId]:
    return set(Graph.of([query]).stateful_instances)


def takes_part(query: Query, event: EpochCommitted) -> bool:
    return instances(query) <= set(event.snapshot.binding.worker_of)


def is_gone(query: Query, event: EpochCommitted) -> bool:
    return instances(query).isdisjoint(event.snapshot.binding.worker_of)
