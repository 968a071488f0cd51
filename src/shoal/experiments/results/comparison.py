"""Two sets of results side by side: per point and metric faster, slower or no difference, and how certain that is."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shoal.experiments.experiment import Experiment, MeasureFunction
from shoal.experiments.results.point_summary import ExperimentSummary, PointSummary, summary_of
from shoal.experiments.results.result_store import TrialRecord, experiment_path
from shoal.experiments.results.sample_statistics import (
    CERTAINTY,
    Sample,
    SampleDifference,
    difference,
    repetitions_needed,
)

Word = Literal["faster", "slower", "more", "less", "no difference", "cannot tell"]
Direction = Literal["up", "down", ""]
_RATE = re.compile(r"(_per_s|_per_second|tps|throughput)$", re.IGNORECASE)
_TIME = re.compile(r"(^|_)(s|ms|us|ns|seconds)(_per_\w+)?$")


@dataclass(frozen=True)
class Compared:
    """A metric of a point on both sides."""

    experiment: str
    point: str
    metric: str
    first: Sample
    second: Sample
    difference: SampleDifference

    @property
    def word(self) -> Word:
        """What can be said of the second side."""
        if not self.difference.knowable:
            return "cannot tell"
        if not self.difference.found:
            return "no difference"
        more = (
            self.difference.ratio > 1 if self.difference.ratio is not None else self.second.median > self.first.median
        )
        direction = direction_of(self.metric)
        if not direction:
            return "more" if more else "less"
        return "faster" if more == (direction == "up") else "slower"

    @property
    def certainty(self) -> float:
        """How certain the word is: that of a difference, or of the interval that its ratio lies in."""
        return 1 - self.difference.p if self.difference.found else CERTAINTY


@dataclass(frozen=True)
class Comparison:
    """All that both sides have, and what only one of them has or what cannot be compared."""

    compared: tuple[Compared, ...]
    left_out: tuple[str, ...]


def direction_of(metric: str) -> Direction:
    """Whether more of a metric is faster (`up`), less is (`down`), or neither.

    >>> [direction_of(name) for name in ("events_per_s", "latency_ms.p99", "cpu_ns_per_event", "moves", "elapsed_s")]
    ['up', 'down', 'down', '', 'down']
    """
    name = metric.partition(".")[0]
    return "up" if _RATE.search(name) else "down" if _TIME.search(name) else ""


def compared(first: Iterable[ExperimentSummary], second: Iterable[ExperimentSummary]) -> Comparison:
    """Compare experiments of the same name, point by point, in the metrics that they show."""
    sides = [{_name(summary): summary for summary in side} for side in (first, second)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    found: list[Compared] = []
    left_out: list[str] = []
    for name in names:
        here, there = (side.get(name) for side in sides)
        if here is None or there is None:
            left_out.append(f"{name}: only the {'second' if here is None else 'first'} side has it")
            continue
        _compare_points(name, here, there, found, left_out)
    return Comparison(tuple(found), tuple(left_out))


def _compare_points(
    name: str, here: ExperimentSummary, there: ExperimentSummary, found: list[Compared], left_out: list[str]
) -> None:
    ours, theirs = ({_identity(point): point for point in side.points} for side in (here, there))
    for identity in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(identity), theirs.get(identity)
        if one is None or other is None:
            point = one or other
            label = point.label if point else ""
            left_out.append(f"{name}, {label}: only the {'second' if one is None else 'first'} side has it")
        elif not (one.verdict.right and other.verdict.right):
            side, text = ("second", other.verdict.text) if one.verdict.right else ("first", one.verdict.text)
            left_out.append(f"{name}, {one.label}: {text} on the {side} side")
        else:
            found.extend(_compare_metrics(name, one, other, here.shown))


def _compare_metrics(name: str, one: PointSummary, other: PointSummary, shown: Sequence[str]) -> Iterator[Compared]:
    for metric in shown:
        first, second = one.sample(metric), other.sample(metric)
        if first and second:
            yield Compared(name, one.label, metric, first, second, difference(first, second))


def newest_summaries(records: Iterable[TrialRecord], version: str = "") -> list[ExperimentSummary]:
    """The experiments of records: of the newest version of each, or of the one given."""
    groups: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        groups[experiment_path(record.trial)].append(record)
    chosen = [newest_of(group, version) for group in groups.values()]
    return [summary_of(_recorded(each), each) for each in chosen if each]


def newest_of(records: Iterable[TrialRecord], version: str = "") -> list[TrialRecord]:
    """The records of an experiment that belong together: of one version, each point as it was declared last."""
    group = list(records)
    if not group:
        return []
    wanted = version or max(group, key=lambda record: record.began_at).version
    return _of_one_declaration(each for each in group if each.version == wanted)


def _of_one_declaration(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Records in the order in which they ran, without those of points that were declared otherwise later."""
    ordered = sorted(records, key=lambda each: each.began_at)
    last = {each.trial.key: each.declaration for each in ordered}
    return [each for each in ordered if each.declaration == last[each.trial.key]]


def _recorded(records: Sequence[TrialRecord]) -> Experiment:
    """What records tell of the experiment that they belong to."""
    first = records[0]
    return Experiment(
        first.trial.experiment, MeasureFunction("", ""), title=first.title, answers=first.answers, metrics=first.shown
    )


def _name(summary: ExperimentSummary) -> str:
    return f"{summary.file}/{summary.name}{' (small)' if summary.small else ''}"


def _identity(point: PointSummary) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in point.parameters.items()))


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know about the words."""
    found = []
    few = [each for each in comparison.compared if not each.difference.knowable]
    if few:
        needed = repetitions_needed()
        found.append(
            f"cannot tell: too few repetitions; with {needed} on each side a difference can be {CERTAINTY:.0%} certain"
        )
    told = len(comparison.compared) - len(few)
    if told > 1:
        chance = math.ceil(told * (1 - CERTAINTY))
        found.append(f"of {told} comparisons of equal things about {chance} would differ by chance")
    return found + list(comparison.left_out)


def plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """A comparison for programs."""
    return {
        "compared": [_plain(each) for each in comparison.compared],
        "left_out": list(comparison.left_out),
        "slower": sum(each.word == "slower" for each in comparison.compared),
    }


def _plain(each: Compared) -> Mapping[str, Any]:
    found, interval = each.difference, each.difference.interval
    return {
        "experiment": each.experiment,
        "point": each.point,
        "metric": each.metric,
        "first": {"median": each.first.median, "n": len(each.first.values)},
        "second": {"median": each.second.median, "n": len(each.second.values)},
        "ratio": found.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "p": found.p,
        "verdict": each.word,
        "certainty": round(each.certainty, 4),
    }
