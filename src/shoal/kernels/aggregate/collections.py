"""Cells that hold objects: sets of distinct values, and the states of user-defined aggregates."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.errors import FunctionError
from shoal.kernels import loops
from shoal.kernels.aggregate.cells import LARGEST_PRODUCT
from shoal.kernels.columns.block import ARROW_TYPES, Column, as_column, encoded
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.expression.failing import failing_range, raised, shown
from shoal.model.query.schema import FieldType

Ints = NDArray[np.int64]
Objects = NDArray[np.object_]


def add_set(cells: Ints, column: Column, into: Objects) -> None:
    """Add the distinct values of each cell, sorted; the cells must be empty before, and stay so without values."""
    if not cells.size:
        return
    owners, found = _distinct_pairs(cells, column)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    begins = firsts.tolist()
    sets = [found[first:last] for first, last in zip(begins, [*begins[1:], owners.size], strict=True)]
    into[owners[firsts]] = np.fromiter(sets, object, len(sets))


def _distinct_pairs(cells: Ints, column: Column) -> tuple[Ints, NDArray[Any]]:
    """The pairs of a cell and a value, each once, sorted by both; cells and values."""
    if isinstance(column, np.ndarray):
        numbers = np.ascontiguousarray(column, np.int64)
        low, high = loops.range_of(numbers)
        size = high - low + 1
        if (int(cells.max()) + 1) * size < LARGEST_PRODUCT:
            return _divided(cells * size + (numbers - low), size, low)
    values, codes = _coded(column)
    owners, codes = _divided(cells * len(values) + codes, len(values), 0)
    return owners, values[codes]


def _divided(pairs: Ints, size: int, low: int) -> tuple[Ints, Ints]:
    """The quotients of the distinct pairs by a size, and their rests from `low` on, sorted by both.

    Sorting all pairs takes less time than finding the distinct ones by hashing.
    """
    pairs.sort()
    owners, values = np.empty(pairs.size, np.int64), np.empty(pairs.size, np.int64)
    found = loops.divide_distinct(pairs, size, low, owners, values)
    return owners[:found], values[:found].copy()


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


def complete_sets(sets: Objects, column: Column) -> None:
    """Give cells that had no value of a column a set without values."""
    nothing = np.zeros(0, object if isinstance(column, pa.Array) else np.int64)
    for cell in np.flatnonzero([each is None for each in sets]).tolist():
        sets[cell] = nothing


def merge_sets(rows: Ints, cells: Ints, partial: Objects, into: Objects) -> None:
    """Merge partial sets: row `rows[i]` into cell `cells[i]`; the cells must be empty before."""
    alone = np.bincount(cells, minlength=into.size)[cells] == 1
    into[cells[alone]] = partial[rows[alone]]
    rows, cells = rows[~alone], cells[~alone]
    sets = [partial[row] for row in rows.tolist()]
    filled = [number for number, each in enumerate(sets) if each is not None and each.size]
    if filled:
        values = np.concatenate([sets[number] for number in filled])
        owners = np.repeat(cells[filled], [sets[number].size for number in filled])
        add_set(owners, pa.array(values, pa.string()) if values.dtype == object else values, into)
    if len(filled) < len(sets):
        for cell, each in zip(cells.tolist(), sets, strict=True):
            if into[cell] is None:
                into[cell] = each


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
