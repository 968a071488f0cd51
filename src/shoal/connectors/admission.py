"""Admission: only rows that match the stream's schema get in; all others become dead letters.

A row is refused, with one of these reasons, when

- `null`: a column that is declared `not null`, or event time, is null;
- `type`: a column holds a value that is not of the declared type (see `conversion` for what is);
- `range`: a time lies before the year 1 or after the year 9999;
- `unit`: a number in a column of times would lie in 1970, and nobody has said what it counts;
- `future`: the event time lies too far ahead of the clock;
- `malformed`: the row could not be split into columns.

All columns that the stream declares are checked, also those that no query reads: whether a row gets in is a matter of
the row and the stream alone. A null in any other column is a value like others, and so is NaN.
"""

import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.connectors.formats.conversion import WHOLE_NUMBER, TimeUnit, converted
from shoal.connectors.sources.source import BadFile, RawBatch, column_fault
from shoal.errors import SchemaError

DEAD_LETTERS = "dead_letters"
"""Name of the table of refused rows."""
NO_COLUMNS = pa.schema([])
DEAD_LETTER_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("stream", "reason", "column", "detail", "place", "row")]
)

EARLIEST_US = -62_135_596_800_000_000
LATEST_US = 253_402_300_799_999_999
_YEAR_US = 365 * 86_400_000_000
_TYPE_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16", "timestamp[us]": "timestamp"}


@dataclass(frozen=True)
class Refusal:
    """Refused rows: why, and which; `column` if the reason is in one column."""

    reason: str
    detail: str
    rows: NDArray[np.int64]
    column: str = ""


@dataclass
class Admitted:
    """The rows that got in, and why the others did not."""

    batch: pa.RecordBatch
    refusals: list[Refusal] = field(default_factory=list)


def admit(
    raw: RawBatch, expected: pa.Schema, time: str, not_after_us: int | None, checked: pa.Schema = NO_COLUMNS
) -> Admitted:
    """Check a batch against the expected columns; `not_after_us` is the latest event time accepted.

    Of the columns that are only `checked`, those that the batch has are checked, too. Event times that rows do not
    have of their own are not: the source was asked for them where none can be refused.

    A refused row has one reason, the first that was found. A batch that lacks a column is an error: file sources
    check their columns earlier, under their own rule for bad files.
    """
    if raw.malformed:
        every = np.arange(raw.batch.num_rows)
        return Admitted(pa.RecordBatch.from_pylist([], expected), [Refusal("malformed", raw.malformed, every)])
    if fault := column_fault(raw.batch.schema.names, expected.names):
        raise SchemaError(f"{raw.where} {fault}")
    refusals: list[Refusal] = []
    arrays: dict[str, pa.Array] = {}
    for wanted in expected:
        given = raw.batch.column(wanted.name)
        if wanted.name == time and raw.oldest_us is not None and given.type == wanted.type:
            arrays[time] = given
            continue
        field = _required(wanted) if wanted.name == time else wanted
        array, refused = _checked(given, field, raw.time_unit)
        arrays[wanted.name] = array
        refusals += refused
    for wanted in checked:
        if wanted.name in raw.batch.schema.names:
            refusals += _checked(raw.batch.column(wanted.name), wanted, raw.time_unit)[1]
    if not_after_us is not None and raw.oldest_us is None and len(arrays[time]):
        refusals += _ahead(arrays[time], time, not_after_us)
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    return _without_refused(batch, refusals) if refusals else Admitted(batch)


def admitted_rows(raw: RawBatch, refusals: Sequence[Refusal]) -> NDArray[np.int64]:
    """The rows of a batch that were not refused."""
    good = np.ones(raw.batch.num_rows, bool)
    for refusal in refusals:
        good[refusal.rows] = False
    return np.flatnonzero(good)


def _without_refused(batch: pa.RecordBatch, refusals: Sequence[Refusal]) -> Admitted:
    """The other rows, and each refused row once, with the first reason found."""
    good = np.ones(batch.num_rows, bool)
    firsts = []
    for refusal in refusals:
        fresh = refusal.rows[good[refusal.rows]]
        good[fresh] = False
        if fresh.size:
            firsts.append(replace(refusal, rows=fresh))
    return Admitted(batch.filter(pa.array(good)), firsts)


def _checked(array: pa.Array, wanted: pa.Field, unit: TimeUnit | None) -> tuple[pa.Array, list[Refusal]]:
    """A column of the wanted type, and the rows whose value does not fit; `unit` is that of integers for times."""
    refusals = []
    missing = pc.is_null(array) if _has_nulls(array) else None
    if missing is not None and not wanted.nullable:
        refusals.append(Refusal("null", f"column {wanted.name!r} is null", _rows(missing), wanted.name))
    result = converted(array, wanted.type, unit or "us")
    if result.null_count:
        lost = result.is_null() if missing is None else pc.and_not(result.is_null(), missing)
        reason = "range" if _is_time(wanted.type) and _is_time(array.type) else "type"
        refusals.append(Refusal(reason, _misfit(wanted, array.type), _rows(lost), wanted.name))
    if _is_time(wanted.type) and len(result):
        refusals += _out_of_range(result, wanted.name)
        if unit is None:
            refusals += _of_unknown_unit(array, result, wanted.name)
    return result, refusals


