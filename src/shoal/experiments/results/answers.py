"""Whether the results of trials are right, which is found out before any of their numbers is shown.

With `oracle`, every trial must have been compared with the batch oracle and be equal; a trial that was not is right if
its digests are those of an equal trial of the same point. With `same`, points with the same input must have the same
tables with the same digests:

1. Parameters say what the input is, or how it is processed. The input is meant by names with a word of `INPUT_WORDS`,
   such as `events`, `seed`, `query_id` or `set.hot`. Points that agree in all of those have the same input.
2. All repetitions of a point must agree.
3. Among points with the same input, one that equals the oracle, or ran on `duckdb`, is the reference; points that
   differ from it are wrong. Without a reference all of them are wrong if any two differ, since nobody knows which.
4. A table that another point with the same input has, and this one has not, is a difference.

A function that measures several inputs under other names puts them in the names of its tables.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.experiments.experiment import ENGINE, Answers, Parameters, Scalar, TrialOutcome

BATCH_ENGINE = "duckdb"
INPUT_WORDS = frozenset(
    (
        *("data", "dataset", "events", "input", "queries", "query", "rows", "scale", "scenario"),
        *("seconds", "seed", "set", "stream", "window", "workload"),
    )
)
"""A parameter with one of these words in its name says what is computed; all others say how."""
WRONG, FAILED, UNSUPPORTED = "WRONG", "FAILED", "not supported"
Digests = Mapping[str, str]


@dataclass(frozen=True)
class AnswerVerdict:
    """What is known of a point's results; its numbers are shown only if they are right."""

    text: str
    right: bool = True
    reason: str = ""


@dataclass(frozen=True)
class PointOutcomes:
    """A point, and the outcomes of its trials."""

    parameters: Parameters
    outcomes: Sequence[TrialOutcome]

    @property
    def finished(self) -> list[TrialOutcome]:
        """The outcomes of trials that did not fail."""
        return [each for each in self.outcomes if not each.failure]

    @property
    def digests(self) -> Digests:
        """The digest of every table of the first trial that has any."""
        return next((each.answers for each in self.finished if each.answers), {})


def verdicts(answers: Answers, points: Mapping[str, PointOutcomes]) -> dict[str, AnswerVerdict]:
    """The verdict on every point."""
    found = {key: _alone(answers, point) for key, point in points.items()}
    if answers != "same":
        return found
    groups = defaultdict(list)
    for key, point in points.items():
        if found[key].text not in (FAILED, UNSUPPORTED):
            groups[same_input(point.parameters)].append(key)
    for keys in groups.values():
        comparable = {key: points[key] for key in keys if found[key].right}
        found |= _compared(comparable)
    return found


def same_input(parameters: Parameters) -> tuple[tuple[str, Scalar], ...]:
    """The parameters that say what is computed.

    >>> same_input({"engine": "flink", "events": 10, "query_id": 3, "workers": 2, "set.hot": 1})
    (('events', 10), ('query_id', 3), ('set.hot', 1))
    """
    return tuple(
        (name, value) for name, value in sorted(parameters.items()) if INPUT_WORDS & set(re.split(r"[\W_]+", name))
    )


def _alone(answers: Answers, point: PointOutcomes) -> AnswerVerdict:
    """What the trials of a point tell without those of others."""
    finished = point.finished
    if finished and all(each.unsupported for each in finished):
        return AnswerVerdict(UNSUPPORTED, reason=finished[0].unsupported)
    if not finished:
        return AnswerVerdict(
            FAILED, right=False, reason=next((each.failure for each in point.outcomes), "no trial has run")
        )
    if any(each.oracle == "different" for each in finished):
        return AnswerVerdict(WRONG, right=False, reason="its results differ from the oracle's")
    digests = [each.answers for each in finished if each.answers]
    if answers != "none" and any(each != digests[0] for each in digests):
        return AnswerVerdict(WRONG, right=False, reason="its results change from repetition to repetition")
    equal = [each for each in finished if each.oracle == "equal"]
    if answers == "oracle":
        known = {tuple(sorted(each.answers.items())) for each in equal if each.answers}
        unknown = [
            each for each in finished if each.oracle != "equal" and tuple(sorted(each.answers.items())) not in known
        ]
        if unknown:
            return AnswerVerdict("not checked", right=False, reason="its results were not compared with the oracle's")
    return AnswerVerdict("equal" if equal else "")


def _compared(points: Mapping[str, PointOutcomes]) -> dict[str, AnswerVerdict]:
    """The verdicts on points with the same input, each right in itself."""
    checked = {key for key, point in points.items() if any(each.oracle == "equal" for each in point.finished)}
    given = {key: point.digests for key, point in points.items() if point.digests or key not in checked}
    found = {key: AnswerVerdict("equal") for key in checked}
    if not any(given.values()):
        return found | {key: AnswerVerdict("") for key in given if key not in checked}
    if len({tuple(sorted(digests.items())) for digests in given.values()}) == 1:
        alone = AnswerVerdict("same") if len(given) > 1 else AnswerVerdict("not compared")
        return dict.fromkeys(given, alone) | found
    batch = [key for key in given if points[key].parameters.get(ENGINE) == BATCH_ENGINE]
    reference = next((key for key in (*sorted(checked & given.keys()), *batch)), None)
    if reference is None:
        reason = f"results differ, and none is known to be right: {_parties(given)}"
        return {key: AnswerVerdict(WRONG, right=False, reason=reason) for key in given} | found
    wanted = given[reference]
    for key, digests in given.items():
        right = digests == wanted
        reason = "" if right else f"its results differ from those of {reference}: {_difference(digests, wanted)}"
        found[key] = AnswerVerdict(
            "same" if right and key not in checked else "equal" if right else WRONG, right, reason
        )
    return found


def _parties(given: Mapping[str, Digests]) -> str:
    """Who agrees with whom."""
    groups = defaultdict(list)
    for key, digests in given.items():
        groups[tuple(sorted(digests.items()))].append(key)
    return " / ".join(", ".join(keys) for keys in groups.values())


def _difference(got: Digests, wanted: Digests) -> str:
    for name in sorted({*got, *wanted}):
        if name not in got:
            return f"it has no table {name!r}"
        if name not in wanted:
            return f"table {name!r} is not expected"
        if got[name] != wanted[name]:
            return f"table {name!r}"
    return ""
