"""Fits of epochs on Spark: what the parts of an epoch cost, by epochs of different sizes.

An epoch takes the time of its reading tasks, of its worker tasks round by round, and of everything around them: Spark's
jobs, the driver, the commit. Tasks report their own times; what is left of the epoch is the driver's. In a small epoch
the driver does the work of all workers itself, one after another, which has costs of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.program import Program
from shoal.runtimes.measured.cost_fit import (
    HELD_OUT,
    LEAST_TURNS,
    FittedCost,
    Floats,
    fitted,
    relative_error,
    turns_of,
    usual,
)

READING, LANE, WORKER, DRIVER, BETWEEN = "reading task", "lane", "worker task", "driver", "between epochs"
SMALL_WORKER, SMALL_DRIVER = "worker of small epoch", "driver of small epoch"
PARTS_OF = {
    READING: ("fixed_s", "event_s"),
    LANE: ("fixed_s", "event_s", "result_s", "state_byte_s", "pair_s"),
    WORKER: ("fixed_s", "state_byte_s"),
    DRIVER: ("fixed_s", "event_s", "result_s"),
    SMALL_WORKER: ("fixed_s", "state_byte_s"),
    SMALL_DRIVER: ("fixed_s", "result_s"),
    BETWEEN: ("fixed_s",),
}
"""What the cost of a part may depend on."""
Part = tuple[str, Any]
"""The kind of a part, and the stream or lane that it belongs to."""


@dataclass(frozen=True)
class Work:
    """One piece of work of a part: what it took and gave, and its time. Events of the driver are its tasks.

    `pairs`: the events of every instance times the bytes of its state, by which joins and patterns compare.
    """

    events: int
    results: int
    bytes: int
    seconds: float
    pairs: float = 0.0


@dataclass(frozen=True)
class MeasuredEpoch:
    """An epoch: its time, the time since the one before, and the pieces of work of its tasks.

    `rounds` has for each round the pieces of each worker: by lane, and the rest of its task under None. `small`: the
    driver did the work of the workers.
    """

    rows: int
    results: int
    duration_s: float
    between_s: float
    reading: Sequence[tuple[str, Work]]
    rounds: Sequence[Sequence[Mapping[int | None, Work]]]
    small: bool = False

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.reading) + (0 if self.small else sum(len(workers) for workers in self.rounds))

    @property
    def driver(self) -> Part:
        """What is left of the epoch beside its tasks."""
        return (SMALL_DRIVER if self.small else DRIVER), None

    def part(self, lane: int | None) -> Part:
        """The part of a worker's piece: that of a lane, or of the rest of its task."""
        return (LANE, lane) if lane is not None else (SMALL_WORKER if self.small else WORKER, None)


Seconds = Callable[[Part, Work], float]


def _time_s(epoch: MeasuredEpoch, slots: int, seconds: Seconds) -> float:
    """The time of the tasks of an epoch: reading tasks share the slots, a round takes as long as its last worker.

    In a small epoch workers follow each other.
    """
    reading = [seconds((READING, stream), work) for stream, work in epoch.reading]
    reading_s = max(*reading, sum(reading) / slots) if reading else 0.0
    rounds_s = 0.0
    for workers in epoch.rounds:
        spent = [sum(seconds(epoch.part(number), work) for number, work in pieces.items()) for pieces in workers]
        rounds_s += sum(spent) if epoch.small else max(*spent, sum(spent) / slots)
    return reading_s + rounds_s


def _works(epochs: Sequence[MeasuredEpoch], slots: int) -> dict[Part, list[Work]]:
    """All pieces of work by part."""
    found: dict[Part, list[Work]] = {}
    for epoch in epochs:
        for stream, work in epoch.reading:
            found.setdefault((READING, stream), []).append(work)
        for workers in epoch.rounds:
            for pieces in workers:
                for number, work in pieces.items():
                    found.setdefault(epoch.part(number), []).append(work)
        driver_s = max(0.0, epoch.duration_s - _time_s(epoch, slots, lambda _part, work: work.seconds))
        found.setdefault(epoch.driver, []).append(Work(epoch.tasks, epoch.results, 0, driver_s))
        if epoch.between_s:
            found.setdefault((BETWEEN, None), []).append(Work(0, 0, 0, epoch.between_s))
    return found


