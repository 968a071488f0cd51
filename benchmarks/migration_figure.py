"""The figure of `migration.py`: what the study on lazy migration compares, a panel each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from figure import MUTED, STYLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

TITLE = "Moving to another host, simulated: 1 Mbit/s; (c), (d) a tenth of rows and bandwidth; (e) 150 kbit/s"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "migration.png"
COLOURS: Mapping[str, str] = {
    "none": "#99a3a4",
    "all-at-once": "#c0392b",
    "meces": "#e67e22",
    "megaphone": "#b7950b",
    "rhino": "#2874a6",
    "lazy-latency": "#28b463",
    "lazy-utility": "#7d3c98",
}
"""Mechanisms in the order in which they are drawn."""
Row = Mapping[str, Any]


def draw(found: Mapping[str, Sequence[Row]]) -> None:
    """Draw all parts."""
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(13, 7.6), layout="constrained")
        axes = drawing.subplots(2, 3)
        join = [row for row in found["join"] if row["at"] == "1.0"]
        _bars(
            axes[0, 0], "(a) join: active, all moved, stalled", "s", _columns(join, ("active_s", "all_s", "frozen_s"))
        )
        _lines(axes[0, 1], "(b) aggregate: delay of windows", found["aggregate"])
        clock = [row for row in found["both"] if row["at"] == "clock"]
        _log_bars(axes[0, 2], "(c) join, then aggregate: delays", _columns(clock, ("joined_s", "totals_s")))
        _lines(axes[1, 0], "(d) the same, short slides: delay of windows", found["slides"])
        _kept(axes[1, 1], "(e) disconnected after 30 s: results kept", found["disconnection"])
        _legend(axes[1, 2])
        drawing.suptitle(TITLE, color=MUTED, size=10)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(FIGURE, dpi=130)


NAMES = {
    "active_s": "active",
    "all_s": "all moved",
    "frozen_s": "stalled",
    "joined_s": "results of the join",
    "totals_s": "windows",
}


def _columns(rows: Sequence[Row], keys: Sequence[str]) -> dict[str, dict[str, float]]:
    """Values by name of the column and mechanism."""
    return {NAMES[key]: {row["mechanism"]: row[key] for row in rows} for key in keys}


def _bars(axis: Axes, title: str, unit: str, columns: Mapping[str, Mapping[str, float]]) -> None:
    names = [name for name in COLOURS if name in next(iter(columns.values()))]
    width = 0.8 / len(names)
    for place, values in enumerate(columns.values()):
        for number, name in enumerate(names):
            at = place + (number - (len(names) - 1) / 2) * width
            axis.bar(at, values[name], width * 0.9, color=COLOURS[name])
            label = f"{values[name]:,.1f}" if values[name] < 100 else f"{values[name]:,.0f}"
            axis.annotate(label, (at, values[name]), (0, 2), textcoords="offset points", ha="center", size=6.5)
    axis.set_xticks(range(len(columns)), list(columns))
    axis.grid(visible=False, axis="x")
    axis.set_ylabel(unit)
    axis.set_title(title)


def _log_bars(axis: Axes, title: str, columns: Mapping[str, Mapping[str, float]]) -> None:
    _bars(axis, title, "sum over results, s", columns)
    _seconds(axis)


def _lines(axis: Axes, title: str, rows: Sequence[Row]) -> None:
    places = list(dict.fromkeys(row["at"] for row in rows))
    for name, colour in COLOURS.items():
        values = [row["totals_s"] for row in rows if row["mechanism"] == name]
        if values:
            axis.plot(range(len(places)), values, "o-", color=colour, lw=1.6, ms=4, clip_on=False)
    axis.set_xticks(range(len(places)), places)
    axis.set_xlabel("slide, ms")
    axis.set_ylabel("sum over results, s")
    axis.set_title(title)
    _seconds(axis)


def _seconds(axis: Axes) -> None:
    """A logarithmic axis that begins with 0."""
    axis.set_yscale("symlog", linthresh=1.0, linscale=0.6)
    axis.set_ylim(0, 3e5)
    axis.set_yticks([0, 1, 10, 100, 1000, 10_000, 100_000])
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _kept(axis: Axes, title: str, rows: Sequence[Row]) -> None:
    places = list(dict.fromkeys(row["at"] for row in rows))
    names = [name for name in COLOURS if any(row["mechanism"] == name for row in rows)]
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        values = [100 * row["kept"] for row in rows if row["mechanism"] == name]
        at = [place + (number - (len(names) - 1) / 2) * width for place in range(len(places))]
        axis.bar(at, values, width * 0.9, color=COLOURS[name])
        for x, value in zip(at, values, strict=True):
            axis.annotate(f"{value:.0f}", (x, value), (0, 2), textcoords="offset points", ha="center", size=7)
    axis.set_xticks(range(len(places)), [f"{float(place):.0%}" for place in places])
    axis.set_xlabel("keys that are touched")
    axis.set_ylabel("%")
    axis.grid(visible=False, axis="x")
    axis.set_title(title)


def _legend(axis: Axes) -> None:
    axis.set_axis_off()
    for name, colour in COLOURS.items():
        shown = "no migration" if name == "none" else name
        axis.bar(0, 0, color=colour, label=shown)
    axis.legend(loc="center left", frameon=False, fontsize=11)
