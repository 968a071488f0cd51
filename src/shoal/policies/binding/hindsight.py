"""Hindsight: what the best binding could have done, computed from what every step really brought.

Nothing here can be used while a run goes on. It says how far a policy is from what is possible.
"""

from dataclasses import dataclass

import numpy as np

from shoal.errors import ConfigError
from shoal.policies.binding.loads import Floats, Ints


@dataclass(frozen=True, eq=False)
class Recorded:
    """The steps of a run: when each was due and could begin, and the work and results of every task, a row per step.

    `edges` has a row (from, to) for every pair of tasks of which the second waits for the first, in the same step.
    Tasks are numbered such that edges lead to higher numbers.
    """

    due_s: Floats
    begin_s: Floats
    work_s: Floats
    results: Ints
    edges: Ints

    def __post_init__(self) -> None:
        """Reject columns of different lengths, steps out of order and edges that lead back."""
        steps = len(self.due_s)
        if self.begin_s.shape != (steps,) or self.work_s.shape != self.results.shape or len(self.work_s) != steps:
            raise ConfigError(
                f"a record must have times, work and results of the same steps; got {steps} due times, "
                f"{len(self.begin_s)} begins, work of {self.work_s.shape} and results of {self.results.shape}"
            )
        if np.any(np.diff(self.begin_s) < 0) or np.any(self.begin_s < self.due_s):
            raise ConfigError("steps of a record must begin in order, none before it is due")
        if np.any(self.edges[:, 0] >= self.edges[:, 1]):
            raise ConfigError("edges of a record must lead from a task to one of a higher number")

    def alone_s(self, speed: float = 1.0) -> Floats:
        """When every task would be done if it never waited for a worker: only for its inputs and its own last step."""
        into = _inputs(self.edges)
        done_s, free_s = np.empty_like(self.work_s), np.full(self.work_s.shape[1], -np.inf)
        for step, begin_s in enumerate(self.begin_s.tolist()):
            busy = self.work_s[step] > 0
            started_s = np.maximum(free_s, begin_s)
            ended_s = np.where(busy, started_s + self.work_s[step] / speed, begin_s)
            for task, sources in into:
                if busy[task]:
                    started_s[task] = max(started_s[task], ended_s[sources].max())
                    ended_s[task] = started_s[task] + self.work_s[step, task] / speed
            done_s[step] = ended_s
            free_s[busy] = ended_s[busy]
        return done_s


def _inputs(edges: Ints) -> list[tuple[int, Ints]]:
    """Every task that waits for others, with those, in the order of tasks."""
    return [(int(task), edges[edges[:, 1] == task, 0]) for task in np.unique(edges[:, 1])]


@dataclass(frozen=True)
class LatencyBound:
    """A lower bound on the mean and the 99th percentile of the latency of results."""

    mean_s: float
    p99_s: float


def lower_bound(recorded: Recorded, workers: int, speed: float = 1.0) -> LatencyBound:
    """Latencies that no binding, queue or order of tasks can beat, as long as instances are not split.

    1. A task is done by one worker at a time, step by step, so its results are there no earlier than if it never
       waited for a worker.
    2. Every step taken alone, whatever else there is to do left out: all workers together do `workers * speed` seconds
       of work per second. Most results are there at any time if tasks with many results for their work come first, a
       part of a task counted as that part of its results.
    3. Both hold for the mean and for every percentile, so the larger of them is a bound.
    """
    steps, tasks = np.nonzero(recorded.results)
    number, work_s = recorded.results[steps, tasks], recorded.work_s[steps, tasks]
    own_s = recorded.alone_s(speed)[steps, tasks] - recorded.due_s[steps]
    order = np.lexsort((tasks, work_s / np.maximum(number, 1), steps))
    before_s = np.cumsum(work_s[order]) - work_s[order]
    first = np.searchsorted(steps, steps, side="left")
    shared_s = (recorded.begin_s - recorded.due_s)[steps] + (before_s - before_s[first]) / (workers * speed)
    bounds = [_summary(own_s, number), _summary(shared_s, number[order])]
    return LatencyBound(max(each.mean_s for each in bounds), max(each.p99_s for each in bounds))


def in_order(recorded: Recorded, workers: int, speed: float = 1.0) -> LatencyBound:
    """Latencies of a machine that divides all work evenly and does one step after another.

    Work left over at the end of a step is carried over. Tasks with the least work for their results come first, and a
    task is never done before it would be if it had a worker to itself. This is no lower bound: a real machine may do
    better by letting results of one step overtake other work of earlier ones.
    """
    alone_s, free_s = recorded.alone_s(speed), -np.inf
    latency_s, numbers = [np.zeros(0)], [np.zeros(0, np.int64)]
    for step, total_s in enumerate((recorded.work_s.sum(axis=1) / (workers * speed)).tolist()):
        start_s = max(float(recorded.begin_s[step]), free_s)
        free_s = start_s + total_s
        tasks = np.flatnonzero(recorded.results[step])
        number, work_s = recorded.results[step, tasks], recorded.work_s[step, tasks]
        order = np.argsort(work_s / number, kind="stable")
        done_s = start_s + np.cumsum(work_s[order]) / (workers * speed)
        latency_s.append(np.maximum(done_s, alone_s[step, tasks][order]) - recorded.due_s[step])
        numbers.append(number[order])
    return _summary(np.concatenate(latency_s), np.concatenate(numbers))


def _summary(latency_s: Floats, number: Ints) -> LatencyBound:
    """Mean and 99th percentile of latencies, each counted as often as it has results."""
    total = int(number.sum())
    if not total:
        return LatencyBound(0.0, 0.0)
    order = np.argsort(latency_s, kind="stable")
    place = int(np.searchsorted(np.cumsum(number[order]), 0.99 * total))
    return LatencyBound(float(latency_s @ number) / total, float(latency_s[order][min(place, len(order) - 1)]))


def longest_first(work_s: Floats, workers: int) -> Ints:
    """The worker of every instance: the one with most work first, each to the worker that has least so far (LPT).

    The busiest worker has at most 4/3 of what it would have under the best binding.

    >>> longest_first(np.array([3.0, 1.0, 2.0, 2.0]), workers=2).tolist()
    [0, 0, 1, 1]
    """
    placed, load_s = np.zeros(len(work_s), np.int64), np.zeros(workers)
    for place in np.argsort(-work_s, kind="stable").tolist():
        placed[place] = load_s.argmin()
        load_s[placed[place]] += work_s[place]
    return placed
