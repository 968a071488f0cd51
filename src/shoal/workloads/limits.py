"""Limits of a workload's settings and of the slices of its events."""

from collections.abc import Collection, Mapping

from shoal.errors import ConfigError

Limits = Mapping[str, tuple[int, int]]
"""The smallest and the largest value of every numeric setting."""

PER_S = (1, 1_000_000_000)
SEED = (0, 2**63 - 1)
START_US = (-(2**61), 2**61)


def check_limits(workload: str, settings: object, limits: Limits, fractional: Collection[str] = ()) -> None:
    """Reject settings beyond their limits, and fractions except for the settings named in `fractional`.

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
    """Reject a batch that ends before it starts, or starts before the stream.

    >>> check_slice("tides", 5, 3)
    Traceback (most recent call last):
    shoal.errors.ConfigError: tides batch needs 0 <= start <= stop; got start 5, stop 3
    """
    if not 0 <= start <= stop:
        raise ConfigError(f"{workload} batch needs 0 <= start <= stop; got start {start}, stop {stop}")
