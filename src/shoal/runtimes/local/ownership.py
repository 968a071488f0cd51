"""Ownership: who has which instances of a lane, and what the parts of the lane write to each other."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.block import Block
from shoal.runtimes.local.lanestate import LaneState


class Invitation(NamedTuple):
    """A worker wants an instance, and has told those behind it that event time is closed up to a mark."""

    instance: int
    target: int
    told_us: int


class Arrival(NamedTuple):
    """A guest with its state."""

    instance: int
    state: LaneState


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


Message = Invitation | Arrival | Passed | Settled | Closed


@dataclass
class Ownership:
    """Who owns the instances of a lane; `versions[w]` counts how often worker w has given one away, or woken up.

    `asleep[w]` says whether the part of worker w is told nothing, see `Sleep`. `letters[w][v]` are what worker v has
    for worker w, in order, with one writer and one reader. `moves` and `moved_bytes` count what each worker has given
    away. Only the owner of an instance writes its entry of `owner`.
    """

    owner: NDArray[np.int64]
    workers: int
    versions: list[int] = field(init=False)
    asleep: list[bool] = field(init=False)
    letters: list[list[deque[Message]]] = field(init=False)
    moves: list[int] = field(init=False)
    moved_bytes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing has moved yet."""
        self.versions = [0] * self.workers
        self.asleep = [False] * self.workers
        self.letters = [[deque() for _ in range(self.workers)] for _ in range(self.workers)]
        self.moves = [0] * self.workers
        self.moved_bytes = [0] * self.workers
