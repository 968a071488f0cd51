"""Results that are kept in the repository beside their experiment file, and the pages that are filled from them.

Between `<!-- kept ysb/engines -->` and `<!-- /kept ysb/engines -->` of a page is what was kept of the experiment
`engines` of the file `ysb`; with `kept ysb` it is all of that file. Everything else on a page is prose.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from shoal.errors import ConfigError, reason_of
from shoal.experiments.machine import sentence
from shoal.experiments.results.figures import drawable, png
from shoal.experiments.results.point_summary import ExperimentSummary
from shoal.experiments.results.result_store import plain_name
from shoal.experiments.results.tables import markdown, notes_of, table_of

FORMAT = 1
DIRECTORY = "kept"
KEPT = f"experiments/{DIRECTORY}"
"""Where the results that the documentation of this project shows are kept."""


@dataclass(frozen=True)
class KeptResults:
    """The experiments of a file as they were last kept, and the command that measures them."""

    file: str
    command: str
    experiments: tuple[ExperimentSummary, ...]
    format: int = FORMAT


def kept_path(file: str) -> Path:
    """Where the results of an experiment file are kept."""
    path = Path(file)
    return path.parent / DIRECTORY / f"{path.stem}.json"


def keep(file: str, command: str, summaries: Sequence[ExperimentSummary]) -> Path:
    """Keep results; experiments of the file that are not among them stay as they were kept before."""
    path = kept_path(file)
    before = read_kept(path).experiments if path.is_file() else ()
    new = {summary.name: _without_unseen_series(summary) for summary in summaries}
    stay = [summary for summary in before if summary.name not in new]
    found = KeptResults(Path(file).name, command, (*stay, *new.values()))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    unfinished.replace(path)
    return path


def read_kept(path: Path) -> KeptResults:
    """Kept results, checked field by field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptResults)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} has no kept results of experiments: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason_of(error)}") from error


def fill(page: Path, kept: Path) -> int:
    """Fill all places of a page from kept results and draw their figures beside it; returns how many there are."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{page} cannot be read: {reason_of(error)}") from error
    marks = re.findall(r"^<!-- kept ([^\n>]+?) -->$", text, re.MULTILINE)
    for mark in marks:
        before, begin, rest = text.partition(f"<!-- kept {mark} -->\n")
        old, end, after = rest.partition(f"<!-- /kept {mark} -->")
        if not end or "<!-- kept " in old:
            raise ConfigError(f"{page} must have <!-- /kept {mark} --> below <!-- kept {mark} -->; it has none")
        file, _, name = mark.partition("/")
        text = f"{before}{begin}\n{_section(read_kept(kept / f'{file}.json'), name, page)}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")
    return len(marks)


def _section(kept: KeptResults, name: str, page: Path) -> str:
    chosen = [summary for summary in kept.experiments if not name or name == summary.name]
    if not chosen:
        names = ", ".join(summary.name for summary in kept.experiments)
        raise ConfigError(f"{page} has a place for experiment {name!r} of {kept.file}; kept are {names}")
    parts = [f"`{kept.command}`"]
    told = ""
    for summary in chosen:
        where = f"Measured on {summary.began_at[:10]}: {sentence(dict(summary.environment))}."
        parts += [f"**{summary.title}**", *([where] if where != told else []), markdown(table_of(summary))]
        parts += [f"{note[0].upper()}{note[1:]}." for note in notes_of(summary)]
        parts += _figures(summary, page)
        told = where
    return "\n\n".join(parts)


def _figures(summary: ExperimentSummary, page: Path) -> list[str]:
    found = []
    for number, spec in enumerate(summary.figures):
        if drawable(summary, spec):
            name = (
                f"figures/{plain_name(summary.file)}-{plain_name(summary.name)}{f'-{number + 1}' if number else ''}.png"
            )
            png(summary, spec, page.parent / name)
            found.append(f"![{spec.title or summary.title}]({name})")
    return found


def _without_unseen_series(summary: ExperimentSummary) -> ExperimentSummary:
    """Series are kept only where a figure shows them."""
    shown = {spec.y.partition(".")[0] for spec in summary.figures if spec.type == "series"}
    points = tuple(
        replace(point, series={name: rows for name, rows in point.series.items() if name in shown})
        for point in summary.points
    )
    return replace(summary, points=points)
