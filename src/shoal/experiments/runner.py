"""Runs the trials of experiments, one after another, each in a process of its own, and keeps a record of each.

A trial that fails, takes too long or is killed is recorded with its reason, and the others go on.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ConfigError, did_you_mean
from shoal.experiments.experiment import ENGINE, Experiment, ExperimentFile, TaskFlow, Trial, TrialOutcome
from shoal.experiments.language.query_program import program_of
from shoal.experiments.machine import described, load_now
from shoal.experiments.processes import run_to_end
from shoal.experiments.results.point_summary import as_given, label, point_matches, varying
from shoal.experiments.results.result_store import ResultStore, TrialRecord, declaration_of
from shoal.experiments.trial import order_of

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunChoice:
    """What of a file is run: experiments by name, engines, points, repetitions; nothing given means all as declared."""

    only: Sequence[str] = ()
    engines: Sequence[str] = ()
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repeat: int | None = None
    small: bool = False
    again: bool = False


def chosen(file: ExperimentFile, choice: RunChoice) -> tuple[Experiment, ...]:
    """The experiments of a file that are run, with the points that are; a choice that leaves nothing is an error."""
    found = []
    for experiment in only_named(file, choice.only):
        points = tuple(
            point
            for point in experiment.points
            if (not choice.engines or ENGINE not in point or point[ENGINE] in choice.engines)
            and point_matches(point, choice.where)
        )
        if points:
            found.append(replace(experiment, points=points, repeat=choice.repeat or experiment.repeat))
    if not found:
        _refuse_nothing(file, choice)
    return tuple(found)


def only_named(file: ExperimentFile, names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments with these names, in the order of the file; all if there are no names."""
    known = [each.name for each in file.experiments]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{file.path} has the experiments {', '.join(known)}; got {name!r}{did_you_mean(name, known)}"
            )
    return tuple(each for each in file.experiments if not names or each.name in names)


def _refuse_nothing(file: ExperimentFile, choice: RunChoice) -> None:
    """Say which values there are of what was chosen by."""
    points = [point for each in only_named(file, choice.only) for point in each.points]
    for name, values in ((ENGINE, choice.engines), *choice.where.items()):
        known = list(dict.fromkeys(as_given(point[name]) for point in points if name in point))
        if values and not known:
            there = sorted({each for point in points for each in point})
            raise ConfigError(
                f"points of {file.path} have the parameters {', '.join(there)}; got {name!r}{did_you_mean(name, there)}"
            )
        if values and not set(values) & set(known):
            raise ConfigError(f"points of {file.path} have {name} {', '.join(known)}; got {', '.join(values)}")
    asked = ", ".join(f"{name}={','.join(values)}" for name, values in choice.where.items())
    raise ConfigError(f"{file.path} must have a point with all of {asked}; it has none")


class Runner:
    """Runs trials and keeps their records."""

    def __init__(self, store: ResultStore, say: Say, *, again: bool = False) -> None:
        """Remember the machine and the versions, which do not change while trials run."""
        self._store, self._say, self._again = store, say, again
        self._environment = described()

    def run(self, file: str, experiment: Experiment, *, small: bool = False, context: Any = None) -> list[TrialRecord]:
        """All trials of an experiment; `context` is what its flow needs of the file."""
        trials = list(experiment.trials(file, small=small))
        varied = varying(experiment.points)
        return [
            self._record(trial, experiment, f"{number}/{len(trials)} {label(trial.parameters, varied)}", context)
            for number, trial in enumerate(trials, 1)
        ]

    def _record(self, trial: Trial, experiment: Experiment, name: str, context: Any) -> TrialRecord:
        title = f"{experiment.name} {name}"
        declaration = declaration_of(trial, experiment, context)
        if not self._again and (found := self._store.finished(trial, declaration, str(self._environment["version"]))):
            self._say(f"{title}: done before")
            return found
        self._say(f"{title} ...")
        began_at, began_s = datetime.now(UTC), time.monotonic()
        environment = {**self._environment, **load_now()}
        outcome, log = run_trial(trial, experiment)
        record = TrialRecord(
            trial,
            outcome,
            declaration,
            experiment.answers,
            environment,
            began_at.isoformat(timespec="seconds"),
            round(time.monotonic() - began_s, 3),
            experiment.title,
            experiment.metrics,
            log if outcome.failure else "",
        )
        self._store.write(record)
        if outcome.failure:
            self._say(f"{title}: FAILED, {outcome.failure}")
        return record


def run_trial(trial: Trial, experiment: Experiment) -> tuple[TrialOutcome, str]:
    """Run a trial in a process of its own; what it printed is returned beside its outcome."""
    with tempfile.TemporaryDirectory(prefix="shoal-trial-") as name:
        directory = Path(name)
        path, log = directory / "outcome.json", directory / "log"
        order = msgspec.json.encode(order_of(trial, experiment.subject)).decode()
        ended = run_to_end(
            [sys.executable, "-m", "shoal.experiments.trial", order, str(path)], experiment.timeout_s, log
        )
        text = log.read_text(errors="replace")
        if ended.code is None:
            return TrialOutcome(failure=f"it took longer than {experiment.timeout_s:g} s and was ended"), text
        if not path.exists():
            last = (text.strip().splitlines() or [""])[-1]
            return TrialOutcome(failure=": ".join(part for part in (ended.reason, last) if part)), text
        return msgspec.json.decode(path.read_bytes(), type=TrialOutcome), text


def context_of(file: ExperimentFile, experiment: Experiment) -> Mapping[str, Any] | None:
    """What a flow needs besides its tasks: streams, datasets, queries and network of its file."""
    if not isinstance(experiment.subject, TaskFlow):
        return None
    found = {"streams": file.streams, "datasets": file.datasets, "queries": file.queries, "network": file.network}
    programs = {
        program.file for query in file.queries.values() for program in map(program_of, query.sql.values()) if program
    }
    texts = {name: _content(Path(file.path).parent / name) for name in sorted(programs)}
    return {**found, "programs": texts} if texts else found


def _content(path: Path) -> str:
    """The text of a program; one that is not there is noticed before anything runs."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""
