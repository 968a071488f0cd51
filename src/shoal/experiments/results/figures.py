"""Figures of experiments, drawn from their summaries alone; matplotlib is imported only for this.

Bars and lines show medians with the interval of each, stacks medians; a series shows one repetition of every point over
time. On a page
the colour of text and axes is that of the page, so that figures are readable on any background.
"""

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec

from shoal.errors import ConfigError
from shoal.experiments.experiment import FigureSpec, Scalar
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary, label, varying
from shoal.experiments.results.tables import number as number_text
from shoal.experiments.results.tables import text_of

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a6d3b", "#7f7f7f")
"""Distinct also for those who see fewer colours (Okabe and Ito)."""
DASHES = ("-", "--", ":")
"""Lines beyond the last colour are dashed."""
INK = "#333334"
"""The colour of text and axes; a page replaces it by its own."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "shoal",
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
GAP = 0.7
"""Between bars of different x, as a share of a bar."""
STYLE_NUMBER = 3
"""Changes with the look of figures, so that pictures of an earlier look are drawn again."""
TITLE_CHARACTERS = 95
LOG_FROM = 50
"""An axis is logarithmic if its largest value is so many times the smallest."""


def drawable(summary: ExperimentSummary, spec: FigureSpec) -> bool:
    """Whether there is anything to draw: points that are right and have the metric or the series."""
    return bool(_points(summary, spec))


def svg(summary: ExperimentSummary, spec: FigureSpec) -> str:
    """A figure for a page: the element alone, with the page's colour of text."""
    target = io.StringIO()
    _save(summary, spec, target, format="svg", transparent=True, metadata={"Date": None})
    text = target.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def png(summary: ExperimentSummary, spec: FigureSpec, path: Path) -> None:
    """A figure as a picture, which knows what it was drawn from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _save(summary, spec, path, dpi=110, metadata={"Software": None, "Source": _source(summary, spec)})


def is_drawn(summary: ExperimentSummary, spec: FigureSpec, path: Path) -> bool:
    """Whether a picture was drawn from just this."""
    return path.is_file() and f"Source\0{_source(summary, spec)}".encode() in path.read_bytes()


def _source(summary: ExperimentSummary, spec: FigureSpec) -> str:
    """The digest of all that a figure shows."""
    shown = [
        (point.label, {name: point.metrics.get(name) for name in _stacked([point], spec)}, point.series)
        if spec.type == "stack"
        else (point.label, point.metrics.get(spec.y), point.series)
        for point in _points(summary, spec)
    ]
    told = msgspec.json.encode([STYLE_NUMBER, summary.title, spec, shown])
    return hashlib.sha256(told).hexdigest()[:16]


def _save(summary: ExperimentSummary, spec: FigureSpec, target: Any, **options: Any) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("figures need matplotlib; pip install matplotlib") from error
    draw: Mapping[str, Callable[[Any, Sequence[PointSummary], FigureSpec], None]] = {
        "bars": _bars,
        "lines": _lines,
        "series": _series,
        "stack": _stack,
    }
    points = _points(summary, spec)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, _height(points, spec)), layout="constrained")
        draw[spec.type](figure, points, spec)
        figure.suptitle("\n".join(wrap(spec.title or summary.title, TITLE_CHARACTERS)), size=10)
        figure.savefig(target, **options)


def _points(summary: ExperimentSummary, spec: FigureSpec) -> list[PointSummary]:
    right = [point for point in summary.points if point.verdict.right]
    if spec.type == "series":
        return [point for point in right if point.series.get(spec.y.partition(".")[0])]
    if spec.type == "stack":
        return [point for point in right if _stacked([point], spec)]
    return [point for point in right if spec.y in point.metrics]


def _stacked(points: Sequence[PointSummary], spec: FigureSpec) -> list[str]:
    """The metrics of a stack, in the order in which they were measured."""
    return list(dict.fromkeys(name for point in points for name in point.metrics if name.startswith(f"{spec.y}.")))


def _height(points: Sequence[PointSummary], spec: FigureSpec) -> float:
    if spec.type in ("bars", "stack"):
        return 1.3 + 0.34 * len(points)
    if spec.type == "series":
        panels = len(_groups(points, spec.by)) * len(_columns(points, spec))
        return (1.4 if panels > 1 else 2.2) + 1.8 * panels
    return 4.0


def _groups(points: Sequence[PointSummary], by: str) -> dict[str, list[PointSummary]]:
    found: dict[str, list[PointSummary]] = {}
    for point in points:
        found.setdefault(f"{point.parameters.get(by)}" if by else "", []).append(point)
    return found


def _spread(points: Sequence[PointSummary], metric: str) -> tuple[list[float], list[list[float]]]:
    """Medians, and how far each interval reaches to both sides."""
    samples = [sample for point in points if (sample := point.sample(metric))]
    middles = [sample.median for sample in samples]
    below = [sample.median - sample.interval.low for sample in samples]
    above = [sample.interval.high - sample.median for sample in samples]
    return middles, [below, above]


def _bars(figure: Any, points: Sequence[PointSummary], spec: FigureSpec) -> None:
    """Horizontal bars, so that names have room; one colour for each value of `by`, side by side where x is the same."""
    axis = figure.subplots()
    names = {point.label: f"{point.parameters.get(spec.x)}" if spec.x else point.label for point in points}
    beside = bool(spec.x and spec.by and len(set(names.values())) < len(points))
    ordered = [point for several in _groups(points, spec.x).values() for point in several] if beside else points
    places: dict[str, float] = {}
    for before, point in zip([None, *ordered], ordered, strict=False):
        apart = beside and before is not None and names[before.label] != names[point.label]
        places[point.label] = max(places.values(), default=-1.0) + (1.0 + GAP * apart)
    for number, (group, members) in enumerate(_groups(points, spec.by).items()):
        middles, spread = _spread(members, spec.y)
        where = [places[point.label] for point in members]
        colour = COLOURS[number % len(COLOURS)]
        bars = axis.barh(where, middles, color=colour, alpha=0.75, xerr=spread, ecolor=INK, label=group or None)
        axis.bar_label(bars, [f" {number_text(middle)}" for middle in middles], size=9)
    ticks: dict[str, list[float]] = {}
    for point in ordered:
        ticks.setdefault(names[point.label] if beside else point.label, []).append(places[point.label])
    texts = list(ticks) if beside else [names[label] for label in ticks]
    axis.set_yticks([sum(where) / len(where) for where in ticks.values()], texts)
    axis.invert_yaxis()
    axis.margins(x=0.18)
    if axis.get_xlim()[0] > 0 or min(_spread(points, spec.y)[0]) >= 0:
        axis.set_xlim(left=0.0)
    axis.set_xlabel(_words(spec.y))
    if beside:
        axis.set_ylabel(_words(spec.x))
    if spec.by:
        figure.legend(title=spec.by, loc="outside lower center", ncols=3, fontsize=8)


def _stack(figure: Any, points: Sequence[PointSummary], spec: FigureSpec) -> None:
    """One horizontal bar for every point, of the medians of several metrics."""
    axis = figure.subplots()
    ends = [0.0] * len(points)
    for number, name in enumerate(_stacked(points, spec)):
        lengths = [sample.median if (sample := point.sample(name)) else 0.0 for point in points]
        colour, text = COLOURS[number % len(COLOURS)], name.removeprefix(f"{spec.y}.")
        axis.barh(range(len(points)), lengths, left=ends, color=colour, alpha=0.75, label=text)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    for place, end in enumerate(ends):
        axis.annotate(f" {number_text(end)}", (end, place), va="center", size=9)
    names = [f"{point.parameters.get(spec.x)}" if spec.x else point.label for point in points]
    axis.set_yticks(range(len(points)), names)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlim(left=0.0)
    axis.set_xlabel(_words(spec.y))
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)


def _lines(figure: Any, points: Sequence[PointSummary], spec: FigureSpec) -> None:
    """One line for each value of `by`, with its interval as a band; text along x is evenly spaced."""
    axis = figure.subplots()
    along = [point.parameters.get(spec.x) for point in points]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in along)
    places: dict[Scalar, float] = {
        value: float(value or 0) if numeric else float(at) for at, value in enumerate(dict.fromkeys(along))
    }
    for number, (group, members) in enumerate(_groups(points, spec.by).items()):
        ordered = sorted(members, key=lambda point: places[point.parameters.get(spec.x)])
        x = [places[point.parameters.get(spec.x)] for point in ordered]
        middles, (below, above) = _spread(ordered, spec.y)
        colour = COLOURS[number % len(COLOURS)]
        low = [middle - each for middle, each in zip(middles, below, strict=True)]
        high = [middle + each for middle, each in zip(middles, above, strict=True)]
        axis.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        axis.plot(x, middles, "o-", color=colour, label=group or None)
    where = list(places.values())
    if numeric and min(where) > 0 and max(where) / min(where) > LOG_FROM:
        axis.set_xscale("log")
    axis.set_xticks(where, [f"{value:,}" if isinstance(value, int) else f"{value}" for value in places])
    axis.minorticks_off()
    if axis.get_ylim()[0] > 0:
        axis.set_ylim(bottom=0)
    axis.set_xlabel(spec.x)
    axis.set_ylabel(_words(spec.y))
    if spec.by:
        axis.legend(title=spec.by)


def _columns(points: Sequence[PointSummary], spec: FigureSpec) -> list[int]:
    """The columns of a series that are drawn; the first one is what they are drawn over."""
    name, _, chosen = spec.y.partition(".")
    return [int(chosen)] if chosen else list(range(1, max(2, len(points[0].series[name][0]))))


def _series(figure: Any, points: Sequence[PointSummary], spec: FigureSpec) -> None:
    """Columns over the first one, which is time unless `x` says otherwise; `name.2` is the second of them alone.

    Each value of `by`, or else each column, has a panel.
    """
    name, columns, groups = spec.y.partition(".")[0], _columns(points, spec), _groups(points, spec.by)
    panels = figure.subplots(len(groups) * len(columns), sharex=True, squeeze=False)[:, 0]
    varied = [each for each in varying(point.parameters for point in points) if each != spec.by]
    names = list(dict.fromkeys(_name(point, varied) for point in points))
    lines: dict[str, Any] = {}
    for panel, (group, column) in zip(panels, product(groups, columns), strict=True):
        members = groups[group]
        for point in members:
            rows = [row for row in point.series[name] if len(row) > column]
            number = names.index(text := _name(point, varied))
            look = {"color": COLOURS[number % len(COLOURS)], "ls": DASHES[number // len(COLOURS) % len(DASHES)]}
            lines[text] = panel.plot([row[0] for row in rows], [row[column] for row in rows], **look)[0]
        values = [row[column] for point in points for row in point.series[name] if len(row) > column]
        if min(values) > 0 and max(values) / min(values) > LOG_FROM:
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            panel.yaxis.set_minor_formatter(lambda *_: "")
        panel.set_ylabel(f"{_words(name)} {column}" if len(columns) > 1 else _words(name))
        if spec.by:
            panel.set_title(f"{spec.by} {text_of(members[0].parameters.get(spec.by))}", size=9)
    panels[-1].set_xlabel(spec.x or "seconds")
    if len(lines) > 1:
        figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=3, fontsize=8)


def _name(point: PointSummary, varied: Sequence[str]) -> str:
    """A point by what it differs in from others; the value alone if that is one parameter."""
    return text_of(point.parameters.get(varied[0])) if len(varied) == 1 else label(point.parameters, varied)


def _words(metric: str) -> str:
    return metric.replace("_per_s", "/s").replace("_", " ")
