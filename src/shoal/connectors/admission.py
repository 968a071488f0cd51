"""Admission: only rows that are what the stream's schema says get in; all others become dead letters.

A row is refused when a column is null or NaN, holds something of another type, or its event time lies
too far ahead. Only the columns that some query reads are looked at.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.connectors.source import RawBatch
from shoal.errors import SchemaError

DEAD_LETTERS = "dead_letters"
"""Name of the table that refused rows go to."""
DEAD_LETTER_SCHEMA = pa.schema([(name, pa.string()) for name in ("stream", "reason", "detail", "place", "row")])


@dataclass(frozen=True)
class Refusal:
    """Rows that were refused: why, and which."""

    reason: str
    detail: str
    rows: NDArray[np.int64]


@dataclass
class Admitted:
    """The rows that got in, and what happened to the others."""

    batch: pa.RecordBatch
    refusals: list[Refusal] = field(default_factory=list)


def admit(raw: RawBatch, expected: pa.Schema, time: str, not_after_us: int | None) -> Admitted:
    """Check a batch against the expected columns; `not_after_us` is the latest event time taken."""
    missing = [name for name in expected.names if name not in raw.batch.schema.names]
    if missing:
        raise SchemaError(
            f"{raw.place} lacks column {', '.join(repr(name) for name in missing)}; "
            f"it has {', '.join(raw.batch.schema.names)}"
        )
    refusals: list[Refusal] = []
    arrays: dict[str, pa.Array] = {}
    for wanted in expected:
        array, refused = _converted(raw.batch.column(wanted.name), wanted)
        arrays[wanted.name] = array
        refusals += refused
    if not_after_us is not None:
        times = arrays[time].view(pa.int64())
        ahead = pc.fill_null(pc.greater(times, not_after_us), False)
        if pc.any(ahead).as_py():
            rows = np.flatnonzero(ahead.to_numpy(zero_copy_only=False))
            refusals.append(Refusal("future", f"event time {time!r} is too far ahead of the clock", rows))
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    if not refusals:
        return Admitted(batch)
    return _without_refused(batch, refusals)


def _without_refused(batch: pa.RecordBatch, refusals: Sequence[Refusal]) -> Admitted:
    """Each refused row once, for the first reason found."""
    good = np.ones(batch.num_rows, bool)
    firsts = []
    for refusal in refusals:
        fresh = refusal.rows[good[refusal.rows]]
        good[fresh] = False
        if fresh.size:
            firsts.append(Refusal(refusal.reason, refusal.detail, fresh))
    return Admitted(batch.filter(pa.array(good)), firsts)


def _converted(array: pa.Array, wanted: pa.Field) -> tuple[pa.Array, list[Refusal]]:
    """A column of the wanted type, with nulls where a value does not fit."""
    refusals = []
    if array.null_count:
        refusals.append(Refusal("null", f"column {wanted.name!r} is null", _rows(array.is_null())))
    result = array
    if not _fits(array.type, wanted.type):
        result = _cast(array, wanted.type)
        lost = pc.and_(result.is_null(), array.is_valid())
        if pc.any(lost).as_py():
            detail = f"column {wanted.name!r} must be {wanted.type}; got {array.type}"
            refusals.append(Refusal("type", detail, _rows(lost)))
    if pa.types.is_floating(wanted.type):
        nan = _nan_rows(result)
        if nan.size:
            refusals.append(Refusal("null", f"column {wanted.name!r} is NaN", nan))
    return result, refusals


def _nan_rows(array: pa.Array) -> NDArray[np.int64]:
    values = array.to_numpy(zero_copy_only=False)
    if not array.null_count and not np.isnan(values.sum()):
        return np.zeros(0, np.int64)
    return _rows(pc.fill_null(pc.is_nan(array), False))


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_dictionary(given):
        return bool(pa.types.is_string(wanted) and pa.types.is_string(given.value_type))
    return bool(given == wanted)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert all at once where that works, else value by value, with null for what does not fit."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.tz:
        array = array.cast(pa.timestamp(array.type.unit))
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        distinct = pc.dictionary_encode(array)
        values = [_cast_one(value, wanted) for value in distinct.dictionary]
        return pa.array(values, wanted).take(distinct.indices)


def _cast_one(value: pa.Scalar, wanted: pa.DataType) -> Any:
    try:
        return value.cast(wanted).as_py() if not pa.types.is_timestamp(wanted) else value.cast(wanted).value
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _rows(mask: pa.Array) -> NDArray[np.int64]:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))


def dead_letters(stream: str, raw: RawBatch, refusals: Sequence[Refusal]) -> pa.RecordBatch:
    """Refused rows as they came, each with the reason and the place."""
    columns: Mapping[str, list[str]] = {name: [] for name in DEAD_LETTER_SCHEMA.names}
    for refusal in refusals:
        for number, row in zip(refusal.rows.tolist(), raw.batch.take(pa.array(refusal.rows)).to_pylist(), strict=True):
            columns["stream"].append(stream)
            columns["reason"].append(refusal.reason)
            columns["detail"].append(refusal.detail)
            columns["place"].append(f"{raw.place}, row {raw.first_row + number}")
            columns["row"].append(json.dumps(row, default=str, ensure_ascii=False))
    return pa.RecordBatch.from_pydict(columns, schema=DEAD_LETTER_SCHEMA)
