"""Maps as a picture: some maps of a run side by side, and rates and imbalance over time for one or more runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.control.journal import Mapped
from shoal.errors import ConfigError
from shoal.experiments.maps.course import Course, borders, shares

PANELS = 4
MUTED, INK = "#5d6d7e", "#1c2833"
DARK = 0.5
"""From this share of the work of the busiest tile on, text on a tile is white."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e8e8",
    "axes.axisbelow": True,
}
COLOURS = ("#1b4f72", "#b9770e", "#1e8449", "#943126", "#6c3483", "#117a65", "#873600", "#2e4053")
"""Colours of workers, repeated if there are more."""


def colour_of(worker: int) -> str:
    """The colour of a worker."""
    return COLOURS[worker % len(COLOURS)]


def ink_on(darkness: float) -> str:
    """The colour of text on a tile, by its share of the work of the busiest one."""
    return INK if darkness < DARK else "white"


def draw_maps(courses: Sequence[Course], path: Path) -> None:
    """Draw maps of the first course above, and the rates and the imbalance of all courses over time below."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("maps need matplotlib; pip install matplotlib") from error
    first = courses[0]
    chosen = _spread(first.maps, PANELS)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * max(2, len(chosen)), 7.2), layout="constrained")
        parts: Any = figure.subfigures(2, height_ratios=(1.2, 1))
        above, below = parts
        axes = above.subplots(1, len(chosen), squeeze=False)[0]
        for axis, each in zip(axes, chosen, strict=True):
            _map(axis, each, each.at_s - first.began_s)
        above.suptitle(f"{first.query}, policy {first.policy}: tiles by worker, darker with more work", color=MUTED)
        _lines(below, courses)
        figure.savefig(path, dpi=150, format="png")


def _spread(maps: Sequence[Mapped], most: int) -> list[Mapped]:
    """Some maps, evenly spread from the first to the last."""
    if len(maps) <= most:
        return list(maps)
    return [maps[round(place * (len(maps) - 1) / (most - 1))] for place in range(most)]


def _map(axis: Any, map_: Mapped, second: float) -> None:
    from matplotlib.patches import Rectangle

    part_of = shares(map_)
    largest = max(part_of) or 1.0
    for tile, share in zip(map_.tiles, part_of, strict=True):
        left, low, right, high = borders(map_, tile)
        size = right - left, high - low
        axis.add_patch(
            Rectangle((left, low), *size, facecolor=colour_of(tile.worker), alpha=0.12 + 0.75 * share / largest)
        )
        axis.add_patch(Rectangle((left, low), *size, fill=False, edgecolor="white", linewidth=0.8))
        if size[0] > (map_.space[2] - map_.space[0]) / 12 and size[1] > (map_.space[3] - map_.space[1]) / 12:
            centre = left + size[0] / 2, low + size[1] / 2
            axis.text(*centre, tile.worker, ha="center", va="center", size=8, color=ink_on(share / largest))
    axis.set_xlim(map_.space[0], map_.space[2])
    axis.set_ylim(map_.space[1], map_.space[3])
    axis.grid(visible=False)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(f"{second:.1f} s, {len(map_.tiles)} tiles", size=9, color=MUTED)


def _lines(figure: Any, courses: Sequence[Course]) -> None:
    rates, peaks = figure.subplots(1, 2)
    for place, course in enumerate(courses):
        colour = COLOURS[place % len(COLOURS)]
        rates.plot(course.seconds(), [rate / 1e3 for rate in course.rates()], color=colour, label=course.policy)
        peaks.plot(course.seconds(), course.peaks(), color=colour, label=course.policy)
    rates.set_ylabel("thousand points and ranges per second")
    peaks.set_ylabel("busiest worker / mean")
    rates.set_ylim(bottom=0)
    peaks.set_ylim(bottom=0.9)
    for axis in (rates, peaks):
        axis.set_xlabel("seconds")
        axis.legend(frameon=False)
