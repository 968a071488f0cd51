"""Results that are kept in the repository, beside the file of their experiment, for the documentation to show.

`experiments/kept/spark/hop.json` has what was last kept of the experiment `hop` of `experiments/spark.yaml`: one file
for each experiment, so that two people can keep results of two experiments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from shoal.errors import ConfigError, did_you_mean, reason_of
from shoal.experiments.experiment import Experiment
from shoal.experiments.results.point_summary import ExperimentSummary, label, varying
from shoal.experiments.results.result_store import plain_name

FORMAT = 2
DIRECTORY = "kept"
KEPT = f"experiments/{DIRECTORY}"
"""Where the results that the documentation of this project shows are kept."""


@dataclass(frozen=True)
class KeptExperiment:
    """An experiment as it was last kept, and the command that measures it again.

    `unmeasured` names the points that were declared and not run. `origin` says how the results were measured if it was
    not by `command`.
    """

    command: str
    summary: ExperimentSummary
    unmeasured: tuple[str, ...] = ()
    origin: str = ""
    format: int = FORMAT


def kept_directory(file: str) -> Path:
    """Where the results of an experiment file are kept."""
    path = Path(file)
    return path.parent / DIRECTORY / plain_name(path.stem)


def keep(file: str, experiment: Experiment, summary: ExperimentSummary, origin: str = "") -> Path:
    """Keep the results of an experiment in place of those kept before."""
    run = {repr(sorted(point.parameters.items())) for point in summary.points}
    missing = [point for point in experiment.points if repr(sorted(point.items())) not in run]
    varied = varying(experiment.points)
    trials = max(point.trials for point in summary.points)
    command = f"shoal experiment run {file} --only {experiment.name}"
    if trials != experiment.repeat:
        command += f" --repeat {trials}"
    unmeasured = tuple(label(point, varied) for point in missing)
    kept = KeptExperiment(command, _without_unseen_series(summary), unmeasured, origin)
    path = kept_directory(file) / f"{plain_name(experiment.name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_bytes(_written(kept))
    unfinished.replace(path)
    return path


def read_kept(path: Path) -> KeptExperiment:
    """Kept results, checked field by field."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=KeptExperiment)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} has no kept results of an experiment: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason_of(error)}") from error
    if found.format != FORMAT:
        raise ConfigError(f"{path} must have format {FORMAT}; got {found.format}")
    return found


def kept_named(directory: Path, file: str, name: str) -> KeptExperiment:
    """What is kept of an experiment; an error that lists what there is if nothing is."""
    path = directory / plain_name(file) / f"{plain_name(name)}.json"
    if not path.is_file():
        known = [f"{each.parent.name}/{each.stem}" for each in kept_files(directory)]
        there = f"{directory} has {', '.join(known)}" if known else f"{directory} has none"
        wanted = f"{file}/{name}"
        raise ConfigError(f"nothing is kept of experiment {wanted!r}; {there}{did_you_mean(wanted, known)}")
    return read_kept(path)


def kept_files(directory: Path) -> Sequence[Path]:
    """The files of kept results below a directory."""
    return sorted(directory.glob("*/*.json"))


def _written(kept: KeptExperiment) -> bytes:
    """JSON with a line for each point, so that a change of one point is a change of one line."""
    encode = msgspec.json.encode
    summary = msgspec.to_builtins(kept.summary)
    points = summary.pop("points")
    head = {name: value for name, value in msgspec.to_builtins(kept).items() if name != "summary"}
    lines = [
        b"{",
        *_fields(head),
        b' "summary": {',
        *(b" " + line for line in _fields(summary)),
        b'  "points": [',
        b",\n".join(b"   " + encode(point) for point in points),
        b"  ]",
        b" }",
        b"}",
    ]
    return b"\n".join(lines) + b"\n"


def _fields(values: dict[str, object]) -> Iterable[bytes]:
    return [
        b" " + msgspec.json.encode(name) + b": " + msgspec.json.encode(value) + b"," for name, value in values.items()
    ]


def _without_unseen_series(summary: ExperimentSummary) -> ExperimentSummary:
    """Series are kept only where a figure shows them."""
    shown = {spec.y.partition(".")[0] for spec in summary.figures if spec.type == "series"}
    points = tuple(
        replace(point, series={name: rows for name, rows in point.series.items() if name in shown})
        for point in summary.points
    )
    return replace(summary, points=points)
