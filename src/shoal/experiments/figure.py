"""Figures of experiments, drawn from their data alone; matplotlib is imported only for this."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

INK, SHADE, MUTED, WARM = "#1b4f72", "#aed6f1", "#5d6d7e", "#b9770e"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e8e8",
    "axes.axisbelow": True,
}


def draw(found: Mapping[str, Any], path: Path) -> None:
    """A picture of an experiment: bars, a line along an axis, or a timeline."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("figures need matplotlib; pip install matplotlib") from error
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        if found["experiment"] == "dynamic":
            _course(figure, found["points"][0])
        elif found["axis"]:
            _line(figure, found["points"], found["axis"])
        else:
            _bars(figure, found["points"])
        figure.suptitle(f"{found['title']}; {found['machine']['cores']} cores", color=MUTED, size=10)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _bars(figure: Any, points: Sequence[Mapping[str, Any]]) -> None:
    axis = figure.subplots()
    labels = [point["label"] for point in points]
    rates = [point["events_per_s"]["median"] / 1e6 for point in points]
    spread = [
        [rate - point["events_per_s"]["low"] / 1e6 for rate, point in zip(rates, points, strict=True)],
        [point["events_per_s"]["high"] / 1e6 - rate for rate, point in zip(rates, points, strict=True)],
    ]
    bars = axis.barh(labels, rates, color=SHADE, edgecolor=INK, xerr=spread, ecolor=MUTED)
    axis.bar_label(bars, [f" {rate:.3g}" for rate in rates], color=INK)
    axis.invert_yaxis()
    axis.set_xlim(0, max(rates) * 1.2)
    axis.set_xlabel("million events per second: median and range")


def _line(figure: Any, points: Sequence[Mapping[str, Any]], label: str) -> None:
    axis = figure.subplots()
    x = [point["x"] for point in points]
    rates = [point["events_per_s"] for point in points]
    axis.fill_between(
        x, [r["low"] / 1e6 for r in rates], [r["high"] / 1e6 for r in rates], color=SHADE, alpha=0.5, lw=0
    )
    axis.plot(x, [r["median"] / 1e6 for r in rates], "o-", color=INK)
    if max(x) / max(min(x), 1) > 50:
        axis.set_xscale("log")
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.minorticks_off()
    axis.set_ylim(0, max(r["high"] for r in rates) / 1e6 * 1.2)
    axis.set_xlabel(label)
    axis.set_ylabel("million events per second")


def _course(figure: Any, point: Mapping[str, Any]) -> None:
    above, below = figure.subplots(2, sharex=True)
    for outcome in point["outcomes"]:
        seconds, rates, latencies = zip(*outcome["timeline"], strict=True)
        above.plot(seconds, [rate / 1e6 for rate in rates], color=INK)
        below.plot(seconds, latencies, color=WARM)
    above.set_ylabel("million events/s")
    above.set_ylim(bottom=0)
    below.set_ylabel("marker latency, ms")
    below.set_yscale("log")
    below.set_xlabel("seconds")
