"""Cells: one number per row for the group it belongs to, dense where possible so that no hashing is needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.columns.block import Column, encoded
from shoal.kernels.columns.nullable import Nullable, text_codes
from shoal.kernels.columns.numbering import numbered

DENSE_CELLS = 1 << 22
"""Largest number of entries of an array that has one for every cell."""
CELLS_PER_ROW = 8
FEW_CELLS = 1 << 10
"""A number of cells that is cheap to allocate, even for a few rows."""
LARGEST_PRODUCT = 1 << 62
WIDEST_RANGE = 1 << 32
"""Integers within such a range are numbered by their offset; the combinations of several columns are hashed once."""


@dataclass(frozen=True)
class Codes:
    """A column as small numbers: equal values have equal codes, all below `size`."""

    codes: NDArray[np.int64]
    size: int

    def take(self, rows: NDArray[np.int64]) -> "Codes":
        """The codes of the given rows."""
        return Codes(self.codes[rows], self.size)


@dataclass(frozen=True)
class Cells:
    """The cell of every row, 0 .. size - 1; some cells may be empty."""

    of_row: NDArray[np.int64]
    size: int

    def fitting(self, width: int) -> "Cells":
        """The same cells; without the empty ones if arrays with `width` numbers per cell would become too large."""
        if self.size * width <= DENSE_CELLS:
            return self
        used = np.zeros(self.size, bool)
        used[self.of_row] = True
        number = np.cumsum(used) - 1
        return Cells(number[self.of_row], max(1, int(number[-1]) + 1))

    def samples(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One row of each non-empty cell, and these cells."""
        sample = np.full(self.size, -1, np.int64)
        sample[self.of_row] = np.arange(self.of_row.size)
        filled = np.flatnonzero(sample >= 0)
        return sample[filled], filled


def codes_of(column: Column) -> Codes:
    """Number the values of a column: by offset, or by hashing if integers are far from each other.

    Nulls have a number of their own. Numbers may be far larger than the number of rows; `cells_of` makes them dense.

    >>> codes_of(np.array([7, 9, 7]))
    Codes(codes=array([0, 2, 0]), size=3)
    """
    if isinstance(column, pa.Array):
        dictionary = encoded(column)
        codes = text_codes(dictionary).astype(np.int64)
        size = len(dictionary.dictionary)
        if dictionary.indices.null_count:
            return Codes(np.where(codes < 0, size, codes), size + 1)
        return Codes(codes, max(1, size))
    if isinstance(column, Nullable):
        known = codes_of(column.values)
        return Codes(np.where(column.valid, known.codes, known.size), known.size + 1)
    if column.size == 0:
        return Codes(np.zeros(0, np.int64), 1)
    values = np.ascontiguousarray(column, np.int64)
    low, high = loops.range_of(values)
    if high - low < WIDEST_RANGE:
        return Codes(values - low, int(high - low) + 1)
    codes, distinct = numbered(values)
    return Codes(codes, distinct.size)


def cells_of(columns: Sequence[Codes], rows: int) -> Cells:
    """Number the combinations of several coded columns.

    While the product of the columns' sizes is near the number of rows, every combination has a number;
    beyond that, only the combinations that occur are numbered, by hashing.
    """
    cells = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        if size * column.size >= LARGEST_PRODUCT:
            cells, size = _renumbered(cells)
        loops.combine(cells, column.codes, column.size)
        size *= column.size
    if not is_dense(size, rows):
        cells, size = _renumbered(cells)
    return Cells(cells, size)


def cells_of_numbers(columns: Sequence[Column], rows: int) -> Cells | None:
    """The same for columns that are integers, in one compiled call; None if they are not, or are too far apart."""
    numbers = integers(columns) if rows else None
    if numbers is None:
        return None
    cells = np.empty(rows, np.int64)
    size = loops.number_all(numbers, cells)
    if not size:
        return None
    return Cells(cells, size) if is_dense(size, rows) else Cells(*_renumbered(cells))


def integers(columns: Sequence[Column]) -> tuple[NDArray[np.int64], ...] | None:
    """Columns as arrays of one type, which loops over several columns need; None if one is no array of integers."""
    if not all(isinstance(each, np.ndarray) and each.dtype.kind in "bi" for each in columns):
        return None
    arrays = [np.ascontiguousarray(each, np.int64) for each in columns]
    return tuple(each if each.flags.writeable else each.copy() for each in arrays)


def is_dense(size: int, rows: int) -> bool:
    """Whether arrays with an entry per combination, of which there are `size`, are worth it for some rows."""
    return size <= max(FEW_CELLS, min(DENSE_CELLS, CELLS_PER_ROW * rows))


def _renumbered(cells: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    numbers, distinct = numbered(cells)
    return numbers, max(1, distinct.size)
