"""Bindings: which worker executes which instance, and the moves between two of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

from shoal.errors import BindingError
from shoal.model.query.graph import InstanceId, shortened

WorkerId = NewType("WorkerId", int)
"""Number of a worker, from 0: a Spark slot, a thread, a simulated core."""


@dataclass(frozen=True)
class Move:
    """One change of a binding."""

    instance: InstanceId
    source: WorkerId
    target: WorkerId


@dataclass(frozen=True)
class Binding:
    """Instance -> worker, for every instance that holds state.

    >>> binding = Binding.of({InstanceId("a/0"): 0, InstanceId("b/0"): 1}, workers=2)
    >>> after = binding.after([Move(InstanceId("a/0"), WorkerId(0), WorkerId(1))])
    >>> list(binding.diff(after))
    [Move(instance='a/0', source=0, target=1)]
    """

    worker_of: Mapping[InstanceId, WorkerId]
    workers: int

    def __repr__(self) -> str:
        """The first instances and their workers."""
        named = (f"{instance} on {worker}" for instance, worker in self.worker_of.items())
        return f"Binding({shortened(named, 'instances')}; {self.workers} workers)"

    def __post_init__(self) -> None:
        """Reject a binding without workers, and instances on unknown workers."""
        if self.workers < 1:
            raise BindingError(f"a binding needs at least one worker; got {self.workers}")
        for instance, worker in self.worker_of.items():
            if not 0 <= worker < self.workers:
                raise BindingError(
                    f"instance {instance!r} is bound to worker {worker}; there are workers 0..{self.workers - 1}"
                )

    @classmethod
    def of(cls, worker_of: Mapping[InstanceId, int], workers: int) -> "Binding":
        """A binding from plain numbers."""
        return cls({instance: WorkerId(worker) for instance, worker in worker_of.items()}, workers)

    def after(self, moves: Iterable[Move]) -> "Binding":
        """The binding once the moves are done; a move from the wrong worker is an error."""
        changed = dict(self.worker_of)
        for move in moves:
            if changed.get(move.instance) != move.source:
                raise BindingError(
                    f"cannot move instance {move.instance!r} from worker {move.source}; "
                    f"it is bound to {changed.get(move.instance, 'no worker')}"
                )
            changed[move.instance] = move.target
        return Binding(changed, self.workers)

    def diff(self, other: "Binding") -> Iterator[Move]:
        """The moves that lead from this binding to another, for the instances both know."""
        for instance, source in self.worker_of.items():
            target = other.worker_of.get(instance, source)
            if target != source:
                yield Move(instance, source, target)

    def fitted(self, instances: Sequence[InstanceId]) -> "Binding":
        """The binding of a changed set of instances: known ones stay, new ones go to the worker with the fewest."""
        kept = {i: self.worker_of[i] for i in instances if i in self.worker_of}
        load = [0] * self.workers
        for worker in kept.values():
            load[worker] += 1
        for instance in instances:
            if instance not in kept:
                target = WorkerId(min(range(self.workers), key=lambda w: (load[w], w)))
                kept[instance] = target
                load[target] += 1
        return Binding(kept, self.workers)
