"""Slowdown: what turns on several workers say about how much longer they take beside others.

1. For every number of other workers in a turn, the time of turns on the clock is fitted as a factor of the fixed part
   and of the work. A turn that works for long makes longer calls, not more, so that what it works beyond a millisecond
   has another factor.
2. Nodes differ in how many calls they make, so each has a factor of its own on its fixed part.
3. What is left is the variation of the fixed part of each node: its values, divided into equally many turns, smallest
   first. Hiccups are as long in short turns as in long ones, so that nodes cannot share a distribution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.measured.cost_fit import Floats, non_negative

Ints = NDArray[np.int64]

LEAST_TURNS = 30
"""With fewer turns, a number of busy workers counts as the one before it."""
NODE_TURNS = 15
"""With fewer turns, a node has no factor of its own."""
LARGEST_NODE_FACTOR = 5.0
WAITS = 64
"""The number of values that describe how the fixed part varies."""
LONG_S = 0.001
"""The work of a turn from which on it is long: one with more of it waits hardly more often for the lock."""
LEAST_LONG_TURNS = 5
"""With fewer long turns, a number of busy workers counts as the one before it."""
UNUSUAL = 0.25
"""How far the factor of work may be from that with one busy worker less: a standard deviation."""
MOST_SLOWER = 1.5
"""Work takes at most so many times as long as if all workers did theirs one after another, with cold caches."""


@dataclass(frozen=True, eq=False)
class ContendedTurns:
    """Turns on several workers, in columns: node, other active workers, modelled fixed part and work, and time.

    `wake_s`: how long the worker took to begin it, from when there was something to do; not a number if it was busy.
    `pause_s`: how long it took from its turn before, if there was something to do by then; else not a number.
    `beside`: other workers that were active when one of these began. `empty`: whether it brought only a watermark; such
    a turn counts for what comes before turns, and not for what these take. `closes`: whether a lane had results in it.
    """

    node: Ints
    others: Ints
    fixed_s: Floats
    work_s: Floats
    wall_s: Floats
    wake_s: Floats
    pause_s: Floats
    beside: Ints
    empty: NDArray[np.bool_]
    closes: NDArray[np.bool_]

    @property
    def full(self) -> "ContendedTurns":
        """The turns that are not empty."""
        return self.where(~self.empty)

    @property
    def plain(self) -> "ContendedTurns":
        """The turns that are neither empty nor closings."""
        return self.where(~self.empty & ~self.closes)

    @property
    def long_s(self) -> Floats:
        """What turns work beyond that of a short one."""
        return np.maximum(0.0, self.work_s - LONG_S)

    def modelled_s(self, factors: "Factors", of_node: Floats) -> float:
        """What all of them take by the factors, and those of nodes."""
        level = np.minimum(self.others, len(factors.turn) - 1)
        fixed_s = factors.turn[level] * self.fixed_s * of_node[self.node]
        return float((fixed_s + self.worked_s(factors)).sum())

    def worked_s(self, factors: "Factors") -> Floats:
        """What the work of turns takes."""
        level = np.minimum(self.others, len(factors.work) - 1)
        found: Floats = factors.work[level] * (self.work_s - self.long_s) + factors.long[level] * self.long_s
        return found

    @classmethod
    def none(cls) -> "ContendedTurns":
        """No turns."""
        no, none = np.zeros(0, np.int64), np.zeros(0)
        return cls(no, no, none, none, none, none, none, no, np.zeros(0, bool), np.zeros(0, bool))

    @classmethod
    def of(cls, runs: "Sequence[ContendedTurns]") -> "ContendedTurns":
        """The turns of some runs."""
        found = cls.none()
        for each in runs:
            found = found.and_also(each)
        return found

    def where(self, chosen: NDArray[np.bool_]) -> "ContendedTurns":
        """Some of the turns."""
        return ContendedTurns(**{name: column[chosen] for name, column in vars(self).items()})

    def and_also(self, other: "ContendedTurns") -> "ContendedTurns":
        """These turns and others."""
        return ContendedTurns(
            **{name: np.concatenate([column, getattr(other, name)]) for name, column in vars(self).items()}
        )


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of the fixed part of turns, of their work, and of their work beyond `LONG_S`, by other busy workers."""

    turn: Floats
    work: Floats
    long: Floats


