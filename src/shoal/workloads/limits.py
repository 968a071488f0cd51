"""Limits of what a workload's events can be asked for: settings that make sense, and slices that exist."""

from collections.abc import Collection, Mapping

from shoal.errors import ConfigError

Limits = Mapping[str, tuple[int, int]]
"""The least and the greatest value of every setting that is a number."""

PER_S = (1, 1_000_000_000)
SEED = (0, 2**63 - 1)
START_US = (-(2**61), 2**61)


def check_limits(workload: str, settings: object, limits: Limits, fractional: Collection[str] = ()) -> None:
    """Refuse settings beyond their limits, and those that are no whole numbers unless they may be fractional.

    >>> from types import SimpleNamespace
    >>> check_limits("tides", SimpleNamespace(per_s=0), {"per_s": PER_S})
    Traceback (most recent call last):
    shoal.errors.ConfigError: tides per_s must be a whole number from 1 to 1000000000; got 0
    """
    for name, (low, high) in limits.items():
        value = getattr(settings, name)
        kinds, number = ((int, float), "number") if name in fractional else ((int,), "whole number")
        if not isinstance(value, kinds) or not low <= value <= high:
            raise ConfigError(f"{workload} {name} must be a {number} from {low} to {high}; got {value!r}")


def check_slice(workload: str, start: int, stop: int) -> None:
    """Refuse a batch that ends before it starts, or starts before the stream.

    >>> check_slice("tides", 5, 3)
    Traceback (most recent call last):
    shoal.errors.ConfigError: tides batch needs 0 <= start <= stop; got start 5, stop 3
    """
    if not 0 <= start <= stop:
        raise ConfigError(f"{workload} batch needs 0 <= start <= stop; got start {start}, stop {stop}")
