"""Ownership: who has which instances of a lane, and what the parts of the lane write to each other."""

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.division import Division, Ints
from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.migration.key_slots import Slots

T = TypeVar("T")


class Invitation(NamedTuple):
    """A worker wants an instance, and has told those behind it that event time is closed up to a mark."""

    instance: int
    target: int
    told_us: int


class Arrival(NamedTuple):
    """An incoming instance with its state: who had it, how large it is, and when it was taken out there."""

    instance: int
    state: LaneState
    source: int
    state_bytes: int
    left_s: float


class Passed(NamedTuple):
    """Rows of a guest that came to its old owner, by the input of that number."""

    instance: int
    number: int
    block: Block


class Settled(NamedTuple):
    """Nothing of a guest will come by an input of its old owner any more."""

    instance: int
    number: int


class Closed(NamedTuple):
    """How far event time is closed for rows that may still be passed on."""

    instance: int
    mark_us: int


class HandOver(NamedTuple):
    """A move from worker to worker that is done; times as in `MoveReport`."""

    instance: int
    source: int
    target: int
    state_bytes: int
    frozen_s: float
    late_s: float = 0.0


class Gone(NamedTuple):
    """An instance that was asked for is no longer there: it was merged into another."""

    instance: int


Message = Invitation | Arrival | Passed | Settled | Closed | Gone


class Owners(NamedTuple):
    """Who owns the instances of a lane at one time; nothing in it is ever written again.

    `owner[i]` is the worker of instance i. `versions[w]` counts how often worker w has given instances away, or woken
    up. `asleep[w]` says whether the part of worker w is told nothing, see `Sleep`. `division` says which instances have
    the slots of the declared ones, where that is not as declared.
    """

    owner: NDArray[np.int64]
    versions: tuple[int, ...]
    asleep: tuple[bool, ...]
    division: Division | None = None


class Ownership:
    """Who owns the instances of a lane, published as one value, and what the parts of the lane write to each other.

    `now` is replaced as a whole, by one assignment. A thread that has read a value of it sees everything that was
    done before that value was published: an instance's state lies in the messages of its new owner before anybody can
    read that it is the owner, and whoever reads a new version reads the owners that belong to it.

    `letters[w][v]` are what worker v has for worker w, in order, with one writer and one reader. `moves` and
    `moved_bytes` count what each worker has given away; `settled[w]` are moves to worker w that are done, with one
    writer and one reader. Only the owner of an instance gives it away, or gives its keys to others. A number that no
    instance has is with the worker that had it last.
    """

    def __init__(self, owner: NDArray[np.int64], workers: int, slots: Slots | None = None) -> None:
        """Nothing has moved yet; without slots, all instances are declared ones."""
        self.workers = workers
        self.slots = slots or Slots(np.arange(owner.size), owner.size)
        self.now = Owners(_fixed(owner), (0,) * workers, (False,) * workers)
        self.letters: list[list[deque[Message]]] = [[deque() for _ in range(workers)] for _ in range(workers)]
        self.moves = [0] * workers
        self.moved_bytes = [0] * workers
        self.settled: list[deque[HandOver]] = [deque() for _ in range(workers)]
        self._publishing = Lock()

    @property
    def owner(self) -> NDArray[np.int64]:
        """The worker of every instance."""
        return self.now.owner

    def give(self, worker: int, target_of: Mapping[int, int]) -> int:
        """A worker names the new owners of instances whose state is on its way; the version of that change."""
        with self._publishing:
            owner = self.now.owner.copy()
            owner[list(target_of)] = list(target_of.values())
            return self._publish(worker, owner, asleep=self.now.asleep[worker])

    def reassign(self, worker: int, cells: Ints, numbers: Ints) -> int:
        """A worker gives keys of its instances to others, which are also its own; the version of that change.

        `cells` are places in the table of slots, counted row by row, and `numbers` the instances that have them then.
        """
        with self._publishing:
            owner = self.now.owner.copy()
            owner[numbers] = worker
            division = self.slots.after(self.now.division, cells, numbers)
            return self._publish(worker, owner, asleep=self.now.asleep[worker], division=division)

    def wake(self, worker: int) -> int:
        """The part of a worker, which says so itself, is to be told everything again; the version of that change."""
        with self._publishing:
            return self._publish(worker, self.now.owner, asleep=False)

    def sleep(self, worker: int, *, asleep: bool = True) -> None:
        """The part of a worker need not be told anything, or does again; nobody has to hear of that change."""
        with self._publishing:
            self.now = self.now._replace(asleep=_with(self.now.asleep, worker, asleep))

    def assign(self, owner: NDArray[np.int64]) -> None:
        """Name the owners of all instances, while no part and no split runs."""
        with self._publishing:
            self.now = self.now._replace(owner=_fixed(owner))

    def _publish(self, worker: int, owner: NDArray[np.int64], *, asleep: bool, division: Division | None = None) -> int:
        versions, sleeping, division = self.now.versions, self.now.asleep, division or self.now.division
        version = versions[worker] + 1
        asleep_now = _with(sleeping, worker, asleep)
        self.now = Owners(_fixed(owner), _with(versions, worker, version), asleep_now, division)
        return version


def _fixed(owner: NDArray[np.int64]) -> NDArray[np.int64]:
    """An array that nobody can write."""
    if owner.flags.writeable:
        owner = owner.copy()
        owner.flags.writeable = False
    return owner


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])
