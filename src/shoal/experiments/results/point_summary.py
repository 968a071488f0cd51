"""Records become summaries: every point with its verdict, its metrics over all repetitions, and its failures."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.experiments.experiment import ENGINE, Answers, Experiment, FigureSpec, Parameters, Scalar
from shoal.experiments.results.answers import AnswerVerdict, PointOutcomes, verdicts
from shoal.experiments.results.result_store import TrialRecord
from shoal.experiments.results.sample_statistics import Sample

SERIES_ROWS = 400
"""The most rows of a series that a summary has."""


@dataclass(frozen=True)
class PointSummary:
    """A point: numbers of all repetitions that finished, none if its results are not right."""

    parameters: Parameters
    label: str
    verdict: AnswerVerdict
    trials: int
    failures: tuple[str, ...] = ()
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    series: Mapping[str, list[list[float]]] = field(default_factory=dict)

    def sample(self, metric: str) -> Sample | None:
        """The measurements of a metric, if there are any."""
        values = self.metrics.get(metric)
        return Sample(tuple(values)) if values else None


@dataclass(frozen=True)
class ExperimentSummary:
    """An experiment as it was measured; points in the order of their declaration."""

    file: str
    name: str
    title: str
    answers: Answers
    shown: tuple[str, ...]
    """The metrics to show."""
    points: tuple[PointSummary, ...]
    figures: tuple[FigureSpec, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    began_at: str = ""
    small: bool = False
    took_s: float = 0.0

    @property
    def right(self) -> bool:
        """Whether every trial has finished, with right results."""
        return all(point.verdict.right and not point.failures for point in self.points)


def summary_of(experiment: Experiment, records: Sequence[TrialRecord]) -> ExperimentSummary:
    """What the records of an experiment tell."""
    by_point: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        by_point[record.trial.key].append(record)
    points = {
        key: PointOutcomes(found[0].trial.parameters, [record.outcome for record in found])
        for key, found in by_point.items()
    }
    found = verdicts(experiment.answers, points)
    varied = varying(point.parameters for point in points.values())
    summaries = tuple(_point(point, found[key], label(point.parameters, varied)) for key, point in points.items())
    shown = experiment.metrics or tuple(dict.fromkeys(name for point in summaries for name in point.metrics))
    first = min(records, key=lambda record: record.began_at)
    return ExperimentSummary(
        Path(first.trial.file).stem,
        experiment.name,
        experiment.title or experiment.name,
        experiment.answers,
        shown,
        summaries,
        experiment.figures,
        first.environment,
        first.began_at,
        first.trial.small,
        sum(record.took_s for record in records),
    )


def varying(points: Iterable[Parameters]) -> tuple[str, ...]:
    """The parameters in which points differ, the engine first.

    >>> varying([{"events": 5, "workers": 2, "engine": "a"}, {"events": 5, "workers": 4, "engine": "b"}])
    ('engine', 'workers')
    """
    listed = list(points)
    names = dict.fromkeys(name for point in listed for name in point)
    differ = [name for name in names if len({_written(point, name) for point in listed}) > 1]
    return tuple(sorted(differ, key=lambda name: name != ENGINE))


def label(parameters: Parameters, varied: Sequence[str]) -> str:
    """The name of a point beside others.

    >>> label({"engine": "duckdb", "workers": 2, "events": 10}, ("engine", "workers"))
    'duckdb, workers=2'
    """
    parts = [
        str(parameters[name]) if name == ENGINE else f"{name}={parameters[name]}"
        for name in varied
        if name in parameters
    ]
    return ", ".join(parts) or str(parameters.get(ENGINE, "all"))


def point_matches(parameters: Parameters, where: Mapping[str, Sequence[str]]) -> bool:
    """Whether a point has one of the given values, as written, in each of these parameters.

    >>> point_matches({"load": 0.9, "split": True}, {"load": ["0.7", "0.9"], "split": ["true"]})
    True
    """
    return all(name in parameters and as_given(parameters[name]) in values for name, values in where.items())


def as_given(value: Scalar) -> str:
    """A value as it is written on a command line."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _written(point: Parameters, name: str) -> tuple[bool, str]:
    value: Scalar = point.get(name)
    return name in point, repr(value)


def _point(point: PointOutcomes, verdict: AnswerVerdict, name: str) -> PointSummary:
    failures = tuple(each.failure for each in point.outcomes if each.failure)
    if not verdict.right:
        return PointSummary(point.parameters, name, verdict, len(point.outcomes), failures)
    finished = point.finished
    names = dict.fromkeys(metric for each in finished for metric in each.metrics)
    metrics = {
        metric: tuple(float(each.metrics[metric]) for each in finished if metric in each.metrics) for metric in names
    }
    series = {each: thinned(rows) for each, rows in finished[0].series.items()}
    return PointSummary(point.parameters, name, verdict, len(point.outcomes), failures, metrics, series)


def thinned(rows: list[list[float]]) -> list[list[float]]:
    """At most so many rows of a series, evenly chosen, the last one among them."""
    if len(rows) <= SERIES_ROWS:
        return rows
    return [rows[(at + 1) * len(rows) // SERIES_ROWS - 1] for at in range(SERIES_ROWS)]


def plain(summary: ExperimentSummary) -> dict[str, Any]:
    """A summary for programs: medians, intervals and all values."""
    return {
        "experiment": summary.name,
        "title": summary.title,
        "right": summary.right,
        "small": summary.small,
        "points": [
            {
                "parameters": dict(point.parameters),
                "label": point.label,
                "answers": point.verdict.text,
                **({"reason": point.verdict.reason} if point.verdict.reason else {}),
                "trials": point.trials,
                "failures": list(point.failures),
                "metrics": {name: _measured(Sample(tuple(values))) for name, values in point.metrics.items()},
            }
            for point in summary.points
        ],
    }


def _measured(sample: Sample) -> dict[str, Any]:
    interval = sample.interval
    return {
        "median": sample.median,
        "low": interval.low,
        "high": interval.high,
        "certainty": round(interval.certainty, 4),
        "rsd_percent": None if sample.rsd is None else round(sample.rsd, 3),
        "values": list(sample.values),
    }
