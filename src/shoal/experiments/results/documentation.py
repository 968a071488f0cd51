"""Pages that are filled from kept results; what is between their marks is generated, everything else is prose.

A mark on a line of its own has a section below it, up to its end:

    <!-- kept spark/hop -->
    <!-- /kept -->

Within a sentence or the cell of a table it has a few words:

    <!-- kept studies/001-fig-2 list=latency_ms.mean by=policy vehicles=340000 -->...<!-- /kept -->

Behind `FILE/EXPERIMENT` come options: `metrics=A,B` the columns of the table; `show=` some of title, command, machine,
table, notes, figures; `list=METRIC by=PARAMETER` the medians by that parameter, the smallest first, or the largest with
`order=falling`; `value=METRIC` the median of the only point. All others are parameters, and choose points.
Marks inside of code are examples.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from shoal.errors import ConfigError, did_you_mean, reason_of
from shoal.experiments.experiment import FigureSpec
from shoal.experiments.machine import sentence
from shoal.experiments.results.figures import drawable, is_drawn, png
from shoal.experiments.results.kept import KeptExperiment, kept_named
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary, point_matches
from shoal.experiments.results.result_store import plain_name
from shoal.experiments.results.tables import (
    ResultTable,
    cell,
    markdown,
    notes_of,
    number,
    table_of,
    text_of,
    turned,
)

PARTS = ("title", "command", "machine", "table", "notes", "figures")
OPTIONS = ("metrics", "show", "list", "by", "order", "value")
END = "<!-- /kept -->"
WIDEST = 16
"""The most columns of a table on a page."""
_MARK = re.compile(
    r"^```.*?^```|`<!-- [^`\n]+`|<!-- kept ([^\n]+?) -->(.*?)(<!-- /kept -->|(?=<!-- kept )|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""Code, which stays as it is, or a mark, what is behind it, and its end."""


@dataclass(frozen=True)
class PageFigure:
    """A figure that a page shows, and where it is."""

    summary: ExperimentSummary
    spec: FigureSpec
    path: Path


@dataclass(frozen=True)
class FilledPage:
    """A page as kept results make it."""

    path: Path
    before: str
    text: str
    figures: tuple[PageFigure, ...]
    places: int

    @property
    def differences(self) -> list[str]:
        """What of the page is not as it should be."""
        found = ["a section is not what was kept"] if self.text != self.before else []
        return found + [
            f"{each.path} is not drawn from what was kept"
            for each in self.figures
            if not is_drawn(each.summary, each.spec, each.path)
        ]

    def write(self) -> None:
        """Write the page, and draw those of its figures that are not of these results."""
        if self.text != self.before:
            self.path.write_text(self.text, encoding="utf-8")
        for each in self.figures:
            if not is_drawn(each.summary, each.spec, each.path):
                png(each.summary, each.spec, each.path)


def filled(page: Path, kept: Path) -> FilledPage:
    """What a page has to say, by the results kept below a directory; nothing is written."""
    try:
        before = page.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{page} cannot be read: {reason_of(error)}") from error
    figures: list[PageFigure] = []
    places = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal places
        mark, old, end = found.groups()
        if mark is None:
            return found[0]
        if not end:
            raise ConfigError(f"{page} must have {END} behind <!-- kept {mark} -->; it has none")
        places += 1
        place = _Place.of(mark, page, kept)
        if old.startswith("\n"):
            shown = place.figures()
            figures.extend(shown)
            return f"<!-- kept {mark} -->\n\n{place.section(shown)}\n\n{END}"
        return f"<!-- kept {mark} -->{place.words()}{END}"

    text = _MARK.sub(fill, before)
    return FilledPage(page, before, text, tuple(figures), places)


