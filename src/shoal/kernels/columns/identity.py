"""Ids of rows: a 64-bit hash of the columns that identify a row, the same in every process and on every machine.

Rows that are equal in these columns have the same id. Different rows have different ids unless their hashes collide.
Rows of one id always move as one; a collision for which that would be wrong is an error.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.errors import RunError
from shoal.kernels.columns.block import Column
from shoal.kernels.columns.nullable import Nullable, entry_values, valid_of, values_of
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.compiled import compiled
from shoal.model.control.fragment import Fragments, Ids

_NULL = np.uint64(0xD6E8FEB86659FD93)
"""The number of nulls."""


def ids_of(seed: int, columns: Sequence[Column], rows: int) -> Ids:
    """The id of every row.

    >>> ids = ids_of(0, [np.array([1, 2, 1]), pa.array(["a", "a", "a"])], 3)
    >>> bool(ids[0] == ids[2]), bool(ids[0] == ids[1])
    (True, False)
    """
    ids = np.full(rows, seed, np.uint64)
    if rows:
        for column in columns:
            _fold(ids, _words(column))
    return ids


def listed(parts: Sequence[Fragments]) -> Fragments:
    """The fragments of several tables as one list; rows of equal id are one fragment with the sum of their sizes.

    Raises `RunError` if the ids of two instances collide: their rows could not move separately.
    """
    rows = Fragments.concat(parts)
    numbers, distinct = numbered(rows.ids.view(np.int64))
    size = distinct.size
    if size == len(rows):
        return rows
    first = np.empty(size, np.int64)
    first[numbers[::-1]] = np.arange(len(rows))[::-1]
    colliding = np.flatnonzero(rows.instance != rows.instance[first][numbers])
    if colliding.size:
        both = rows.instance[first][numbers[colliding[0]]], rows.instance[colliding[0]]
        raise RunError(f"fragments of instances number {both[0]} and {both[1]} have the same id; they cannot be listed")
    deadline_us = rows.deadline_us[first]
    np.minimum.at(deadline_us, numbers, rows.deadline_us)
    needed_us = rows.needed_us[first]
    np.minimum.at(needed_us, numbers, rows.needed_us)
    essential = np.zeros(size, bool)
    np.logical_or.at(essential, numbers, rows.essential)
    return Fragments(
        rows.ids[first],
        rows.table[first],
        rows.instance[first],
        np.bincount(numbers, weights=rows.state_bytes, minlength=size).astype(np.int64),
        deadline_us,
        np.bincount(numbers, weights=rows.utility, minlength=size).astype(np.float64),
        essential,
        rows.key[first],
        needed_us,
    )


def _words(column: Column) -> Ids:
    """A 64-bit number for every value, equal for equal values; nulls are equal to each other."""
    if isinstance(column, np.ndarray):
        return _bits(column)
    if isinstance(column, Nullable):
        return np.where(column.valid, _bits(column.values), _NULL)
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return entry_values(_words(column.dictionary), column, _NULL)
    if (valid := valid_of(column)) is not None:
        return np.where(valid, _words(values_of(column)), _NULL)
    words = np.empty(len(column), np.uint64)
    if not len(column):
        return words
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        data = column.buffers()[2]
        content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        _hash_texts(_offsets(column, large=pa.types.is_large_string(type_)), content, words)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        offsets = column.offsets.to_numpy()
        _hash_lists(offsets - offsets[0], _words(_values(column.flatten())), words)
    else:
        raise TypeError(f"rows must be identified by numbers, texts or lists of these; got a column of type {type_}")
    return words


def _values(array: pa.Array) -> Column:
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    return array.to_numpy(zero_copy_only=False) if numeric else array


def _bits(column: NDArray[Any]) -> Ids:
    """The bits of numbers, widened to 64."""
    wide = np.ascontiguousarray(column, np.float64 if column.dtype.kind == "f" else np.int64)
    return wide.view(np.uint64)


def _offsets(column: pa.Array, *, large: bool) -> NDArray[Any]:
    """Where each text begins and the last one ends, in a column that may be a slice."""
    offsets = np.frombuffer(column.buffers()[1], np.int64 if large else np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


@compiled
def _mixed(word: int) -> Any:
    """Mix a number so that every bit depends on every bit of the input (the finalizer of SplitMix64)."""
    mixed = np.uint64(word)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@compiled
def _fold(ids: Ids, words: Ids) -> None:
    """Hash one more word into every id."""
    for i in range(ids.size):
        ids[i] = _mixed(ids[i] * np.uint64(0x9E3779B97F4A7C15) + words[i])


@compiled
def _hash_texts(offsets: NDArray[Any], content: NDArray[np.uint8], words: Ids) -> None:
    """Hash every text, byte by byte (FNV-1a)."""
    for i in range(words.size):
        word = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[i], offsets[i + 1]):
            word = (word ^ np.uint64(content[at])) * np.uint64(0x100000001B3)
        words[i] = word


@compiled
def _hash_lists(offsets: NDArray[Any], values: Ids, words: Ids) -> None:
    """Hash every list, value by value."""
    for i in range(words.size):
        word = np.uint64(offsets[i + 1] - offsets[i])
        for at in range(offsets[i], offsets[i + 1]):
            word = _mixed(word * np.uint64(0x9E3779B97F4A7C15) + values[at])
        words[i] = word
