"""Conversion: a column as the type its stream declares; a value that does not fit becomes null.

| declared  | accepted |
|---|---|
| int64     | integers; floats and decimals without a fraction; booleans; texts like `-12`, `+12`, `12.0` |
| float64   | floats; integers and decimals; booleans; texts like `1.5`, `-2e3`, `inf` |
| bool      | booleans; the numbers 0 and 1; the texts `true`, `false`, `1`, `0` in any case |
| string    | texts and bytes in UTF-8; numbers, booleans, dates and times as their text |
| timestamp | times of any unit and zone, cut to microseconds; dates; integers as microseconds since 1970, or in another unit if one is given; texts in ISO 8601, extended or basic (`20170601T000011Z`), in UTC unless they name an offset; integers as texts |

Integers must fit into an int64, and lie within 2**53 of zero where a float64 is declared, so that nothing is
rounded. Spaces around a text are ignored where a number, a boolean or a time is declared.
Whether a value fits does not depend on its neighbours.
"""  # noqa: E501  (a table's row is one line)

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TimeUnit = Literal["s", "ms", "us", "ns"]
"""What an integer counts where a time is declared, since 1970."""
WHOLE_NUMBER = r"^-?[0-9]+$"
Way = Callable[[pa.Array], pa.Array]
"""Converts all values of an array, or raises one of Arrow's errors."""

_LARGEST_INT = (1 << 63) - 1
_LARGEST_EXACT_FLOAT = 1 << 53
_INT_EDGE = 2.0**63
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_ROWS_TO_GUESS_FROM = 100

_WHOLE = r"^\+?(-?[0-9]+)(?:\.0*)?$"
_FINE_FRACTION = r"(\.[0-9]{6})[0-9]+"
_DATE = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"[T ](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)?"
_BASIC = r"^([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})"
_OFFSET = "(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"


def converted(array: pa.Array, wanted: pa.DataType, unit: TimeUnit = "us") -> pa.Array:
    """The column as another type; a dictionary of texts stays one. `unit`: that of integers where times are wanted.

    >>> converted(pa.array(["7", " 8.0", "x", None]), pa.int64()).to_pylist()
    [7, 8, None, None]
    """
    array = _plain(array)
    given = array.type
    if pa.types.is_dictionary(given):
        return _by_entry(array, wanted, unit)
    if pa.types.is_string(given):
        return _valid(array) if pa.types.is_string(wanted) else _parsed(array, wanted, unit)
    if pa.types.is_binary(given):
        return converted(_by_distinct(array, _cast_to(pa.string()), pa.string()), wanted, unit)
    return array if given == wanted else _from_values(array, wanted, unit)


