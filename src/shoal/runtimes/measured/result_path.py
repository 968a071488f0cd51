"""Result paths: where the time of results goes, from when their oldest event was due until the sink has them.

From the turn that emits a result, the turns that led to it are followed back to the source: of every place before, the
last turn with events that had ended when the next one began. The same is done for real and simulated turns.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

PARTS = {
    "source": "until the source reads the oldest event: it waits for a poll, a block or a worker",
    "read_work": "processor time of the source and of the operators before any state",
    "read_lock": "the rest of their time: the worker waits for the interpreter lock or a processor",
    "turn": "between two turns on the way: nobody takes the next one yet",
    "state_work": "processor time of operators with state, and of all behind them",
    "state_lock": "the rest of their time",
    "sink": "from the end of the last turn until the sink has the result",
}
"""The parts of the time of a result, and what each is."""


@dataclass(frozen=True)
class Emission:
    """Results that a place emitted at a time: how many, when their oldest event was due, and when the sink had them."""

    place: int
    at_s: float
    results: int
    due_s: float
    delivered_s: float


@dataclass
class PlaceTurns:
    """The turns with events at one place, in order: when they began and ended, and their processor time.

    `keeps`: whether operators with state are there, or before it.
    """

    keeps: bool
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    work_s: list[float] = field(default_factory=list)

    def add(self, began_s: float, ended_s: float, work_s: float) -> None:
        """Add a turn that began after all others."""
        self.begins.append(began_s)
        self.ends.append(ended_s)
        self.work_s.append(work_s)

    def extend(self, ended_s: float, work_s: float) -> None:
        """Let the last turn end later, with more work."""
        self.ends[-1] = ended_s
        self.work_s[-1] += work_s

    def last_before(self, moment_s: float) -> int | None:
        """The last turn that had ended by a moment."""
        at = bisect_right(self.ends, moment_s) - 1
        return at if at >= 0 else None

    def around(self, moment_s: float) -> int | None:
        """The turn in which a moment was."""
        at = bisect_right(self.begins, moment_s) - 1
        return at if at >= 0 and moment_s <= self.ends[at] else None


@dataclass(frozen=True)
class ResultTimes:
    """The seconds of every part of `PARTS`, a row for each emission; and when that was, and of how many results."""

    seconds: NDArray[np.float64]
    at_s: NDArray[np.float64]
    results: NDArray[np.int64]

    def between(self, begin_s: float, end_s: float) -> "ResultTimes":
        """Those emitted between two moments."""
        chosen = (self.at_s > begin_s) & (self.at_s <= end_s)
        return ResultTimes(self.seconds[chosen], self.at_s[chosen], self.results[chosen])

    def mean_s(self) -> Mapping[str, float]:
        """The mean seconds of every part over all results; empty if there are none."""
        if not self.results.sum():
            return {}
        return dict(zip(PARTS, np.average(self.seconds, axis=0, weights=self.results).tolist(), strict=True))

    def percentile_s(self, percent: float) -> float:
        """The percentile of the whole time over all results; 0 if there are none."""
        if not self.results.sum():
            return 0.0
        total_s = self.seconds.sum(axis=1)
        order = np.argsort(total_s)
        counted = np.cumsum(self.results[order])
        return float(total_s[order][np.searchsorted(counted, percent / 100 * counted[-1])])


def result_times(
    emissions: Iterable[Emission], turns: Sequence[PlaceTurns], before: Sequence[Sequence[int]]
) -> ResultTimes:
    """Follow every emission back; those whose way the turns do not tell are left out.

    `before`: the places from which each place gets what it works on; none for a source.
    """
    rows, at_s, results = list[list[float]](), list[float](), list[int]()
    for emission in emissions:
        path = _path(emission, turns, before)
        if path:
            rows.append(_divided(emission, path, turns))
            at_s.append(emission.at_s)
            results.append(emission.results)
    return ResultTimes(
        np.array(rows, float).reshape(-1, len(PARTS)), np.array(at_s, float), np.array(results, np.int64)
    )


def _path(emission: Emission, turns: Sequence[PlaceTurns], before: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Places and their turns that led to an emission, from the sink to the source; empty if the trace does not tell."""
    place, at = emission.place, turns[emission.place].around(emission.at_s)
    path = []
    while at is not None:
        path.append((place, at))
        if not before[place]:
            return path
        began_s = turns[place].begins[at]
        ended = [(each, last) for each in before[place] if (last := turns[each].last_before(began_s)) is not None]
        if not ended:
            return []
        place, at = max(ended, key=lambda each: turns[each[0]].ends[each[1]])
    return []


def _divided(emission: Emission, path: Sequence[tuple[int, int]], turns: Sequence[PlaceTurns]) -> list[float]:
    """The time of an emission by part; what happened in the last turn after the delivery counts for nothing."""
    parts = dict.fromkeys(PARTS, 0.0)
    next_s = emission.delivered_s
    for number, (place, at) in enumerate(path):
        of_place = turns[place]
        ended_s = min(of_place.ends[at], next_s)
        began_s = min(ended_s, max(of_place.begins[at], emission.due_s))  # a source may make events in its turn
        stage = "state" if of_place.keeps else "read"
        work_s = min(of_place.work_s[at], ended_s - began_s)
        parts[f"{stage}_work"] += work_s
        parts[f"{stage}_lock"] += ended_s - began_s - work_s
        parts["turn" if number else "sink"] += next_s - ended_s
        next_s = began_s
    parts["source"] = next_s - emission.due_s
    return list(parts.values())
