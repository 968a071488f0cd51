"""Cells that hold more than numbers: sets of distinct values, and the states of user-defined aggregates."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.errors import FunctionError
from shoal.kernels.aggregate import set_loops
from shoal.kernels.columns.block import ARROW_TYPES, Column, as_column, encoded
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.columns.ragged import Ragged
from shoal.kernels.expression.failing import failing_range, raised, shown
from shoal.model.query.schema import FieldType

Ints = NDArray[np.int64]
Objects = NDArray[np.object_]


def add_set(cells: Ints, column: Column, into: Ragged) -> None:
    """Add the distinct values of each cell, sorted; the cells must be empty before, and stay so without values."""
    offsets = np.zeros(len(into) + 1, np.int64)
    if not cells.size:
        into.hold(Ragged(offsets, np.zeros(0, object if isinstance(column, pa.Array) else np.int64)))
        return
    pairs, size, low, values = _pairs(cells, column)
    pairs.sort()  # takes less time than finding the distinct ones by hashing
    found = np.empty(pairs.size, np.int64)
    found = found[: set_loops.divide_distinct(pairs, size, low, offsets, found)]
    into.hold(Ragged(offsets, found.copy() if values is None else values[found]))


def _pairs(cells: Ints, column: Column) -> tuple[Ints, int, int, NDArray[Any] | None]:
    """Each cell and value as one number: `cell * size + value - low`, with the size and the low.

    Values that do not fit are replaced by their position among the distinct ones, which are then the last result.
    """
    if isinstance(column, np.ndarray):
        pairs = np.empty(cells.size, np.int64)
        low, size = set_loops.pair_with(cells, np.ascontiguousarray(column, np.int64), pairs)
        if size:
            return pairs, size, low, None
    values, codes = _coded(column)
    return cells * len(values) + codes, len(values), 0, values


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


def merge_sets(rows: Ints, cells: Ints, partial: Ragged, into: Ragged) -> None:
    """Merge partial sets: row `rows[i]` into cell `cells[i]`; the cells must be empty before."""
    values, texts = partial.values, None
    if values.dtype == object:
        texts, values = _coded(pa.array(values, pa.string()))
    offsets = np.zeros(len(into) + 1, np.int64)
    found = set_loops.unions(rows, cells, partial.offsets, values, offsets)
    into.hold(Ragged(offsets, found if texts is None else texts[found]))


def add_user(cells: Ints, column: Column, into: Objects, aggregate: Any) -> None:
    """Add the state of a user-defined aggregate in each cell; the cells must be empty before."""
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    values_of_cell: dict[int, list[Any]] = {}
    for cell, value in zip(cells.tolist(), values, strict=True):
        values_of_cell.setdefault(cell, []).append(value)
    each: list[Any] = []
    try:
        for cell, each in values_of_cell.items():
            into[cell] = aggregate.add(aggregate.zero(), each)
    except (Exception, SystemExit) as error:
        start, _stop = failing_range(lambda start, stop: aggregate.add(aggregate.zero(), each[start:stop]), len(each))
        raise _failed(aggregate, "add", error, f"value {shown(each[start])}") from error


def merge_user(rows: Ints, cells: Ints, partial: Objects, into: Objects, aggregate: Any) -> None:
    """Merge states of a user-defined aggregate: row `rows[i]` of `partial` into cell `cells[i]`."""
    value = before = None
    try:
        for row, cell in zip(rows.tolist(), cells.tolist(), strict=True):
            value, before = partial[row], into[cell]
            if value is not None:
                into[cell] = value if before is None else aggregate.merge(before, value)
    except (Exception, SystemExit) as error:
        raise _failed(aggregate, "merge", error, f"states {shown(before)} and {shown(value)}") from error


def _failed(aggregate: Any, method: str, error: BaseException, sample: str) -> FunctionError:
    return FunctionError(f"aggregate {type(aggregate).__name__!r} raised {raised(error)} in {method}", sample)


def user_results(states: Objects, counts: Ints, aggregate: Any, type_: FieldType) -> Column:
    """The result of a user-defined aggregate for each state; null if it is None, or of no value."""
    state, results = None, []
    try:
        for state, count in zip(states, counts.tolist(), strict=True):
            results.append(aggregate.result(state) if count else None)
    except (Exception, SystemExit) as error:
        raise _failed(aggregate, "result", error, f"state {shown(state)}") from error
    try:
        array = pa.array(results, ARROW_TYPES[type_])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise FunctionError(f"aggregate {type(aggregate).__name__} must give {type_}: {error}") from error
    if type_ == "int64" and any(isinstance(given, float) for given in results):  # Arrow would cut fractions off
        raise FunctionError(f"aggregate {type(aggregate).__name__} must give int64; got a float")
    return as_column(array)
