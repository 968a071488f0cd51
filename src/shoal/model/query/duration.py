"""Durations: numbers of seconds, `timedelta`s, and texts that name their unit, such as "1 h" or "1 h 30 min"."""

import math
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real

from shoal.errors import GraphError

MICROSECONDS = 1_000_000
Duration = float | str | timedelta
"""A number is in seconds; a text names the unit of each of its numbers."""
_UNITS_US = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "second", "seconds"), MICROSECONDS),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * MICROSECONDS),
    **dict.fromkeys(("h", "hour", "hours"), 3_600 * MICROSECONDS),
    **dict.fromkeys(("d", "day", "days"), 86_400 * MICROSECONDS),
    **dict.fromkeys(("w", "week", "weeks"), 604_800 * MICROSECONDS),
}
_TERM = r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)"
_TEXT = re.compile(rf"(-?)\s*((?:{_TERM}\s*)+)")
FORMS = 'a number of seconds, a timedelta, or a text such as "90 s", "1 h" or "2 days"'


def duration_us(value: object, what: str) -> int:
    """A duration in microseconds, of any sign; `what` begins the message about a value that is none.

    >>> from datetime import timedelta
    >>> duration_us(1.5, "size"), duration_us("1 h 30 min", "size"), duration_us(timedelta(days=1), "size")
    (1500000, 5400000000, 86400000000)
    >>> duration_us("one day", "window size")
    Traceback (most recent call last):
    shoal.errors.GraphError: window size must be a number of seconds, a timedelta, or a text such as "90 s", "1 h" or "2 days"; got 'one day'
    """  # noqa: E501  (a message is one line)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, str):
        found = text_us(value)
        if found is not None:
            return found
    elif not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value):
        exact = value if isinstance(value, int | float | Fraction) else float(value)
        return round(exact * MICROSECONDS)
    raise GraphError(f"{what} must be {FORMS}; got {value!r}")


def text_us(text: str) -> int | None:
    """The microseconds of a text such as "1 h"; None if it is no duration.

    >>> text_us("250ms"), text_us("-5 s"), text_us("10"), text_us("a while")
    (250000, -5000000, None, None)
    """
    found = _TEXT.fullmatch(text.strip().lower())
    terms = re.findall(_TERM, found[2]) if found else []
    if found is None or any(unit not in _UNITS_US for _, unit in terms):
        return None
    total = sum(Decimal(number) * _UNITS_US[unit] for number, unit in terms)
    return round(-total if found[1] else total)
