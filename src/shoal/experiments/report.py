"""Reports of experiments: tables for people and data for programs, from the same numbers."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from shoal.experiments.machine import described
from shoal.experiments.variants import MeasuredPoint, Variants

HEADER = (
    "",
    "events",
    "M events/s",
    "smallest-largest",
    "ratio",
    "marker ms",
    "result ms",
    "cpu ns/event",
    "decision us",
    "results",
)


def rows(measured: Sequence[MeasuredPoint]) -> list[list[str]]:
    """One row per point; the ratio is against the first."""
    first = measured[0].events_per_s[0]
    return [_row(each, first) for each in measured]


def _row(each: MeasuredPoint, first: float) -> list[str]:
    middle, low, high = each.events_per_s
    marker = each.middle(lambda outcome: outcome.marker_ms["mean"] if outcome.marker_ms else None)
    result = each.middle(lambda outcome: outcome.latency_ms["mean"] if outcome.latency_ms else None)
    cpu_ns = each.middle(lambda outcome: outcome.cpu_s / outcome.events * 1e9 if outcome.cpu_s is not None else None)
    decision = each.middle(lambda outcome: outcome.decision_us)
    return [
        each.point.label,
        f"{each.outcomes[0].events:,}",
        _number(middle / 1e6),
        f"{_number(low / 1e6)}-{_number(high / 1e6)}",
        f"{middle / first:.2f}" if first else "",
        "" if marker is None else _number(marker),
        "" if result is None else _number(result),
        "" if cpu_ns is None else _number(cpu_ns),
        "" if decision is None else _number(decision),
        each.outcomes[0].oracle,
    ]


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def data(experiment: Variants, measured: Sequence[MeasuredPoint]) -> dict[str, Any]:
    """Everything that was measured, with the machine and the versions it belongs to."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "axis": experiment.axis,
        "machine": described(),
        "points": [
            {
                "label": each.point.label,
                "x": each.point.x,
                "trial": asdict(each.point.trial),
                "events_per_s": dict(zip(("median", "low", "high"), each.events_per_s, strict=True)),
                "outcomes": [asdict(outcome) for outcome in each.outcomes],
            }
            for each in measured
        ],
    }
