"""Cells that hold objects: sets of distinct values, and the states of user-defined aggregates."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.errors import RunError
from shoal.kernels.columns.block import ARROW_TYPES, Column, encoded
from shoal.kernels.columns.numbering import numbered
from shoal.model.query.schema import FieldType

Ints = NDArray[np.int64]
Objects = NDArray[np.object_]


def add_set(cells: Ints, column: Column, into: Objects) -> None:
    """Add the distinct values of each cell, sorted; the cells must be empty before."""
    if not cells.size:
        return
    values, codes = _coded(column)
    pairs = np.sort(numbered(cells * len(values) + codes)[1])
    owners, codes = np.divmod(pairs, len(values))
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    found = values[codes]
    for owner, first, last in zip(owners[firsts].tolist(), firsts, [*firsts[1:], owners.size], strict=True):
        into[owner] = found[first:last]


def _coded(column: Column) -> tuple[NDArray[Any], Ints]:
    """The distinct values of a column, sorted, and the position of every row's value among them."""
    if not isinstance(column, pa.Array):
        numbers, distinct = numbered(np.ascontiguousarray(column, np.int64))
        values: NDArray[Any] = distinct
    else:
        texts = encoded(column)
        values = np.asarray(texts.dictionary.to_pylist(), object)
        numbers = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(values)
    position = np.empty(values.size, np.int64)
    position[order] = np.arange(values.size)
    return values[order], position[numbers]


def merge_sets(rows: Ints, cells: Ints, partial: Objects, into: Objects) -> None:
    """Merge partial sets: row `rows[i]` into cell `cells[i]`; the cells must be empty before."""
    sets = [partial[row] for row in rows.tolist()]
    filled = [number for number, each in enumerate(sets) if each is not None and each.size]
    if filled:
        values = np.concatenate([sets[number] for number in filled])
        owners = np.repeat(cells[filled], [sets[number].size for number in filled])
        add_set(owners, pa.array(values, pa.string()) if values.dtype == object else values, into)


def add_user(cells: Ints, column: Column, into: Objects, aggregate: Any) -> None:
    """Add the state of a user-defined aggregate in each cell; the cells must be empty before."""
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    values_of_cell: dict[int, list[Any]] = {}
    for cell, value in zip(cells.tolist(), values, strict=True):
        values_of_cell.setdefault(cell, []).append(value)
    for cell, each in values_of_cell.items():
        into[cell] = aggregate.add(aggregate.zero(), each)


def merge_objects(rows: Ints, cells: Ints, partial: Objects, into: Objects, merge: Callable[[Any, Any], Any]) -> None:
    """Merge partial objects: row `rows[i]` of `partial` into cell `cells[i]`."""
    for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
        value = partial[row]
        if value is not None:
            into[cell] = value if into[cell] is None else merge(into[cell], value)


def user_results(states: Objects, aggregate: Any, type_: FieldType) -> Column:
    """The result of a user-defined aggregate for each state."""
    results = [aggregate.result(state) for state in states]
    try:
        array = pa.array(results, ARROW_TYPES[type_])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RunError(f"aggregate {type(aggregate).__name__} must give {type_}: {error}") from error
    if type_ == "int64" and any(isinstance(given, float) for given in results):  # Arrow would cut fractions off
        raise RunError(f"aggregate {type(aggregate).__name__} must give int64; got a float")
    if array.null_count:
        raise RunError(f"aggregate {type(aggregate).__name__} must give {type_}; got None")
    if type_ in ("int64", "float64", "bool"):
        return array.to_numpy(zero_copy_only=False)
    return array.cast(pa.int64()).to_numpy() if type_ == "timestamp" else array
