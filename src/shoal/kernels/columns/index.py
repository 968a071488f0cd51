"""Indices of static values: built once, read for every block."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.columns.block import Column, encoded
from shoal.kernels.columns.nullable import Nullable, entry_values

Ints = NDArray[np.int64]
DENSE_TABLE = 1 << 22
"""Widest range of integers that has a dense lookup table."""


class Index:
    """The position of each of some distinct values in their list.

    >>> Index([5, 7]).positions(np.array([7, 6, 5])).tolist()
    [1, -1, 0]
    >>> Index(["b", "a"]).positions(pa.array(["a", "c"])).tolist()
    [1, -1]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        """Prepare the lookup; values are all integers or all texts, each once."""
        self._texts: dict[str, int] | None = None
        self._dense: Ints | None = None
        self._sorted = self._order = np.zeros(0, np.int64)
        self._low = 0
        if values and isinstance(values[0], str):
            self._texts = {value: position for position, value in enumerate(values)}
        elif values:
            self._prepare(np.array(values, np.int64))

    def _prepare(self, wanted: Ints) -> None:
        self._low, high = int(wanted.min()), int(wanted.max())
        if high - self._low < DENSE_TABLE:
            self._dense = np.full(high - self._low + 1, -1, np.int64)
            self._dense[wanted - self._low] = np.arange(wanted.size)
        else:
            self._order = np.argsort(wanted)
            self._sorted = wanted[self._order]

    def positions(self, column: Column) -> Ints:
        """The position of every row's value, or -1 if it is not in the list or null."""
        if isinstance(column, pa.Array):
            return self._of_texts(column)
        if isinstance(column, Nullable):
            return np.where(column.valid, self.positions(column.values), -1)
        values = np.ascontiguousarray(column, np.int64)
        if self._dense is not None:
            out = np.empty(values.size, np.int64)
            loops.translate(values, self._low, self._dense, out)
            return out
        if not self._sorted.size:
            return np.full(values.size, -1, np.int64)
        at = np.minimum(np.searchsorted(self._sorted, values), self._sorted.size - 1)
        return np.where(self._sorted[at] == values, self._order[at], -1)

    def _of_texts(self, column: pa.Array) -> Ints:
        """Look up the distinct texts only."""
        texts, known = encoded(column), self._texts or {}
        positions = np.array([known.get(text, -1) for text in texts.dictionary.to_pylist()], np.int64)
        return entry_values(positions, texts, -1)
