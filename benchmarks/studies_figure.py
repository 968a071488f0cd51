"""Figures of `studies.py`: latency over time and its distribution, a line per policy."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figure import MUTED, STYLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

LINES: Mapping[str, tuple[str, str, float]] = {
    "single-queue": ("#17202a", ":", 1.1),
    "node-queue": ("#99a3a4", ":", 1.15),
    "round-robin": ("#c0392b", "-", 1.2),
    "partition": ("#e67e22", "-", 1.2),
    "greedy": ("#b7950b", "--", 1.2),
    "metis": ("#7d3c98", "-", 1.2),
    "dynamic-metis": ("#af7ac5", "--", 1.2),
    "two-level": ("#2874a6", "--", 1.8),
    "guarded": ("#58d68d", "-", 4.0),
}
"""Colour, dashes and width: dotted without a binding, solid for static ones, dashed for those that move instances."""
GRID_001 = (("2", "4"), ("5", "7"), ("8", "10"))
"""Figures of the second study by workload: 24 cores, 36 cores."""
TICKS_MS = (1, 10, 100, 1000, 10_000)
Outcome = Mapping[str, Any]


def draw(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Draw all figures of what was found; returns where they are."""
    first = [each for each in outcomes if each["scenario"]["study"] == "000"]
    second = [each for each in outcomes if each["scenario"]["study"] == "001"]
    paths = [folder / "studies_000.png", folder / "studies_001.png", folder / "studies_001_distribution.png"]
    with mpl.rc_context(STYLE):
        _copies(first, paths[0])
        _regions(second, paths[1], over_time)
        _regions(second, paths[2], distribution)
    return paths


def _copies(outcomes: Sequence[Outcome], path: Path) -> None:
    """The first study: a row per figure, latency over time and its distribution."""
    drawing = Figure(figsize=(11, 7), layout="constrained")
    axes = drawing.subplots(2, 2)
    for row, (figure, what) in enumerate((("3", "constant, 220,000 vehicles"), ("4", "rush hour, up to 300,000"))):
        points = [each for each in outcomes if each["scenario"]["figure"] == figure]
        over_time(axes[row, 0], points)
        distribution(axes[row, 1], points)
        axes[row, 0].set_title(f"{what}: latency over time")
        axes[row, 1].set_title("distribution")
        axes[row, 0].set_ylabel("mean latency, ms")
        axes[row, 1].set_ylabel("results below, %")
    axes[1, 0].set_xlabel("seconds")
    axes[1, 1].set_xlabel("latency, ms")
    _finish(drawing, axes[0, 0], path, "150 queries over all events on a simulated machine with 24 cores")


def _regions(outcomes: Sequence[Outcome], path: Path, panel: Any) -> None:
    """The second study: a row per workload, a column per machine and number of vehicles."""
    rows = [[name for figure in figures for name in _names(outcomes, figure)] for figures in GRID_001]
    columns = max(2, *map(len, rows))
    drawing = Figure(figsize=(3.6 * columns, 8.5), layout="constrained")
    axes = drawing.subplots(3, columns, sharey=True)
    for row, scenarios in enumerate(rows):
        for axis in axes[row, len(scenarios) :]:
            axis.set_visible(False)
        for axis, name in zip(axes[row], scenarios, strict=False):
            points = [each for each in outcomes if each["scenario"]["name"] == name]
            panel(axis, points)
            one = points[0]["scenario"]
            cores = len(points[0]["busy"])
            axis.set_title(f"{one['profile']}, {cores} cores, {one['vehicles'] // 1000},000", size=10)
        axes[row, 0].set_ylabel("mean latency, ms" if panel is over_time else "results below, %")
    for axis in axes[-1]:
        axis.set_xlabel("seconds" if panel is over_time else "latency, ms")
    what = "latency over time" if panel is over_time else "distribution of latency"
    _finish(drawing, axes[0, 0], path, f"300 queries by region, simulated machines: {what}")


def _names(outcomes: Iterable[Outcome], figure: str) -> list[str]:
    return list(dict.fromkeys(each["scenario"]["name"] for each in outcomes if each["scenario"]["figure"] == figure))


def over_time(axis: Axes, points: Sequence[Outcome]) -> None:
    """Mean latency of every second."""
    for each in points:
        colour, dashes, width = LINES[each["policy"]]
        shown = [(second + 0.5, value) for second, value in enumerate(each["latency_ms"]) if value]
        axis.plot(*zip(*shown, strict=True), color=colour, ls=dashes, lw=width, zorder=8 - width, label=each["policy"])
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(FixedLocator(TICKS_MS))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_xlim(0)


def distribution(axis: Axes, points: Sequence[Outcome]) -> None:
    """The share of results below every 10 ms."""
    for each in points:
        colour, dashes, width = LINES[each["policy"]]
        total, shares = 0.0, [0.0]
        for share in each["shares"][:-1]:
            total += 100 * share
            shares.append(total)
        limits = [10 * n for n in range(len(shares))]
        axis.plot(limits, shares, color=colour, ls=dashes, lw=width, zorder=8 - width, label=each["policy"])
    axis.set_xticks(range(0, 100, 10))
    axis.set_xlim(0, 90)
    axis.set_ylim(0, 102)


def _finish(drawing: Figure, axis: Axes, path: Path, title: str) -> None:
    handles, labels = axis.get_legend_handles_labels()
    columns = (len(labels) + 1) // 2 if drawing.get_figwidth() < 10 else len(labels)
    drawing.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    drawing.suptitle(title, color=MUTED, size=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=130)