def _required(field: pa.Field) -> pa.Field:
    """Event time is never null."""
    return field.with_nullable(False)


def _has_nulls(array: pa.Array) -> bool:
    return bool(array.null_count or (pa.types.is_dictionary(array.type) and array.dictionary.null_count))


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _misfit(wanted: pa.Field, given: pa.DataType) -> str:
    if pa.types.is_dictionary(given):
        given = given.value_type
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    got = "text" if text else _type_name(given)
    return f"column {wanted.name!r} must be {_type_name(wanted.type)}; got a {got} that does not fit"


def _type_name(type_: pa.DataType) -> str:
    return _TYPE_NAMES.get(str(type_), str(type_))


def _out_of_range(array: pa.Array, name: str) -> list[Refusal]:
    times = array.view(pa.int64())
    edges = pc.min_max(times).as_py()
    if edges["min"] is None or (edges["min"] >= EARLIEST_US and edges["max"] <= LATEST_US):
        return []
    outside = pc.or_(pc.less(times, EARLIEST_US), pc.greater(times, LATEST_US))
    rows = _rows(pc.fill_null(outside, False))
    return [Refusal("range", f"column {name!r} must lie in the years 1 to 9999", rows, name)]


def _of_unknown_unit(given: pa.Array, times: pa.Array, name: str) -> list[Refusal]:
    """Numbers that would be times in 1970 if they were microseconds: more likely seconds or milliseconds of today."""
    if _is_time(given.type):
        return []
    us = times.view(pa.int64())
    near = pc.fill_null(pc.and_(pc.greater(us, -_YEAR_US), pc.less(us, _YEAR_US)), False)
    if not pc.any(near).as_py():
        return []
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    if not pa.types.is_integer(given.type):
        texts = pc.utf8_trim_whitespace(given.cast(pa.string()))
        near = pc.and_(near, pc.fill_null(pc.match_substring_regex(texts, WHOLE_NUMBER), False))
    rows = _rows(near)
    detail = f"column {name!r} has a number that would be a time in 1970; say what it counts with time_unit (s, ms, us)"
    return [Refusal("unit", detail, rows, name)] if rows.size else []


def _ahead(array: pa.Array, name: str, not_after_us: int) -> list[Refusal]:
    times = array.view(pa.int64())
    newest = pc.max(times).as_py()
    if newest is None or newest <= not_after_us:
        return []
    ahead = pc.fill_null(pc.greater(times, not_after_us), False)
    return [Refusal("future", f"event time {name!r} is too far ahead of the clock", _rows(ahead), name)]


def _rows(mask: pa.Array) -> NDArray[np.int64]:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False))


def dead_letters(stream: str, raw: RawBatch, refusals: Sequence[Refusal]) -> pa.RecordBatch:
    """Refused rows as JSON, unchanged, each with the reason and where it was."""
    columns: Mapping[str, list[str]] = {name: [] for name in DEAD_LETTER_SCHEMA.names}
    for refusal in refusals:
        rows = _readable(raw.batch.take(pa.array(refusal.rows)))
        for at, row in zip(refusal.rows.tolist(), rows, strict=True):
            columns["stream"].append(stream)
            columns["reason"].append(refusal.reason)
            columns["column"].append(refusal.column)
            columns["detail"].append(refusal.detail)
            columns["place"].append(f"{raw.where}, row {raw.number(at)}")
            columns["row"].append(json.dumps(row, default=_readable_value, ensure_ascii=False))
    return pa.RecordBatch.from_pydict(columns, schema=DEAD_LETTER_SCHEMA)


def file_letter(stream: str, bad: BadFile) -> pa.RecordBatch:
    """The dead letter for a file, or the rest of one, that was skipped."""
    values = [[stream], ["file"], [""], [bad.reason], [bad.where], [""]]
    return pa.RecordBatch.from_arrays([pa.array(value) for value in values], schema=DEAD_LETTER_SCHEMA)


def _readable(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as plain values that JSON can hold: times as ISO text, NaN and invalid UTF-8 as text."""
    values = [_readable_column(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*values, strict=True)]


def _readable_column(array: pa.Array) -> list[Any]:
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return _readable_column(array.dictionary.take(array.indices))
    if pa.types.is_timestamp(type_):
        return _readable_times(array)
    if pa.types.is_string(type_):
        return [_readable_value(value) for value in array.view(pa.binary()).to_pylist()]
    try:
        return [_readable_value(value) for value in array.to_pylist()]
    except (OverflowError, ValueError):
        return [f"unreadable {type_}"] * len(array)


def _readable_times(array: pa.TimestampArray) -> list[str | None]:
    """ISO texts; a number for a time outside the calendar."""
    unit, zone = array.type.unit, "Z" if array.type.tz else ""
    texts = array.view(pa.timestamp(unit)).cast(pa.string()).to_pylist()
    numbers = array.view(pa.int64()).to_pylist()
    iso = [text and text.replace(" ", "T", 1) + zone for text in texts]
    return [
        f"{number} {unit} since 1970" if text and text.startswith("<") else text
        for text, number in zip(iso, numbers, strict=True)
    ]


def _readable_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dt.date | dt.time | dt.datetime):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    return str(value)
