"""Draws the hotspots of the `geo-pubsub` workload as PNG, beside this file: `python docs/figures/geo_hotspots.py`."""

from pathlib import Path
from typing import get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from shoal.workloads.geo_pubsub.cities import SPACE
from shoal.workloads.geo_pubsub.hotspots import Heat, Scenario
from shoal.workloads.geo_pubsub.points import GeoPoints

HERE = Path(__file__).parent
PER_S = 100_000
TITLES = {
    "none": "none",
    "step": "step, at 15 s",
    "bell": "bell (normal inside), at 20 s",
    "double": "double, at 20 s",
    "consecutive": "consecutive, at 15 s and 25 s",
    "moving": "moving, at 15 s and 25 s",
}
MOMENTS = {"step": (15.0,), "consecutive": (15.0, 25.0), "moving": (15.0, 25.0)}
LINES = (("#1f77b4", "-"), ("#d1495b", "--"))


def density(axes: Axes, points: GeoPoints, moments: tuple[float, ...], title: str) -> None:
    """Half a second of points around each moment, counted per cell of a grid."""
    parts = [points.columns(points.index_at(at - 0.25), points.index_at(at + 0.25)) for at in moments]
    x, y = (np.concatenate([part[name] for part in parts]) for name in ("x", "y"))
    bounds = [(SPACE[0], SPACE[2]), (SPACE[1], SPACE[3])]
    cells, _, _ = np.histogram2d(x, y, bins=(118, 52), range=bounds)
    extent = (SPACE[0], SPACE[2], SPACE[1], SPACE[3])
    axes.imshow(
        np.maximum(cells.T, 0.5), origin="lower", extent=extent, norm=LogNorm(0.5, 2000), cmap="magma", aspect=1.27
    )
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=6)


def shares(axes: Axes, heat: Heat) -> None:
    """The share of every hotspot over event time."""
    times = np.arange(0, 40, 0.1)
    for hotspot, (colour, style) in zip(heat.hotspots, LINES, strict=False):
        percent = [100 * hotspot.share_at(round(at * 1e6)) for at in times]
        axes.plot(times, percent, color=colour, linestyle=style, linewidth=1.2)
    axes.set_ylim(0, 45)
    axes.set_xlim(0, 40)
    axes.tick_params(labelsize=6)
    axes.set_xlabel("event time (s)", fontsize=7)
    axes.set_ylabel("share of points (%)", fontsize=7)


def main() -> None:
    """For every scenario: where points lie, and how large the share of each hotspot is over time."""
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    grid = figure.subplots(4, 3, height_ratios=(3, 1, 3, 1))
    for number, scenario in enumerate(get_args(Scenario)):
        heat = Heat(scenario, spread="normal" if scenario == "bell" else "uniform")
        row, column = divmod(number, 3)
        density(grid[2 * row][column], GeoPoints(heat, PER_S), MOMENTS.get(scenario, (20.0,)), TITLES[scenario])
        shares(grid[2 * row + 1][column], heat)
    figure.savefig(HERE / "geo_hotspots.png", dpi=110)


if __name__ == "__main__":
    main()