@dataclass(frozen=True)
class Slowdown:
    """Factors of the work and of the fixed part of turns with 1, 2, ... busy workers; `long`: of work beyond `LONG_S`.

    `waits`: how the fixed part of each node varies, factors that occur equally often, 1 on average; by its number.
    `wake_ups`: seconds until an idle worker begins a turn, values that occur equally often. `deliveries`: seconds from
    the end of a turn with results until the sink has them. `pauses`: seconds between two turns of a worker that has
    more to do. All are by the number of other active workers.
    `closings`: what turns of a lane with results take longer than modelled, seconds that occur equally often.
    """

    work: tuple[float, ...]
    turn: tuple[float, ...]
    long: tuple[float, ...]
    waits: Mapping[int, tuple[float, ...]]
    wake_ups: tuple[tuple[float, ...], ...]
    deliveries: tuple[tuple[float, ...], ...]
    pauses: tuple[tuple[float, ...], ...]
    closings: Mapping[int, tuple[float, ...]]

    def data(self, names: Sequence[str]) -> dict[str, Any]:
        """The slowdown as plain data, with the names of nodes."""
        waits, closings = (
            {names[number]: values for number, values in each.items()} for each in (self.waits, self.closings)
        )
        return {**asdict(self), "waits": waits, "closings": closings}


def node_factors(turns: ContendedTurns, nodes: int, workers: int) -> Floats:
    """How much more than others the fixed part of every node is slowed down; 1 for nodes with few turns."""
    turns = turns.plain
    factors = _factors(turns, workers)
    level = np.minimum(turns.others, workers - 1)
    left_s = turns.wall_s - turns.worked_s(factors)
    modelled_s = np.bincount(turns.node, weights=factors.turn[level] * turns.fixed_s, minlength=nodes)
    measured_s = np.bincount(turns.node, weights=left_s, minlength=nodes)
    enough = (np.bincount(turns.node, minlength=nodes) >= NODE_TURNS) & (modelled_s > 0)
    ratio = np.where(enough, measured_s / np.where(modelled_s > 0, modelled_s, 1.0), 1.0)
    return np.clip(ratio, 1 / LARGEST_NODE_FACTOR, LARGEST_NODE_FACTOR)


def errors_of(runs: Sequence[ContendedTurns], turns: ContendedTurns, of_node: Floats, workers: int) -> list[float]:
    """How much too long the turns of every run are modelled, in all, by the factors of some turns."""
    turns, some = turns.plain, [run.plain for run in runs if run.plain.wall_s.sum() > 0]
    factors = _factors(replace(turns, fixed_s=turns.fixed_s * of_node[turns.node]), workers)
    return [run.modelled_s(factors, of_node) / float(run.wall_s.sum()) - 1 for run in some]


def slowdown(
    turns: ContendedTurns, of_node: Floats, workers: int, delivered: Sequence[tuple[int, float]] = ()
) -> Slowdown:
    """The slowdown with 1 to `workers` busy workers, given the factor of every node."""
    own = replace(turns, fixed_s=turns.fixed_s * of_node[turns.node])
    factors = _factors(own.plain, workers)
    work, turn, long = (tuple(np.round(each, 6).tolist()) for each in (factors.work, factors.turn, factors.long))
    took = np.array(delivered, float).reshape(-1, 2)
    waited = (turns.beside, turns.wake_s), (took[:, 0].astype(np.int64), took[:, 1]), (turns.beside, turns.pause_s)
    wake_ups, deliveries, pauses = (_by_level(beside, seconds, workers) for beside, seconds in waited)
    varied, closings = _waits(own.plain, factors), _closings(own.where(own.closes), factors)
    return Slowdown(work, turn, long, varied, wake_ups, deliveries, pauses, closings)


def _by_level(beside: Ints, seconds: Floats, workers: int) -> tuple[tuple[float, ...], ...]:
    """How long something takes beside 0, 1, ... other workers: values that occur equally often, in a row for each.

    Where there are too few, those of all numbers of workers count together.
    """
    known = ~np.isnan(seconds)
    beside, seconds = beside[known], seconds[known]
    together = _equally_often(seconds)
    usual = np.zeros(WAITS) if together is None else together
    rows = (_equally_often(seconds[beside == level]) for level in range(workers))
    return tuple(tuple(np.round(usual if row is None else row, 7).tolist()) for row in rows)