def _plain(array: pa.Array) -> pa.Array:
    """The same values without the layouts that few of Arrow's functions accept."""
    type_ = array.type
    if isinstance(type_, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(type_):
        return _plain(pc.run_end_decode(array))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return array.cast(pa.string())
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_binary_view(type_):
        return array.cast(pa.binary())
    return array


def _by_entry(array: pa.DictionaryArray, wanted: pa.DataType, unit: TimeUnit) -> pa.Array:
    """Only the entries are converted; texts stay a dictionary unless an entry is lost."""
    entries = converted(array.dictionary, wanted, unit)
    if pa.types.is_string(entries.type) and not entries.null_count:
        return array if entries is array.dictionary else pa.DictionaryArray.from_arrays(array.indices, entries)
    return entries.take(array.indices)


def _valid(texts: pa.Array) -> pa.Array:
    """Texts, null where they are not UTF-8: Arrow does not check when it reads a file."""
    _, offsets, content = texts.buffers()
    if content is None or not len(texts):
        return texts
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    if first == last or np.frombuffer(content, np.uint8)[first:last].max() < 128:
        return texts
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _by_distinct(texts.view(pa.binary()), _cast_to(pa.string()), pa.string())
    return texts


def _from_values(array: pa.Array, wanted: pa.DataType, unit: TimeUnit) -> pa.Array:
    """Convert values that are not texts; those that Arrow would reject or change become nulls first."""
    given = array.type
    if pa.types.is_temporal(given) and not (pa.types.is_timestamp(wanted) or pa.types.is_string(wanted)):
        return pa.nulls(len(array), wanted)
    if pa.types.is_boolean(wanted):
        return _zero_or_one(array)
    if pa.types.is_floating(given) and pa.types.is_integer(wanted):
        array = _where_whole(array)
    elif pa.types.is_integer(given) and pa.types.is_floating(wanted):
        array = _between(array, -_LARGEST_EXACT_FLOAT, _LARGEST_EXACT_FLOAT)
    elif pa.types.is_uint64(given):
        array = _between(array, 0, _LARGEST_INT)
    way = partial(_as_times, unit=unit) if pa.types.is_timestamp(wanted) else _cast_to(wanted)
    at_once = _at_once(array, way)
    return _by_distinct(array, way, wanted) if at_once is None else at_once


def _between(array: pa.Array, low: int, high: int) -> pa.Array:
    """The integers within the limits, null for all others; limits are clipped to the range of the type."""
    info = np.iinfo(array.type.to_pandas_dtype())
    low, high = max(low, int(info.min)), min(high, int(info.max))
    inside = pc.and_(
        pc.greater_equal(array, pa.scalar(low, array.type)), pc.less_equal(array, pa.scalar(high, array.type))
    )
    return pc.if_else(inside, array, pa.scalar(None, array.type))


def _where_whole(array: pa.Array) -> pa.Array:
    floats = array.cast(pa.float64())
    inside = pc.and_(pc.greater_equal(floats, -_INT_EDGE), pc.less(floats, _INT_EDGE))
    fits = pc.and_(inside, pc.equal(pc.floor(floats), floats))
    return pc.if_else(fits, floats, pa.scalar(None, pa.float64()))


def _zero_or_one(array: pa.Array) -> pa.Array:
    numbers = _at_once(array, lambda values: values.cast(pa.float64(), safe=False))
    if numbers is None:
        return pa.nulls(len(array), pa.bool_())
    known = pc.or_(pc.equal(numbers, 0.0), pc.equal(numbers, 1.0))
    return pc.if_else(known, pc.equal(numbers, 1.0), pa.scalar(None, pa.bool_()))


def _as_times(values: pa.Array, unit: TimeUnit) -> pa.Array:
    """Times of any unit and zone, dates, and integers of a given unit, as microseconds in UTC."""
    if pa.types.is_integer(values.type):
        values = values.cast(pa.int64()).view(pa.timestamp(unit))
    if pa.types.is_timestamp(values.type):
        unit = values.type.unit
        most = _LARGEST_INT // _MICROSECONDS[unit]
        values = _between(values.view(pa.int64()), -most, most).view(pa.timestamp(unit))
    return pc.cast(values, options=pc.CastOptions(pa.timestamp("us"), allow_time_truncate=True))


def _parsed(texts: pa.Array, wanted: pa.DataType, unit: TimeUnit) -> pa.Array:
    """Texts as numbers, booleans or times: all at once if possible, else by the form of each text."""
    timed = pa.types.is_timestamp(wanted)
    at_once = _at_once(texts, _from_zoned if timed and _names_offset(texts) else _cast_to(wanted))
    if at_once is not None:
        return at_once
    tidy = pc.utf8_trim_whitespace(_valid(texts))
    if timed:
        tidy = _extended(pc.replace_substring_regex(tidy, _FINE_FRACTION, r"\1"))
    elif pa.types.is_integer(wanted):
        tidy = pc.replace_substring_regex(tidy, _WHOLE, r"\1")
    result = pa.nulls(len(tidy), wanted)
    for form, way in _forms(wanted, unit):
        matches = pc.match_substring_regex(tidy, form)
        result = pc.replace_with_mask(result, matches, _salvaged(tidy.filter(matches), way, wanted))
    return result


def _extended(texts: pa.Array) -> pa.Array:
    """Times in ISO's basic format as the extended one, which Arrow reads."""
    seconds = rf"([0-9]{{2}})(\.[0-9]+)?({_OFFSET}?)$"
    texts = pc.replace_substring_regex(texts, _BASIC + seconds, r"\1-\2-\3T\4:\5:\6\7\8")
    return pc.replace_substring_regex(texts, f"{_BASIC}({_OFFSET}?)$", r"\1-\2-\3T\4:\5\6")


def _forms(wanted: pa.DataType, unit: TimeUnit) -> list[tuple[str, Way]]:
    """Patterns for texts of a type, and how to read each; no text matches two."""
    if pa.types.is_timestamp(wanted):
        return [
            (WHOLE_NUMBER, lambda texts: _as_times(texts.cast(pa.int64()), unit)),
            (f"^{_DATE}{_CLOCK}{_OFFSET}$", _from_zoned),
            (f"^{_DATE}(?:{_CLOCK})?$", _cast_to(wanted)),
        ]
    if pa.types.is_boolean(wanted):
        return [(r"(?i)^(?:true|false|1|0)$", _cast_to(wanted))]
    if pa.types.is_integer(wanted):
        return [(r"^-?[0-9]+$|^-?0[xX][0-9a-fA-F]+$", _cast_to(wanted))]
    return [(r"(?i)^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf|infinity)$", _cast_to(wanted))]


def _names_offset(texts: pa.Array) -> bool:
    """Whether the first text is a time with an offset; a wrong guess only costs time."""
    first = texts[:_ROWS_TO_GUESS_FROM].drop_null()[:1]
    return bool(pc.any(pc.match_substring_regex(first, f"{_OFFSET}$")).as_py())


def _from_zoned(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))


def _cast_to(wanted: pa.DataType) -> Way:
    return lambda values: values.cast(wanted)


def _at_once(values: pa.Array, way: Way) -> pa.Array | None:
    try:
        return way(values)
    except pa.ArrowException:
        return None


def _by_distinct(array: pa.Array, way: Way, wanted: pa.DataType) -> pa.Array:
    try:
        distinct = array.dictionary_encode()
        way(distinct.dictionary[:0])
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(array), wanted)
    return _salvaged(distinct.dictionary, way, wanted).take(distinct.indices)


def _salvaged(values: pa.Array, way: Way, wanted: pa.DataType) -> pa.Array:
    """Halve the array until each value that does not fit is alone: few bad values cost few attempts."""
    at_once = _at_once(values, way)
    if at_once is not None:
        return at_once
    if len(values) == 1:
        return pa.nulls(1, wanted)
    middle = len(values) // 2
    return pa.concat_arrays([_salvaged(values[:middle], way, wanted), _salvaged(values[middle:], way, wanted)])
