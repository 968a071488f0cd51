"""Figures, drawn from kept measurements alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

INK, SHADE, MUTED = "#1b4f72", "#aed6f1", "#5d6d7e"
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e8e8",
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
}
AXES = {
    "queries": ("queries", "number of queries"),
    "workers": ("workers", "number of workers"),
    "events": ("events_per_epoch", "events per epoch"),
}


def scaling(results: Sequence[Mapping[str, Any]], machine: Mapping[str, Any], path: Path) -> None:
    """Epoch time against queries, workers and events."""
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(12, 4), layout="constrained")
        axes = drawing.subplots(1, 3)
        for axis, (varied, (column, label)) in zip(axes, AXES.items(), strict=True):
            _axis(axis, [result for result in results if result["varied"] == varied], column)
            axis.set_xlabel(label)
            axis.set_title(_fixed(results, varied))
        axes[0].set_ylabel("time of an epoch, ms")
        drawing.suptitle(
            f"traffic on Spark, {machine['cores']} cores: median and range of epochs", color=MUTED, size=10
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=150)


def _axis(axis: Axes, results: Sequence[Mapping[str, Any]], column: str) -> None:
    x = [result[column] for result in results]
    spreads = [result["epoch_ms"] for result in results]
    axis.fill_between(x, [s["low"] for s in spreads], [s["high"] for s in spreads], color=SHADE, alpha=0.5, lw=0)
    axis.plot(x, [s["median"] for s in spreads], "o-", color=INK)
    axis.set_xscale("log")
    axis.set_ylim(0, 1.2 * max(s["high"] for s in spreads))
    axis.xaxis.set_major_locator(FixedLocator(x))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    for at, spread in zip(x, spreads, strict=True):
        offset = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
        label = axis.annotate(f"{spread['median']:.0f}", (at, spread["median"]), color=INK, **offset)
        label.set_path_effects([withStroke(linewidth=3, foreground="white")])


def _fixed(results: Sequence[Mapping[str, Any]], varied: str) -> str:
    """What stays as it is while one thing varies."""
    first = next(result for result in results if result["varied"] == varied)
    parts = {
        "queries": f"{first['queries']} queries",
        "workers": f"{first['workers']} worker{'s' if first['workers'] > 1 else ''}",
        "events": f"{_short(first['events_per_epoch'])} events",
    }
    return ", ".join(text for name, text in parts.items() if name != varied)


def _short(number: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def soak(measured: Mapping[str, Any], series: Mapping[str, str], machine: Mapping[str, Any], path: Path) -> None:
    """Every series over time; the shaded first third is not judged."""
    samples = measured["samples"]
    minutes = [sample["at_s"] / 60 for sample in samples]
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(9, 1.45 * len(series)), layout="constrained")
        axes = drawing.subplots(len(series), 1, sharex=True)
        for axis, (name, title) in zip(axes, series.items(), strict=True):
            values = [sample[name] for sample in samples]
            axis.axvspan(0, minutes[len(minutes) // 3], color="#f4f6f6", lw=0)
            axis.plot(minutes, values, color=INK, lw=1.2)
            axis.set_ylim(0, 1.15 * max(values) or 1)
            axis.set_title(title)
        axes[-1].set_xlabel("minutes")
        axes[-1].set_xlim(0, minutes[-1])
        workload = measured.get("workload", "traffic")
        heading = f"{workload} on Spark at a fixed rate, {machine['cores']} cores; the grey part is not judged"
        drawing.suptitle(heading, color=MUTED, size=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=130)


def window_growth(results: Sequence[Mapping[str, Any]], machine: Mapping[str, Any], path: Path) -> None:
    """CPU time of an event against the rows in a window, a panel per case; a line grows as the window does."""
    titles = list(dict.fromkeys(result["title"] for result in results))
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(3.2 * len(titles), 3.8), layout="constrained")
        for axis, title in zip(drawing.subplots(1, len(titles)), titles, strict=True):
            found = [result for result in results if result["title"] == title]
            x = [result["window_rows"] for result in found]
            spreads = [result["us_per_event"] for result in found]
            lows, medians, highs = ([spread[name] for spread in spreads] for name in ("low", "median", "high"))
            axis.plot(x, [medians[0] * size / x[0] for size in x], "--", color=MUTED, lw=1)
            axis.fill_between(x, lows, highs, color=SHADE, alpha=0.5, lw=0)
            axis.plot(x, medians, "o-", color=INK)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_ylim(0.4 * min(lows), 100 * min(lows))  # the same number of decades everywhere: slopes compare
            axis.set_xlim(x[0] / 1.7, x[-1] * 1.7)
            axis.xaxis.set_major_locator(FixedLocator(x[::2]))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel("rows in the window")
            axis.set_title(title)
            for at, median in list(zip(x, medians, strict=True))[:: len(x) - 1 or 1]:
                offset = {"xytext": (0, -15), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
                axis.annotate(f"{median:.3g}", (at, median), color=INK, **offset)
        drawing.axes[0].set_ylabel("CPU time of an event, us")
        heading = f"kernels in one process, {machine['cores']} cores: median and range; dashed: as the window grows"
        drawing.suptitle(heading, color=MUTED, size=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, dpi=130)
