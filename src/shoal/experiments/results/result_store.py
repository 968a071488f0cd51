"""Records of trials in files: `<file>/<experiment>/<point>/<version>/<repetition>.json`, each written at once.

A record is found again by what was declared and by the version of Shoal that ran it. So a run that was interrupted goes
on where it was, results of several versions lie beside each other, and an edited experiment runs again. A trial that
failed has a record, too, and runs again.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from shoal.errors import ConfigError
from shoal.experiments.experiment import Answers, Experiment, MeasureFunction, Trial, TrialOutcome
from shoal.experiments.trial import measure_path
from shoal.storage.directory import Directory

FORMAT = 1
LOG_CHARACTERS = 4000


@dataclass(frozen=True)
class TrialRecord:
    """A trial that has run, what came of it, and where and when it ran; `log` is the end of what a failed one wrote."""

    trial: Trial
    outcome: TrialOutcome
    declaration: str
    answers: Answers
    environment: Mapping[str, Any]
    began_at: str
    took_s: float
    title: str = ""
    shown: tuple[str, ...] = ()
    log: str = ""
    format: int = FORMAT

    @property
    def version(self) -> str:
        """The version of Shoal that ran it."""
        return str(self.environment["version"])


@dataclass(frozen=True)
class ResultStore:
    """The records below a directory."""

    directory: Directory = field(default_factory=lambda: Directory("results"))

    def finished(self, trial: Trial, declaration: str, version: str) -> TrialRecord | None:
        """The record of a trial that was declared just so, run by this version and did not fail."""
        name = f"{point_path(trial)}/{version}/{trial.repetition}.json"
        if not self.directory.exists(name):
            return None
        found = self._read(name)
        return found if found.declaration == declaration and not found.outcome.failure else None

    def write(self, record: TrialRecord) -> None:
        """Keep a record; its series first, so that a record is never without them."""
        base = f"{point_path(record.trial)}/{record.version}/{record.trial.repetition}"
        if record.outcome.series:
            self.directory.write(f"{base}.series.json", msgspec.json.encode(record.outcome.series))
        kept = replace(record, outcome=replace(record.outcome, series={}), log=record.log[-LOG_CHARACTERS:])
        self.directory.write(f"{base}.json", msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")

    def records(self, below: str = "") -> Iterator[TrialRecord]:
        """All records below a path of the directory, in no particular order."""
        root = Path(self.directory.path(below) if below else self.directory.path("."))
        for path in sorted(root.glob("**/*.json")):
            if re.fullmatch(r"\d+\.json", path.name):
                yield self._read(str(path.relative_to(self.directory.path("."))))

    def _read(self, name: str) -> TrialRecord:
        try:
            record = msgspec.json.decode(self.directory.read(name), type=TrialRecord)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self.directory.uri}/{name} is not the record of a trial: {error}") from error
        series = name.removesuffix(".json") + ".series.json"
        if not self.directory.exists(series):
            return record
        found = msgspec.json.decode(self.directory.read(series), type=dict[str, list[list[float]]])
        return replace(record, outcome=replace(record.outcome, series=found))


def experiment_path(trial: Trial) -> str:
    """Where the records of an experiment are; the small variant has a directory of its own."""
    file = plain_name(Path(trial.file).stem) + ("+small" if trial.small else "")
    return f"{file}/{plain_name(trial.experiment)}"


def point_path(trial: Trial) -> str:
    """Where the records of a point are."""
    return f"{experiment_path(trial)}/{trial.key}"


def plain_name(text: str) -> str:
    """A text as the name of a directory.

    >>> plain_name("NEXMark: Q0/Q1")
    'NEXMark-Q0-Q1'
    """
    return re.sub(r"[^\w.+-]+", "-", text).strip(".-") or "unnamed"


def declaration_of(trial: Trial, experiment: Experiment, context: Any = None) -> str:
    """The digest of all that a trial is told: subject, parameters, the code of its measure function, and `context`.

    Modules beside a measure function count as its code.
    """
    subject = experiment.subject
    code = {}
    if isinstance(subject, MeasureFunction):
        directory = measure_path(trial.file, subject).parent
        code = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.glob("*.py"))}
    told = [type(subject).__name__, asdict(subject), dict(trial.parameters), experiment.answers, code, context]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]