def _fits(works: Mapping[Part, Sequence[Work]]) -> dict[Part, FittedCost]:
    found = {}
    for part, pieces in works.items():
        columns, seconds = _columns(pieces), np.array([work.seconds for work in pieces])
        kept = _kept(part, columns, seconds)
        found[part] = fitted(columns[kept], seconds[kept], PARTS_OF[part[0]])
    return found


def _columns(pieces: Sequence[Work]) -> Floats:
    amounts = ([w.events for w in pieces], [w.results for w in pieces], [w.bytes for w in pieces])
    return turns_of(*amounts, pairs=[w.pairs for w in pieces])


def _kept(part: Part, columns: Floats, seconds: Floats) -> NDArray[np.bool_]:
    """The pieces of work to fit: not those that waited for a processor or for memory; but all of a lane."""
    return np.ones(len(seconds), bool) if part[0] == LANE else usual(columns, seconds, PARTS_OF[part[0]])


def modelled_s(epoch: MeasuredEpoch, slots: int, fits: Mapping[Part, FittedCost]) -> float:
    """The time of an epoch by the fits, without the time between epochs."""

    def seconds(part: Part, work: Work) -> float:
        return float((_columns([work]) @ fits.get(part, FittedCost()).parts)[0])

    return seconds(epoch.driver, Work(epoch.tasks, epoch.results, 0, 0.0)) + _time_s(epoch, slots, seconds)


def _error(epochs: Sequence[MeasuredEpoch], slots: int) -> float | None:
    """The relative error of the time of held-out epochs, modelled without them."""
    if len(epochs) < LEAST_TURNS:
        return None
    in_order = sorted(epochs, key=lambda epoch: epoch.rows)
    held = in_order[HELD_OUT // 2 :: HELD_OUT]
    fits = _fits(_works([epoch for at, epoch in enumerate(in_order) if at % HELD_OUT != HELD_OUT // 2], slots))
    found_s = sum(modelled_s(epoch, slots, fits) for epoch in held)
    return relative_error(found_s, sum(epoch.duration_s for epoch in held))


def epochs_section(
    program: Program, epochs: Sequence[MeasuredEpoch], slots: int, runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What was measured, and the fitted cost of every part, as plain data."""
    works = _works(epochs, slots)
    fits = _fits(works)
    return {
        "measured": len(epochs),
        "slots": slots,
        "stages": 1 + max(1, program.depth),
        "runs": list(runs),
        "parts": [_described(program, part, works[part], fits[part]) for part in sorted(works, key=_order)],
        "error": _error(epochs, slots),
    }


def _order(part: Part) -> tuple[int, str]:
    return list(PARTS_OF).index(part[0]), f"{part[1]!s:>8}"


def _described(program: Program, part: Part, works: Sequence[Work], cost: FittedCost) -> dict[str, Any]:
    kind, of = part
    columns, seconds = _columns(works), np.array([work.seconds for work in works])
    slow = ~_kept(part, columns, seconds)
    taken, given = sum(work.events for work in works), sum(work.results for work in works)
    found = {
        "name": kind if of is None else f"{kind} {of}",
        "kind": kind,
        "turns": len(works),
        "events_in": taken,
        "events_out": given,
        "bytes": sum(work.bytes for work in works),
        "seconds": round(float(seconds.sum()), 6),
        "slow_turns": {"turns": int(slow.sum()), "seconds": round(float(seconds[slow].sum()), 6)},
        "cost": cost.data(),
        "error": cost.error,
    }
    if kind == READING:
        found["stream"] = of
    if kind == LANE:
        found |= {"lane": of, "selectivity": given / taken if taken else 0.0}
        found["operators"] = sorted({str(each).rpartition("/")[0] for each in program.lanes[of].instances})
    return found
