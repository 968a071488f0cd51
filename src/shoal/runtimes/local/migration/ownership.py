"""Ownership: which worker owns which instances of a lane, and the messages between the parts of the lane."""

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.division import Division, Ints
from shoal.runtimes.local.migration.key_slots import Slots
from shoal.runtimes.local.migration.part_messages import HandOver, Message

T = TypeVar("T")


class Owners(NamedTuple):
    """The owners of the instances of a lane at one time; immutable.

    `owner[i]` is the worker of instance i. `versions[w]` counts how often worker w has given instances away or woken
    up. `asleep[w]` says whether splits send nothing to worker w, see `Sleep`. `division` maps the slots of declared
    instances to instances; None while all are as declared.
    """

    owner: NDArray[np.int64]
    versions: tuple[int, ...]
    asleep: tuple[bool, ...]
    division: Division | None = None


class Ownership:
    """The owners of the instances of a lane, published as one value, and the messages between its parts.

    `now` is replaced by one assignment. A thread that reads a value of it sees everything that was done before that
    value was published: the state of an instance is among the messages of its new owner before any thread can read the
    new owner, and a new version comes with the owners that belong to it.

    `messages[w][v]` are those from worker v to worker w, in order, with one writer and one reader. `moves` and
    `moved_bytes` count what each worker has given away; `finished_moves[w]` are moves to worker w, with one writer and
    one reader. Only the owner of an instance gives it or its keys away. An unused number belongs to its last owner.
    """

    def __init__(self, owner: NDArray[np.int64], workers: int, slots: Slots | None = None) -> None:
        """Nothing has moved yet; without slots, all instances are declared."""
        self.workers = workers
        self.slots = slots or Slots(np.arange(owner.size), owner.size)
        self.now = Owners(_fixed(owner), (0,) * workers, (False,) * workers)
        self.messages: list[list[deque[Message]]] = [[deque() for _ in range(workers)] for _ in range(workers)]
        self.moves = [0] * workers
        self.moved_bytes = [0] * workers
        self.finished_moves: list[deque[HandOver]] = [deque() for _ in range(workers)]
        self._publishing = Lock()

    @property
    def owner(self) -> NDArray[np.int64]:
        """The worker of every instance."""
        return self.now.owner

    def give(self, worker: int, target_of: Mapping[int, int]) -> int:
        """Publish new owners of instances of a worker, after their state was sent; returns the version."""
        with self._publishing:
            owner = self.now.owner.copy()
            owner[list(target_of)] = list(target_of.values())
            return self._publish(worker, owner, asleep=self.now.asleep[worker])

    def reassign(self, worker: int, cells: Ints, numbers: Ints) -> int:
        """Give keys of a worker's instances to other instances, which it then owns as well; returns the version.

        `cells` are positions in the table of slots, row by row, and `numbers` the instances that get them.
        """
        with self._publishing:
            owner = self.now.owner.copy()
            owner[numbers] = worker
            division = self.slots.after(self.now.division, cells, numbers)
            return self._publish(worker, owner, asleep=self.now.asleep[worker], division=division)

    def wake(self, worker: int) -> int:
        """Have splits send to a part again; the part itself calls this. Returns the version."""
        with self._publishing:
            return self._publish(worker, self.now.owner, asleep=False)

    def sleep(self, worker: int, *, asleep: bool = True) -> None:
        """Have splits stop or start sending to a part; without a new version, since no acknowledgement is needed."""
        with self._publishing:
            self.now = self.now._replace(asleep=_with(self.now.asleep, worker, asleep))

    def assign(self, owner: NDArray[np.int64]) -> None:
        """Set the owners of all instances; only while no part and no split runs."""
        with self._publishing:
            self.now = self.now._replace(owner=_fixed(owner))

    def _publish(self, worker: int, owner: NDArray[np.int64], *, asleep: bool, division: Division | None = None) -> int:
        versions, sleeping, division = self.now.versions, self.now.asleep, division or self.now.division
        version = versions[worker] + 1
        asleep_now = _with(sleeping, worker, asleep)
        self.now = Owners(_fixed(owner), _with(versions, worker, version), asleep_now, division)
        return version


def _fixed(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """A read-only array."""
    if owner.flags.writeable:
        owner = owner.copy()
        owner.flags.writeable = False
    return owner


def _with(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])
