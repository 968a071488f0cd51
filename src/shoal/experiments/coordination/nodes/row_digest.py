"""Digests of results that arrive block by block: equal for equal multisets of rows, in any order and any blocks.

Every row becomes a number of 64 bits, twice with different seeds; sums of these numbers do not depend on the order.
Floats are compared to nine digits, since engines add in different orders.
"""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.experiments.engines.row_types import plain_results

DIGITS = 9
NULL = 0x9E3779B97F4A7C15
_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
Words = NDArray[np.uint64]


class RowDigest:
    """The digest of the rows of one stream.

    >>> one, other = RowDigest(), RowDigest()
    >>> rows = pa.record_batch({"a": [1, 2], "b": ["x", None]})
    >>> one.add(rows)
    >>> for at in (1, 0):
    ...     other.add(rows.slice(at, 1))
    >>> one.text == other.text
    True
    """

    def __init__(self) -> None:
        """No rows."""
        self.rows = 0
        self._sums = [0, 0]
        self._names: list[str] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows into account."""
        if not batch.num_rows:
            return
        table = plain_results(pa.Table.from_batches([batch])).combine_chunks()
        self._names = sorted({*self._names, *table.column_names})
        self.rows += table.num_rows
        for at, seed in enumerate(_SEEDS):
            words = np.full(table.num_rows, seed, np.uint64)
            for name in sorted(table.column_names):
                words = _mixed(words + _words(table.column(name).chunk(0)) + _text_word(name))
            self._sums[at] = (self._sums[at] + int(words.sum(dtype=np.uint64))) % (1 << 64)

    @property
    def text(self) -> str:
        """The digest: the number of rows, their columns and both sums."""
        described = repr((self.rows, self._names, self._sums))
        return hashlib.sha256(described.encode()).hexdigest()


def _words(column: pa.Array) -> Words:
    """A number for every value; equal values have equal numbers."""
    type_ = column.type
    if pa.types.is_floating(type_):
        found = _float_words(column)
    elif pa.types.is_integer(type_) or pa.types.is_timestamp(type_) or pa.types.is_boolean(type_):
        whole = column.cast(pa.int64()) if not pa.types.is_timestamp(type_) else column.view(pa.int64())
        found = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    else:
        return _distinct_words(column)
    return np.where(_nulls(column), np.uint64(NULL), _mixed(found))


def _float_words(column: pa.Array) -> Words:
    """Floats to so many digits, whatever their size; NaN is equal to itself, and 0 to -0."""
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    usual = np.isfinite(values) & (values != 0)
    size = np.zeros(len(values))
    size[usual] = np.floor(np.log10(np.abs(values[usual])))
    rounded = np.where(usual, np.round(values / 10.0**size, DIGITS - 1), np.where(values == 0, 0.0, values))
    carried = np.abs(rounded) >= 10
    rounded, size = np.where(carried & usual, rounded / 10, rounded), np.where(carried & usual, size + 1, size)
    rounded = np.where(np.isnan(rounded), np.nan, rounded)
    return _mixed(rounded.view(np.uint64)) + size.astype(np.int64).view(np.uint64)


def _distinct_words(column: pa.Array) -> Words:
    """Texts, and whatever else: one computation for every distinct value."""
    if pa.types.is_nested(column.type):
        return np.array([_text_word(repr(value)) for value in column.to_pylist()], np.uint64)
    encoded = column.dictionary_encode()
    entries = np.array([_text_word(str(each)) for each in encoded.dictionary.to_pylist()] + [NULL], np.uint64)
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(entries) - 1).to_numpy(zero_copy_only=False)
    return entries[indices]


def _text_word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[Any] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return found.astype(bool)


def _mixed(words: Words) -> Words:
    """Spread the bits of every number over all of it, as SplitMix does."""
    first, second = _MULTIPLIERS
    words = (words ^ (words >> np.uint64(30))) * first
    words = (words ^ (words >> np.uint64(27))) * second
    return words ^ (words >> np.uint64(31))
