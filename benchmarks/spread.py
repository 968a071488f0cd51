"""Repeated measurements as a median and a range."""

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Spread:
    """The median of some measurements, the smallest and the largest."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        kept = sorted(values)
        return cls(statistics.median(kept), kept[0], kept[-1], len(kept))

    def data(self) -> dict[str, Any]:
        return {name: round(value, 6) for name, value in asdict(self).items()}


def text(spread: dict[str, Any] | None) -> str:
    """A spread as people read it: `1.42 (1.39-1.50)`."""
    if spread is None:
        return "-"
    median, low, high = (_short(spread[name]) for name in ("median", "low", "high"))
    return median if spread["n"] == 1 else f"{median} ({low}-{high})"


def _short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
