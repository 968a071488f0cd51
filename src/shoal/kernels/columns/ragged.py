"""Ragged columns: a list of values in every row, all in one array, so that rows are not objects of Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]


class Ragged:
    """Rows of values: row i has `values[offsets[i] : offsets[i + 1]]`. Values are integers, or texts as objects.

    >>> column = Ragged(np.array([0, 2, 2, 3]), np.array([5, 7, 9]))
    >>> column.tolist()
    [[5, 7], [], [9]]
    >>> column[np.array([2, 0])].tolist()
    [[9], [5, 7]]
    """

    __slots__ = ("offsets", "values")

    def __init__(self, offsets: Ints, values: NDArray[Any]) -> None:
        """Rows of some values; there is one more offset than rows, and the first is 0."""
        self.offsets = offsets
        self.values = values

    @classmethod
    def empty(cls, rows: int) -> "Ragged":
        """Rows without values."""
        return cls(np.zeros(rows + 1, np.int64), np.zeros(0, np.int64))

    @classmethod
    def of(cls, rows: Sequence[NDArray[Any]]) -> "Ragged":
        """A row for each of some arrays."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([row.size for row in rows], out=offsets[1:])
        return cls(offsets, np.concatenate(rows) if rows else np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Number of rows."""
        return self.offsets.size - 1

    @property
    def size(self) -> int:
        """Number of rows, as of an array."""
        return len(self)

    @property
    def lengths(self) -> Ints:
        """The number of values in each row."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Memory that offsets and values take; of texts without their letters."""
        return self.offsets.nbytes + self.values.nbytes

    def __getitem__(self, rows: "slice | Ints") -> "Ragged":
        """Some rows; of a slice, their values are not copied."""
        if isinstance(rows, slice):
            begin, end, _ = rows.indices(len(self))
            offsets = self.offsets[begin : max(begin, end) + 1]
            return Ragged(offsets - offsets[0], self.values[offsets[0] : offsets[-1]])
        offsets = np.empty(rows.size + 1, np.int64)
        at = np.empty(_lengths_of(self.offsets, rows, offsets), np.int64)
        _positions_of(self.offsets, rows, offsets, at)
        return Ragged(offsets, self.values[at])

    def hold(self, other: "Ragged") -> None:
        """Take over the values of as many rows as this column has."""
        self.offsets, self.values = other.offsets, other.values

    def copy(self) -> "Ragged":
        """The same in memory of its own."""
        return Ragged(self.offsets.copy(), self.values.copy())

    def tolist(self) -> list[list[Any]]:
        """The rows as lists."""
        return [part.tolist() for part in np.split(self.values, self.offsets[1:-1])] if len(self) else []

    def to_arrow(self) -> pa.Array:
        """The rows as an Arrow array of lists."""
        values = pa.array(self.values, pa.string() if self.values.dtype == object else pa.int64())
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), values)

    @classmethod
    def from_arrow(cls, array: pa.LargeListArray) -> "Ragged":
        """The inverse of `to_arrow`; no row may be null."""
        offsets = array.offsets.to_numpy() - array.offsets[0].as_py() if len(array) else np.zeros(1, np.int64)
        texts = pa.types.is_string(array.type.value_type)
        return cls(offsets, np.array(array.flatten().to_numpy(zero_copy_only=False), object if texts else np.int64))


def concat_ragged(columns: Sequence[Ragged]) -> Ragged:
    """The rows of several columns, one after another."""
    sizes = np.cumsum([0, *(each.values.size for each in columns)])
    starts = [each.offsets[:-1] + start for each, start in zip(columns, sizes.tolist(), strict=False)]
    filled = [each.values for each in columns if each.values.size]  # the type of no values says nothing
    return Ragged(np.concatenate([*starts, sizes[-1:]]), np.concatenate(filled) if filled else columns[0].values)


@compiled
def _lengths_of(offsets: Ints, rows: Ints, into: Ints) -> int:
    """The offsets of some rows when they follow each other; returns the last."""
    into[0] = 0
    for i in range(rows.size):
        into[i + 1] = into[i] + offsets[rows[i] + 1] - offsets[rows[i]]
    return int(into[rows.size])


@compiled
def _positions_of(offsets: Ints, rows: Ints, into: Ints, at: Ints) -> None:
    """Where the values of some rows are, one row after another."""
    for i in range(rows.size):
        for j in range(into[i + 1] - into[i]):
            at[into[i] + j] = offsets[rows[i]] + j
