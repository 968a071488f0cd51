"""Digests and comparisons of results, independent of the order of rows."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.model.control.migration_metrics import deviation_of

RELATIVE_TOLERANCE = 1e-9
SHOWN = 3


def result_digest(tables: Mapping[str, pa.Table]) -> str:
    """SHA-256 over the sorted canonical text of all rows: equal for equal multisets of rows.

    >>> one, other = pa.table({"n": [1, 2]}), pa.table({"n": [2, 1]})
    >>> result_digest({"t": one}) == result_digest({"t": other})
    True
    """
    lines = sorted(line for name, table in tables.items() for line in _lines(name, table))
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _lines(name: str, table: pa.Table) -> Iterable[str]:
    columns = sorted(table.column_names)
    values = [_plain(table.column(column)) for column in columns]
    return (f"{name} {json.dumps(row, separators=(',', ':'))}" for row in zip(*values, strict=True))


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    return column.to_pylist()


def differences(actual: Mapping[str, pa.Table], expected: Mapping[str, pa.Table]) -> list[str]:
    """The differences between actual and expected results, as text; empty if they agree.

    Rows are matched by all columns that are not floats. Floats may differ by 1e-9 of their size, because the batch
    engine that computes the expected results does not add exactly. NaN is equal to itself, and null only to null.
    Columns that the expected results do not have, such as the name of the query, are ignored.
    """
    found = []
    for name, wanted in expected.items():
        got = actual.get(name)
        if got is None:
            if wanted.num_rows:
                found.append(f"table {name!r} is missing; expected {wanted.num_rows} rows")
            continue
        found += [f"table {name!r}: {text}" for text in _table_differences(got.select(wanted.column_names), wanted)]
    return found


def deviation(actual: Mapping[str, pa.Table], expected: Mapping[str, pa.Table]) -> float:
    """The share of expected results that are missing or different, or of actual ones that should not be there.

    Floats are compared to nine digits.
    """
    got, wanted = ([*_rows(tables, expected)] for tables in (actual, expected))
    return deviation_of(got, wanted)


def _rows(tables: Mapping[str, pa.Table], like: Mapping[str, pa.Table]) -> Iterator[str]:
    """Every row as text, with the name of its table and the columns of the table `like`."""
    for name, wanted in like.items():
        if (table := tables.get(name)) is None:
            continue
        for row in table.select(wanted.column_names).to_pylist():
            values = [f"{each:.9g}" if isinstance(each, float) else repr(each) for each in row.values()]
            yield f"{name} {values}"


def _table_differences(got: pa.Table, wanted: pa.Table) -> list[str]:
    exact = [field.name for field in wanted.schema if not _inexact(field.type)]
    inexact = [field.name for field in wanted.schema if _inexact(field.type)]
    left, right = _sorted(got, exact, inexact), _sorted(wanted, exact, inexact)
    if left.num_rows != right.num_rows:
        return [f"expected {right.num_rows} rows, got {left.num_rows}{_first_odd(left, right, exact)}"]
    for column in exact:
        a, b = _plain(left.column(column)), _plain(right.column(column))
        if a != b:
            at = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
            return [f"column {column!r}: expected {b[at]!r}, got {a[at]!r}"]
    return [text for column in inexact for text in _float_differences(left, right, column)]


def _inexact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_list(type_))


def _sorted(table: pa.Table, exact: list[str], inexact: list[str]) -> pa.Table:
    floats = [name for name in inexact if pa.types.is_floating(table.schema.field(name).type)]
    keys = [(name, "ascending") for name in [*exact, *floats]]
    return table.sort_by(keys) if keys else table


def _first_odd(left: pa.Table, right: pa.Table, exact: list[str]) -> str:
    """The first keys that only one side has."""
    a, b = (set(zip(*(_plain(t.column(name)) for name in exact), strict=True)) for t in (left, right))
    extra, lacking = sorted(a - b, key=repr)[:SHOWN], sorted(b - a, key=repr)[:SHOWN]
    return (f"; not expected {extra}" if extra else "") + (f"; missing {lacking}" if lacking else "")


def _float_differences(left: pa.Table, right: pa.Table, column: str) -> list[str]:
    a, b = left.column(column), right.column(column)
    nulls = [np.asarray(each.is_null().to_pylist(), bool) for each in (a, b)]
    if (nulls[0] != nulls[1]).any():
        at = int(np.flatnonzero(nulls[0] != nulls[1])[0])
        return [f"column {column!r}: expected {b[at].as_py()!r}, got {a[at].as_py()!r}"]
    if pa.types.is_list(a.type):
        a, b = a.combine_chunks(), b.combine_chunks()
        if a.value_lengths().to_pylist() != b.value_lengths().to_pylist():
            return [f"column {column!r}: lists differ in length"]
        x, y = a.flatten().to_numpy(zero_copy_only=False), b.flatten().to_numpy(zero_copy_only=False)
    else:
        x, y = a.to_numpy(), b.to_numpy()
    close = np.isclose(x, y, rtol=RELATIVE_TOLERANCE, atol=0.0, equal_nan=True)
    if close.all():
        return []
    at = int(np.flatnonzero(~close)[0])
    return [f"column {column!r}: {np.count_nonzero(~close)} values differ, e.g. expected {y[at]!r}, got {x[at]!r}"]
