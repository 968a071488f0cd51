"""Fragments: the smallest parts of an instance's state that can move on their own.

State has millions of them, so they are listed in columns. An id depends on what a fragment is, not on where it is
stored: it stays the same while other fragments come and go, on another worker, and in another process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NewType

import numpy as np
from numpy.typing import NDArray

FragmentId = NewType("FragmentId", int)
"""64 bits that name a fragment within the state of one kernel."""
Ids = NDArray[np.uint64]
Ints = NDArray[np.int64]
NO_DEADLINE_US = (1 << 63) - 1
"""Deadline of a fragment that no watermark needs."""
NEVER_NEEDED_US = NO_DEADLINE_US
"""Of a fragment that no result depends on as the watermark advances."""


@dataclass(frozen=True)
class Fragment:
    """What a mechanism knows of one fragment: its instance, size, deadline and utility."""

    id: FragmentId
    table: int
    instance: int
    state_bytes: int
    deadline_us: int | None
    utility: float
    essential: bool = True
    key: int = 0
    needed_us: int = NEVER_NEEDED_US


@dataclass(frozen=True, eq=False)
class Fragments:
    """Fragments in columns of equal length, each id once.

    `table`: number of the state table that holds it. `deadline_us`: the watermark that drops it, or `NO_DEADLINE_US`.
    `utility`: its worth, relative to others. `essential`: whether its instance cannot run without it. `key`: a hash of
    its instance and key; results of a key depend on fragments of that key only. `needed_us`: the first watermark at
    which a result may depend on it.
    """

    ids: Ids
    table: Ints
    instance: Ints
    state_bytes: Ints
    deadline_us: Ints
    utility: NDArray[np.float64]
    essential: NDArray[np.bool_]
    key: Ids
    needed_us: Ints

    def __post_init__(self) -> None:
        """Reject columns of different lengths."""
        number = len(self.ids)
        others = (self.table, self.instance, self.state_bytes, self.deadline_us, self.utility)
        if any(len(each) != number for each in (*others, self.essential, self.key, self.needed_us)):
            lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
            raise ValueError(f"columns of fragments must be of equal length; got {lengths}")

    @classmethod
    def none(cls) -> "Fragments":
        """No fragments."""
        nothing = np.zeros(0, np.int64)
        ids, never = nothing.astype(np.uint64), np.zeros(0, bool)
        return cls(ids, nothing, nothing, nothing, nothing, np.zeros(0), never, ids, nothing)

    @classmethod
    def whole(cls, number: int, state_bytes: int, needed_us: int) -> "Fragments":
        """The state of an instance as one fragment, for runtimes that do not divide it further."""
        ids, one = np.array([number], np.uint64), np.array([number], np.int64)
        size, needed = np.array([state_bytes], np.int64), np.array([needed_us], np.int64)
        return cls(ids, np.zeros(1, np.int64), one, size, needed, np.ones(1), np.ones(1, bool), ids, needed)

    @classmethod
    def concat(cls, parts: "Sequence[Fragments]") -> "Fragments":
        """Several lists as one."""
        if len(parts) < 2:
            return parts[0] if parts else cls.none()
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        """Number of fragments."""
        return int(self.ids.size)

    def __iter__(self) -> Iterator[Fragment]:
        """Iterate over the fragments."""
        columns: list[list[Any]] = [getattr(self, field.name).tolist() for field in fields(self)]
        for id_, table, instance, size, deadline_us, *rest in zip(*columns, strict=True):
            due_us = None if deadline_us == NO_DEADLINE_US else deadline_us
            yield Fragment(FragmentId(id_), table, instance, size, due_us, *rest)

    @property
    def total_bytes(self) -> int:
        """Bytes of all fragments."""
        return int(self.state_bytes.sum())

    def take(self, places: Ints) -> "Fragments":
        """The fragments at some places, in that order."""
        return self._picked(places)

    def where(self, mask: NDArray[np.bool_]) -> "Fragments":
        """The fragments that a mask selects."""
        return self._picked(mask)

    def _picked(self, some: Ints | NDArray[np.bool_]) -> "Fragments":
        return Fragments(
            self.ids[some],
            self.table[some],
            self.instance[some],
            self.state_bytes[some],
            self.deadline_us[some],
            self.utility[some],
            self.essential[some],
            self.key[some],
            self.needed_us[some],
        )
