"""Quantities with units: bandwidths such as "10Mbit" and short times such as "2ms" or "0.5ns"."""

import math
import re
from decimal import Decimal

from shoal.errors import ConfigError, did_you_mean
from shoal.model.query.duration import MICROSECONDS, text_us

_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
BANDWIDTH_UNITS = {
    **{f"{prefix}bit": Decimal(scale) / 8 for prefix, scale in _PREFIXES.items()},
    **{f"{prefix}B": Decimal(scale) for prefix, scale in (_PREFIXES | _BINARY).items()},
}
"""Bytes per second of each unit; the case of letters matters, since Mb could be meant either way."""
TIME_UNITS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
}
"""Seconds of each unit that is kept exactly; longer ones are durations as everywhere in Shoal."""
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[-+]?[0-9]{1,2})?)\s*([A-Za-z]+)")


def bandwidth(value: object, what: str) -> float:
    """A bandwidth in bytes per second; a number is one already.

    >>> bandwidth("10Mbit", "bandwidth"), bandwidth("8MB", "bandwidth"), bandwidth("1 Gbit/s", "bandwidth")
    (1250000.0, 8000000.0, 125000000.0)
    >>> bandwidth("10mbit", "bandwidth")
    Traceback (most recent call last):
    shoal.errors.ConfigError: bandwidth must be a number of bytes per second, or a text such as "10Mbit" or "8MB"; got unit 'mbit' in '10mbit'; did you mean 'Mbit'?
    """  # noqa: E501  (a message is one line)
    expected = f'{what} must be a number of bytes per second, or a text such as "10Mbit" or "8MB"'
    if not isinstance(value, str):
        return _number(value, expected)
    found = _QUANTITY.fullmatch(value.strip().removesuffix("/s"))
    if found is None:
        raise ConfigError(f"{expected}; got {value!r}")
    number, unit = found.groups()
    if unit not in BANDWIDTH_UNITS:
        raise ConfigError(f"{expected}; got unit {unit!r} in {value!r}{_near_unit(unit)}")
    return float(Decimal(number) * BANDWIDTH_UNITS[unit])


def seconds(value: object, what: str) -> float:
    """A time in seconds; a number is one already. Fractions of a microsecond are kept.

    >>> seconds("2ms", "latency"), seconds("0.5ns", "latency"), seconds("1 min 30 s", "latency"), seconds(3, "latency")
    (0.002, 5e-10, 90.0, 3.0)
    >>> seconds("2 msec", "latency")
    Traceback (most recent call last):
    shoal.errors.ConfigError: latency must be a number of seconds, or a text such as "2ms" or "30 s"; got '2 msec'; did you mean 'ms'?
    """  # noqa: E501  (a message is one line)
    expected = f'{what} must be a number of seconds, or a text such as "2ms" or "30 s"'
    if not isinstance(value, str):
        return _number(value, expected)
    found = _QUANTITY.fullmatch(value.strip())
    if found and found[2] in TIME_UNITS:
        return float(Decimal(found[1]) * TIME_UNITS[found[2]])
    us = text_us(value)
    if us is None:
        raise ConfigError(f"{expected}; got {value!r}{did_you_mean(found[2], TIME_UNITS) if found else ''}")
    return us / MICROSECONDS


def _near_unit(unit: str) -> str:
    """The unit that was meant, if it is certain to be one of bits: a guess between bits and bytes is off by eight."""
    bits = [each for each in BANDWIDTH_UNITS if each.endswith("bit")]
    near = did_you_mean(unit, bits) if "bit" in unit.lower() else ""
    return near or f"; units are {', '.join(BANDWIDTH_UNITS)}"


def _number(value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{expected}; got {value!r}")
    try:
        number = float(value)
    except OverflowError as error:
        raise ConfigError(f"{expected}; got one that is too large") from error
    if math.isnan(number):
        raise ConfigError(f"{expected}; got {value!r}")
    return number
