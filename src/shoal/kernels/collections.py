"""Cells that hold objects: sets of different values, and the states of the user's own aggregates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.errors import RunError
from shoal.kernels.block import ARROW_TYPES, Column, encoded
from shoal.model.schema import FieldType

Ints = NDArray[np.int64]
Objects = NDArray[np.object_]


def add_set(cells: Ints, column: Column, into: Objects) -> None:
    """The different values of each cell; the cells are empty before."""
    if not cells.size:
        return
    if isinstance(column, pa.Array):
        texts = encoded(column)
        values = np.asarray(texts.dictionary.to_pylist(), object)
        codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        values, codes = np.unique(column.astype(np.int64), return_inverse=True)
    pairs = np.unique(cells * len(values) + codes)
    owners = pairs // len(values)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    for first, last in zip(firsts, [*firsts[1:], owners.size], strict=True):
        into[owners[first]] = np.sort(values[pairs[first:last] % len(values)])


def union(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """The values of two sets."""
    return np.unique(np.concatenate([one, other]))


def add_user(cells: Ints, column: Column, into: Objects, aggregate: Any) -> None:
    """The state of the user's aggregate in each cell; the cells are empty before."""
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    gathered: dict[int, list[Any]] = {}
    for cell, value in zip(cells.tolist(), values, strict=True):
        gathered.setdefault(cell, []).append(value)
    for cell, each in gathered.items():
        into[cell] = aggregate.add(aggregate.zero(), each)


def merge_objects(rows: Ints, cells: Ints, partial: Objects, into: Objects, merge: Callable[[Any, Any], Any]) -> None:
    """Merge partial objects: row `rows[i]` of `partial` into cell `cells[i]`."""
    for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
        value = partial[row]
        if value is not None:
            into[cell] = value if into[cell] is None else merge(into[cell], value)


def user_answers(states: Objects, aggregate: Any, type_: FieldType) -> Column:
    """What the user's aggregate says of each state."""
    answers = [aggregate.result(state) for state in states]
    try:
        array = pa.array(answers, ARROW_TYPES[type_])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RunError(f"aggregate {type(aggregate).__name__} must give {type_}: {error}") from error
    if type_ == "int64" and any(isinstance(given, float) for given in answers):  # Arrow would cut fractions off
        raise RunError(f"aggregate {type(aggregate).__name__} must give int64; got a float")
    if array.null_count:
        raise RunError(f"aggregate {type(aggregate).__name__} must give {type_}; got None")
    if type_ in ("int64", "float64", "bool"):
        return array.to_numpy(zero_copy_only=False)
    return array.cast(pa.int64()).to_numpy() if type_ == "timestamp" else array