def _waits(turns: ContendedTurns, factors: Factors) -> dict[int, tuple[float, ...]]:
    """How the fixed part of every node varies that has enough turns: means of equal parts, 1 on average."""
    level = np.minimum(turns.others, len(factors.turn) - 1)
    left_s = np.maximum(turns.wall_s - turns.worked_s(factors), 0.0)
    found = {}
    for node in np.unique(turns.node).tolist():
        chosen = (turns.node == node) & (turns.fixed_s > 0)
        varied = _equally_often(left_s[chosen] / (factors.turn[level] * turns.fixed_s)[chosen])
        if varied is not None:
            found[node] = tuple(np.round(varied / varied.mean(), 4).tolist())
    return found


def _closings(turns: ContendedTurns, factors: Factors) -> dict[int, tuple[float, ...]]:
    """What turns of lanes with results take longer than modelled, by the number of the lane's node.

    Much of their code runs for the first time after a while, when it has left the caches, and releases the lock often.
    Values are not below 0, with the mean of all.
    """
    level = np.minimum(turns.others, len(factors.turn) - 1)
    more_s = turns.wall_s - factors.turn[level] * turns.fixed_s - turns.worked_s(factors)
    found = {}
    for node in np.unique(turns.node).tolist():
        of_node = more_s[turns.node == node]
        kept = np.maximum(of_node, 0.0)
        if len(of_node) >= NODE_TURNS and float(of_node.sum()) > 0:
            values = np.quantile(kept, (np.arange(WAITS) + 0.5) / WAITS)
            found[node] = tuple(np.round(values * float(of_node.mean() / values.mean()), 7).tolist())
    return found


def _factors(turns: ContendedTurns, workers: int) -> Factors:
    """Factors with 1, 2, ... busy workers, never smaller with more of them.

    While a worker waits, others work, so that no work takes much longer than that of all workers one after another.
    Workers that begin a turn meanwhile are not among those that are busy at its beginning. Where nearly all turns are
    long, the work of all has one factor.
    """
    turn, work, long = np.ones(workers), np.ones(workers), np.ones(workers)
    for level in range(workers):
        here, before = turns.where(turns.others == level), max(0, level - 1)
        turn[level], work[level], long[level] = turn[before], work[before], long[before]
        chosen = here.where(here.long_s <= 0)
        if len(chosen.wall_s) < LEAST_TURNS:
            chosen = here
        if len(chosen.wall_s) < LEAST_TURNS or not float(chosen.fixed_s.sum()) > 0:
            continue
        columns = np.column_stack([chosen.fixed_s, chosen.work_s])
        weight = 1 / np.sqrt(np.maximum(columns.sum(axis=1), 1e-9))
        of_work = _of_work(columns * weight[:, None], chosen.wall_s * weight, float(work[before]))
        work[level] = np.clip(of_work, work[before], MOST_SLOWER * workers)
        left_s = float((chosen.wall_s - work[level] * chosen.work_s).sum())
        turn[level] = max(turn[before], left_s / float(chosen.fixed_s.sum()))
        long[level] = _of_long(here, float(turn[level]), float(work[level]), float(long[before]))
    return Factors(turn, work, long)


def _of_work(columns: Floats, values: Floats, usual: float) -> float:
    """The factor of the second column, as far as turns tell; where they hardly do, the usual one.

    Both are weighed by their variance: that of the fit, and how far the factor may be from the usual one.
    """
    found = non_negative(columns, values)
    rest = values - columns @ found
    gram = columns.T @ columns
    if not np.linalg.det(gram) > 0:
        return usual
    variance = float(rest @ rest) / len(values) * float(np.linalg.inv(gram)[1, 1])
    own = UNUSUAL**2 / (UNUSUAL**2 + variance)
    return own * float(found[1]) + (1 - own) * usual


def _of_long(turns: ContendedTurns, turn: float, work: float, before: float) -> float:
    """The factor of work beyond that of short turns, between that with one busy worker less and that of their work."""
    long = turns.where(turns.long_s > 0)
    if len(long.wall_s) < LEAST_LONG_TURNS:
        return min(before, work)
    left_s = long.wall_s - turn * long.fixed_s - work * (long.work_s - long.long_s)
    return float(np.clip(left_s.sum() / long.long_s.sum(), min(before, work), work))


def _equally_often(values: Floats) -> Floats | None:
    """Values that occur equally often, as the means of equal parts, smallest first; None if there are too few."""
    if len(values) < WAITS or not float(values.sum()) > 0:
        return None
    return np.array([part.mean() for part in np.array_split(np.sort(values), WAITS)])
