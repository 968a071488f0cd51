"""Groups of pane rows: those of one instance, pane and key, in several tables, found and merged without copying them.

Rows mostly come in the order of their panes. Those of one pane are then grouped among themselves, with a hash table as
small as the pane: it stays in the cache however many panes a merge has. Only integer keys and plain running values
(counts, sums, extremes) are grouped in this way; `groups_of` finds no groups of others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate.cells import LARGEST_PRODUCT, Codes, is_dense
from shoal.kernels.aggregate.slots import COUNT, Array, Slot
from shoal.kernels.columns.block import Column
from shoal.kernels.columns.numbering import numbered, numbered_by_run

Ints = NDArray[np.int64]
PLAIN_KINDS = ("count", "present", "sum", "min", "max")
"""Kinds of running values that can be merged table by table."""
BUCKETS_PER_ROW = 4


@dataclass(frozen=True)
class RowGroups:
    """The group of every row of some tables, one table after another, in the order in which groups first appear."""

    of_row: Ints
    size: int
    lengths: tuple[int, ...]

    @property
    def by_table(self) -> Iterator[Ints]:
        """The groups of the rows of each table."""
        start = 0
        for length in self.lengths:
            yield self.of_row[start : start + length]
            start += length

    def common(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """A column, given by table, whose values are equal within a group: its value for every group."""
        into = np.empty(self.size, columns[0].dtype)
        for groups, column in zip(self.by_table, columns, strict=True):
            loops.place(groups, column, into)
        return into

    def merged(self, slot: Slot, tables: Sequence[Array]) -> Array:
        """The running value of every group, from those of the tables."""
        into = slot.empty(self.size)
        for groups, values in zip(self.by_table, tables, strict=True):
            _merge_of(slot)(groups, values, into)
        return into


def groups_of(slots: Sequence[Slot], columns: Sequence[Sequence[Column]], panes: Sequence[Ints]) -> RowGroups | None:
    """Group rows by some columns and their pane, each given by table; None if that needs other means.

    That is so if columns or running values are not plain, if there is nothing to hash because groups are dense, or if
    a combination of the columns does not fit a number.
    """
    lengths = tuple(each.size for each in panes)
    rows = sum(lengths)
    if not rows or any(slot.kind not in PLAIN_KINDS for slot in slots):
        return None
    codes = combined_codes(columns, rows)
    if codes is None:
        return None
    pane = panes[0] if len(panes) == 1 else np.concatenate(panes)
    low, high = loops.range_of(pane)
    if is_dense(codes.size * (high - low + 1), rows):
        return None
    longest = loops.longest_run(pane)
    if not longest:
        if codes.size * (high - low + 1) >= LARGEST_PRODUCT:
            return None
        loops.refine(codes.codes, pane, low, high - low + 1)
        pane, longest = np.zeros(rows, np.int64), rows
    of_row, size = numbered_by_run(codes.codes, pane, longest)
    return RowGroups(of_row, size, lengths)


def repeated(codes: Codes) -> tuple[Ints, Codes]:
    """The rows whose code other rows have, too, and their codes, small enough for an array with an entry for each.

    Most rows that are alone with their code are alone in a bucket of a hash table, too; only the rest is compared.
    """
    rows = np.arange(codes.codes.size)
    if not is_dense(codes.size, rows.size):
        buckets = np.zeros(1 << int(BUCKETS_PER_ROW * rows.size).bit_length(), np.uint8)
        loops.count_buckets(codes.codes, buckets)
        rows = rows[: loops.in_full_buckets(codes.codes, buckets, rows)]
        numbers, distinct = numbered(codes.codes[rows])
        codes = Codes(numbers, distinct.size)
    several = np.flatnonzero(np.bincount(codes.codes, minlength=codes.size)[codes.codes] > 1)
    return rows[several], codes.take(several)


def combined_codes(columns: Sequence[Sequence[Column]], rows: int) -> Codes | None:
    """Number the combinations of integer columns, given by table, by offset; None if that is not possible."""
    codes, size = np.zeros(rows, np.int64), 1
    for tables in columns:
        if not all(isinstance(each, np.ndarray) and each.dtype.kind in "bi" for each in tables):
            return None
        numbers = [np.ascontiguousarray(each, np.int64) for each in tables]
        ranges = [loops.range_of(each) for each in numbers if each.size]
        low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
        if size * (high - low + 1) >= LARGEST_PRODUCT:
            return None
        start = 0
        for each in numbers:
            loops.refine(codes[start : start + each.size], each, low, high - low + 1)
            start += each.size
        size *= high - low + 1
    return Codes(codes, size)


def load_loops() -> None:
    """Run every loop once on made-up rows, so that its machine code is loaded in time."""
    far = np.array([0, LARGEST_PRODUCT >> 1])
    groups = groups_of([COUNT], [[far]], [np.zeros(2, np.int64)])
    if groups is None:
        raise AssertionError("keys that are far apart have groups")
    for column in (far, np.zeros(2, bool)):
        groups.common([column])
    for dtype in ("int64", "float64"):
        for kind in ("sum", "min", "max"):
            slot = Slot(kind, "made_up", dtype)
            groups.merged(slot, [slot.empty(2)])
    repeated(Codes(far, LARGEST_PRODUCT))


def _merge_of(slot: Slot) -> Callable[[Ints, Array, Array], None]:
    """The loop that merges running values of a kind into groups."""
    if slot.kind in ("min", "max"):
        return loops.add_min if slot.kind == "min" else loops.add_max
    return loops.merge_floats if slot.dtype == "float64" else loops.add_int
