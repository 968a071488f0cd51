"""Groups of pane rows: those of one instance, pane and key, in several tables, found and merged without copying them.

Rows mostly come in the order of their panes. Those of one pane are then grouped among themselves, with a hash table as
small as the pane: it stays in the cache however many panes a merge has. Only integer keys and plain running values
(counts, sums, extremes) are grouped in this way; `groups_of` finds no groups of others.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate.cells import LARGEST_PRODUCT, Codes, integers, is_dense
from shoal.kernels.aggregate.slots import COUNT, Array, Slot
from shoal.kernels.columns.block import Column
from shoal.kernels.columns.numbering import numbered, numbered_by_run

Ints = NDArray[np.int64]
PLAIN_KINDS = ("count", "present", "sum", "min", "max")
"""Kinds of running values that can be merged table by table."""
BUCKETS_PER_ROW = 4
LARGEST = np.iinfo(np.int64).max


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

    def all_common(self, tables: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
        """The same for several columns of each table, in one call per table if they are all integers."""
        columns = list(zip(*tables, strict=True))
        if any(each.dtype != np.int64 for column in columns for each in column):
            return [self.common(column) for column in columns]
        into = tuple(np.empty(self.size, np.int64) for _ in columns)
        for groups, table in zip(self.by_table, tables, strict=True):
            loops.place_all(groups, integers(table) or (), into)
        return list(into)

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
    low, high, longest = loops.runs_of(pane)
    if is_dense(codes.size * (high - low + 1), rows):
        return None
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
    codes, tables = np.zeros(rows, np.int64), list[tuple[Ints, ...]]()
    if not columns:
        return Codes(codes, 1)
    lows, highs = np.full(len(columns), LARGEST), np.full(len(columns), -LARGEST - 1)
    for table in zip(*columns, strict=True):
        numbers = integers(table)
        if numbers is None:
            return None
        loops.widen_ranges(numbers, lows, highs)
        tables.append(numbers)
    spans = [high - low + 1 for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
    size = math.prod(spans)
    if size >= LARGEST_PRODUCT:
        return None
    widths, start = np.array(spans), 0
    for numbers in tables:
        stop = start + numbers[0].size
        loops.refine_all(codes[start:stop], numbers, lows, widths)
        start = stop
    return Codes(codes, size)


def load_loops(columns: int = 1) -> None:
    """Run every loop once on made-up rows with some columns, so that its machine code is loaded in time."""
    far = np.array([0, LARGEST_PRODUCT >> 1])
    groups = groups_of([COUNT], [[far]], [np.zeros(2, np.int64)])
    if groups is None:
        raise AssertionError("keys that are far apart have groups")
    groups.common([np.zeros(2, bool)])
    groups.all_common([(far,) * columns])
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