@dataclass(frozen=True)
class _Place:
    """A mark, and what is kept of its experiment, with the points that it chooses."""

    mark: str
    page: Path
    kept: KeptExperiment
    options: Mapping[str, str]

    @classmethod
    def of(cls, mark: str, page: Path, directory: Path) -> "_Place":
        name, *words = mark.split()
        file, slash, experiment = name.partition("/")
        if not slash or not all("=" in word for word in words):
            raise ConfigError(f"a mark of {page} must be FILE/EXPERIMENT and NAME=VALUE ...; got {mark!r}")
        given = dict(word.split("=", 1) for word in words)
        kept = kept_named(directory, file, experiment)
        where = {key: tuple(value.split(",")) for key, value in given.items() if key not in OPTIONS}
        points = tuple(point for point in kept.summary.points if point_matches(point.parameters, where))
        metrics = tuple(given["metrics"].split(",")) if "metrics" in given else kept.summary.shown
        place = cls(mark, page, replace(kept, summary=replace(kept.summary, points=points, shown=metrics)), given)
        if not points:
            known = sorted({key for point in kept.summary.points for key in point.parameters})
            raise place.wrong(f"must choose a point by {', '.join(known)}; it chooses none")
        for metric in given["metrics"].split(",") if "metrics" in given else ():
            place._measured(metric)
        return place

    def section(self, figures: list[PageFigure]) -> str:
        """The experiment as a section of a page."""
        kept, summary = self.kept, self.kept.summary
        machine = sentence(summary.environment)
        where = f"Measured on {summary.began_at[:10]}{f': {machine}' if machine else ''}."
        how = f"`{kept.command}`" + (f" measures it again; this was measured {kept.origin}." if kept.origin else "")
        notes = [*notes_of(summary), *([f"not measured: {'; '.join(kept.unmeasured)}"] if kept.unmeasured else [])]
        parts = {
            "title": f"**{summary.title}**",
            "command": how,
            "machine": where,
            "table": markdown(_readable(table_of(summary))),
            "notes": "\n\n".join(f"{note[0].upper()}{note[1:]}." for note in notes),
            "figures": "\n\n".join(self._figure_text(each) for each in figures),
        }
        return "\n\n".join(parts[name] for name in self._parts() if parts[name])

    def figures(self) -> list[PageFigure]:
        """The figures of the experiment, if the place shows them."""
        summary = self.kept.summary
        if "figures" not in self._parts():
            return []
        specs = [spec for spec in summary.figures if drawable(summary, spec)]
        chosen = [f"-{key}-{value}" for key, value in self.options.items() if key not in OPTIONS]
        name = plain_name(f"{summary.file}-{summary.name}{''.join(chosen)}")
        folder = figure_folder(self.page)
        return [
            PageFigure(summary, spec, folder / f"{name}{f'-{at}' if at > 1 else ''}.png")
            for at, spec in enumerate(specs, 1)
        ]

    def words(self) -> str:
        """What the place says within a sentence."""
        if metric := self.options.get("value"):
            points = self._measured(metric)
            if len(points) > 1:
                raise self.wrong(f"must choose one point; it chooses {', '.join(point.label for point in points)}")
            return cell(points[0].sample(metric))
        if (metric := self.options.get("list")) and (by := self.options.get("by")):
            return ", ".join(self._listed(metric, by))
        raise self.wrong("is within a line and must have value=METRIC, or list=METRIC and by=PARAMETER")

    def wrong(self, what: str) -> ConfigError:
        """An error that says where the place is."""
        return ConfigError(f"<!-- kept {self.mark} --> of {self.page} {what}")

    def _listed(self, metric: str, by: str) -> Iterator[str]:
        """Names with their medians; names whose medians are written alike are together, in the order of declaration."""
        points = self._measured(metric)
        if any(by not in point.parameters for point in points):
            raise self.wrong(f"must have points with a parameter {by!r}; some have none")
        falling = self.options.get("order") == "falling"
        medians = [(sample.median, point) for point in points if (sample := point.sample(metric))]
        ordered = sorted(medians, key=lambda each: -each[0] if falling else each[0])
        for text, several in groupby(ordered, key=lambda each: number(each[0])):
            together = sorted((point for _, point in several), key=points.index)
            names = [f"`{text_of(point.parameters[by])}`" for point in together]
            yield f"{' and '.join(part for part in (', '.join(names[:-1]), names[-1]) if part)} {text}"

    def _measured(self, metric: str) -> list[PointSummary]:
        found = [point for point in self.kept.summary.points if metric in point.metrics]
        if not found:
            known = sorted({name for point in self.kept.summary.points for name in point.metrics})
            raise self.wrong(f"must name one of {', '.join(known)}; got {metric!r}{did_you_mean(metric, known)}")
        return found

    def _parts(self) -> tuple[str, ...]:
        asked = self.options.get("show")
        chosen = tuple(asked.split(",")) if asked else PARTS
        if unknown := [name for name in chosen if name not in PARTS]:
            raise self.wrong(f"must show some of {', '.join(PARTS)}; got {unknown[0]!r}")
        return chosen

    def _figure_text(self, figure: PageFigure) -> str:
        link = os.path.relpath(figure.path.absolute(), self.page.absolute().parent)
        return f"![{figure.spec.title or figure.summary.title}]({link})"


def _readable(table: ResultTable) -> ResultTable:
    """A table that is too wide for a page and not long is turned."""
    return turned(table) if len(table.header) > WIDEST and len(table.rows) < len(table.header) else table


def figure_folder(page: Path) -> Path:
    """Where the figures of a page are: the nearest folder `figures` beside or above it, or a new one beside it."""
    for each in page.absolute().parents[:3]:
        if (each / "figures").is_dir():
            return each / "figures"
    return page.parent / "figures"
