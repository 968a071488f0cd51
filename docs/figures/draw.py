"""Draws the figures of the documentation as SVG and PNG, beside this file: `python docs/figures/draw.py`."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
INK, SOFT = "#1f2933", "#52606d"
BLUE, SAND, GREEN, GREY, WHITE = "#d9e8f6", "#f7ecd0", "#dcefdc", "#eef1f4", "#ffffff"
STATE = "#f2c14e"


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty sheet measured in units of a tenth of an inch."""
    figure = Figure(figsize=(width / 10, height / 10))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, fill: str, edge: str = SOFT) -> None:
    """A rounded box by its lower left corner."""
    style = "round,pad=0,rounding_size=0.8"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=fill, edgecolor=edge, linewidth=1))


def text(axes: Axes, x: float, y: float, words: str, size: float = 9, **how: object) -> None:
    """Centred words unless told otherwise."""
    axes.text(x, y, words, **{"ha": "center", "va": "center", "fontsize": size, "color": INK, **how})  # type: ignore[arg-type]


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **how: object) -> None:
    """An arrow from point to point."""
    chosen = {"arrowstyle": "-|>", "mutation_scale": 11, "color": SOFT, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, **{**chosen, **how}))  # type: ignore[arg-type]


def stage(axes: Axes, x: float, width: float, title: str, where: str, fill: str, lines: list[str]) -> None:
    """A column of the pipeline: a title, where it runs, and what it does."""
    box(axes, x, 17, width, 25, fill)
    text(axes, x + width / 2, 39.4, title, 10.5, weight="bold")
    text(axes, x + width / 2, 36.6, where, 8, color=SOFT, style="italic")
    for number, line in enumerate(lines):
        text(axes, x + width / 2, 32.7 - 2.75 * number, line, 8.6)


def pipeline() -> Figure:
    """One epoch, from the sources to the sinks."""
    figure, axes = canvas(114, 48)
    text(axes, 57, 45.7, "one epoch = one micro-batch of Spark Structured Streaming", 9.5, color=SOFT)
    box(axes, 1, 21, 13, 17, GREY)
    text(axes, 7.5, 35.3, "sources", 10.5, weight="bold")
    for number, line in enumerate(["Parquet, Arrow,", "CSV files", "generators", "your DataFrames"]):
        text(axes, 7.5, 31.6 - 2.75 * number, line, 8.6)
    prework = [
        "check rows, set bad ones aside",
        "filter, select, look up",
        "find each row's instance",
        "aggregate into panes",
        "send on panes and results",
    ]
    routing = ["by the epoch's binding:", "instance → worker", "row = (worker, lane,", "Arrow payload)"]
    work = [
        "load state of epoch n - 1",
        "merge the partial panes",
        "close windows, answer",
        "write state of epoch n",
        "measure each instance",
    ]
    commit = ["results to the sinks", "manifest of epoch n", "clean up", "take commands:", "rebind, add, remove"]
    stage(axes, 18, 23, "read + pre-work", "Python task per slice", BLUE, prework)
    stage(axes, 45, 17, "exchange", "Spark shuffle", GREY, routing)
    stage(axes, 66, 23, "stateful work", "Python task per worker", SAND, work)
    stage(axes, 93, 20, "commit", "driver", GREEN, commit)
    for start, end in ((14, 18), (41, 45), (62, 66), (89, 93)):
        arrow(axes, (start + 0.3, 29.5), (end - 0.2, 29.5))
    box(axes, 18, 2, 95, 9, WHITE)
    text(axes, 20, 8.4, "checkpoint directory", 9.5, weight="bold", ha="left")
    kept = "plans/   what an epoch will do        state/   segments per worker and epoch        epochs/   manifests"
    text(axes, 65.5, 4.9, kept, 8.6)
    arrow(axes, (29.5, 11.2), (29.5, 16.8))
    arrow(axes, (77.5, 11.2), (77.5, 16.8), arrowstyle="<|-|>")
    arrow(axes, (103, 16.8), (103, 11.2))
    text(axes, 30.4, 14, "plan of epoch n", 8, color=SOFT, ha="left")
    text(axes, 78.4, 14, "state", 8, color=SOFT, ha="left")
    text(axes, 102, 14, "manifest n, plan n + 1", 8, color=SOFT, ha="right")
    return figure


def worker(axes: Axes, x: float, y: float, name: str, instances: list[str]) -> None:
    """A worker with the instances bound to it."""
    box(axes, x, y, 24, 9, SAND)
    text(axes, x + 1.4, y + 7, name, 8.6, ha="left", color=SOFT)
    for number, instance in enumerate(instances):
        moved = instance == "c"
        box(axes, x + 1.6 + 7 * number, y + 1.3, 6, 4, STATE if moved else WHITE, INK if moved else SOFT)
        text(axes, x + 4.6 + 7 * number, y + 3.3, instance, 9.5, weight="bold" if moved else "normal")


def rebind() -> Figure:
    """How instance c gets from worker 0 to worker 1 between two epochs."""
    figure, axes = canvas(92, 41)
    for x, title, binding in ((2, "epoch n", "c → worker 0"), (66, "epoch n + 1", "c → worker 1")):
        text(axes, x + 12, 38.6, title, 11, weight="bold")
        text(axes, x + 12, 35.8, f"plan: {binding}", 8.6, color=SOFT)
    worker(axes, 2, 24, "worker 0", ["a", "b", "c"])
    worker(axes, 2, 12, "worker 1", ["d", "e"])
    worker(axes, 66, 24, "worker 0", ["a", "b"])
    worker(axes, 66, 12, "worker 1", ["d", "e", "c"])
    box(axes, 34, 12, 24, 21, WHITE)
    text(axes, 46, 30.6, "state store", 10, weight="bold")
    box(axes, 36, 23.4, 20, 4.6, STATE, INK)
    text(axes, 46, 25.7, "segment n, worker 0: a b c", 8.4)
    box(axes, 36, 16.6, 20, 4.6, GREY)
    text(axes, 46, 18.9, "segment n, worker 1: d e", 8.4)
    text(axes, 46, 14, "immutable files", 8, color=SOFT, style="italic")
    arrow(axes, (26.3, 27.5), (35.7, 26.2))
    arrow(axes, (26.3, 16.5), (35.7, 18.4))
    arrow(axes, (56.3, 26.4), (65.7, 28.5))
    arrow(axes, (56.3, 24.6), (65.7, 18.2), color="#b8860b", linewidth=2)
    arrow(axes, (56.3, 18.4), (65.7, 16))
    text(axes, 30.6, 29.4, "write", 8, color=SOFT)
    text(axes, 61.6, 30.2, "read", 8, color=SOFT)
    words = "A move is one changed number in the next plan. Worker 1 reads c from the segment that worker 0 wrote,"
    text(axes, 46, 6.6, words, 8.8)
    words = "and writes it to a segment of its own. The stream does not stop, no row is held back, no result changes."
    text(axes, 46, 3.6, words, 8.8)
    return figure


def main() -> None:
    """Write every figure in both formats; the same code gives the same bytes."""
    mpl.rcParams.update({"font.family": "DejaVu Sans", "svg.fonttype": "path", "svg.hashsalt": "shoal"})
    for draw in (pipeline, rebind):
        figure = draw()
        figure.savefig(HERE / f"{draw.__name__}.svg", metadata={"Date": None})
        figure.savefig(HERE / f"{draw.__name__}.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
