"""Profiles of Spark runs: what the parts of an epoch cost, fitted to epochs of different sizes.

An epoch takes the time of its reading tasks, of its worker tasks round by round, and of everything around them: Spark's
jobs, the driver, the commit. Tasks report their own times; what is left of the epoch is the driver's.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.program import Program, compile_graph
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import EpochCommitted, RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
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
from shoal.runtimes.protocol import Say
from shoal.runtimes.spark.cluster.session import spark_session, use_own_python
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.runtimes.spark.state.checkpoint import EpochPlan

SIZES = (1.0, 1 / 4, 1 / 16, 1 / 256)
"""The sizes of epochs, relative to the largest."""
EPOCHS = 10
"""Epochs of each size."""
FEWEST_LARGEST = 6
"""Into at least so many of the largest epochs a stream is divided."""
WARM_UP = 2
"""The first epochs of a run, which do not count."""
READING, LANE, WORKER, DRIVER, BETWEEN = "reading task", "lane", "worker task", "driver", "between epochs"
PARTS_OF = {
    READING: ("fixed_s", "event_s"),
    LANE: ("fixed_s", "event_s", "result_s", "state_byte_s", "pair_s"),
    WORKER: ("fixed_s", "state_byte_s"),
    DRIVER: ("fixed_s", "event_s", "result_s"),
    BETWEEN: ("fixed_s",),
}
"""What the cost of a part may depend on."""


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

    `rounds` has for each round the pieces of each worker: by lane, and the rest of its task under None.
    """

    rows: int
    results: int
    duration_s: float
    between_s: float
    reading: Sequence[tuple[str, Work]]
    rounds: Sequence[Sequence[Mapping[int | None, Work]]]

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self.reading) + sum(len(workers) for workers in self.rounds)


@dataclass
class _Recorded:
    epochs: list[tuple[EpochCommitted, Outcome]] = field(default_factory=list)


class RecordingRunner(EpochRunner):
    """A runner that keeps what the tasks of every epoch reported."""

    recorded: _Recorded

    def _event(self, plan: EpochPlan, outcome: Outcome, duration_s: float) -> EpochCommitted:
        event = super()._event(plan, outcome, duration_s)
        self.recorded.epochs.append((event, outcome))
        return event


def epoch_costs(graph: Graph, sources: Mapping[str, Source], say: Say | None = None) -> dict[str, Any]:
    """Run a graph on Spark with epochs of several sizes, and fit what their parts cost."""
    tell: Say = say if say is not None else lambda _text: None
    tell("starting Spark ...")
    session = spark_session({})
    use_own_python(session)
    slots = int(session.sparkContext.defaultParallelism)
    program, epochs, runs = compile_graph(graph), [], []
    tell("warming Spark up ...")
    _measured(session, graph, program, {name: _sized(each, SIZES[1]) for name, each in sources.items()}, max(2, slots))
    for size, workers in _runs(sources, slots):
        sized = {name: _sized(source, size) for name, source in sources.items()}
        tell(f"measuring epochs of {size:.3g} of the largest size, workers: {workers} ...")
        found = _measured(session, graph, program, sized, workers)
        kept = found[WARM_UP:] if len(found) > WARM_UP else found
        epochs += kept
        runs.append(
            {
                "size": size,
                "workers": workers,
                "epochs": len(kept),
                "rows": sum(epoch.rows for epoch in kept),
                "duration_s": float(np.mean([epoch.duration_s for epoch in kept])) if kept else None,
            }
        )
    return {"on": "spark", "epochs": epochs_section(program, epochs, slots, runs)}


def _runs(sources: Mapping[str, Source], slots: int) -> list[tuple[float, int]]:
    """Sizes of epochs and numbers of workers; sources that are not generated have one size."""
    most = max(2, slots)
    if not any(isinstance(source, Generator) for source in sources.values()):
        return [(1.0, most), (1.0, 1)]
    return [*((size, most) for size in SIZES), (SIZES[2], 1)]


def _sized(source: Source, size: float) -> Source:
    """A source whose epochs have a share of the largest size, if it is generated."""
    if not isinstance(source, Generator) or source.events is None:
        return source
    largest = max(1, min(source.rows_per_epoch, source.events // FEWEST_LARGEST))
    rows = max(1, int(largest * size))
    return replace(source, rate=None, rows_per_epoch=rows, events=min(source.events, rows * (EPOCHS + WARM_UP)))


def _measured(
    session: Any, graph: Graph, program: Program, sources: Mapping[str, Source], workers: int
) -> list[MeasuredEpoch]:
    recorded = _Recorded()
    runner = type("Recorder", (RecordingRunner,), {"recorded": recorded})
    with tempfile.TemporaryDirectory(prefix="shoal-profile-") as directory:
        checkpoint = str(Path(directory) / "checkpoint")
        runtime = SparkRuntime(SparkSetup(session, checkpoint, sources, MemorySink(), small_epochs=False))
        runtime.runner = runner
        runtime.start(graph, round_robin(graph, workers))
        for event in runtime.events():
            if isinstance(event, RunEnded) and event.error is not None:
                raise event.error
    found, before_s = [], None
    for event, outcome in recorded.epochs:
        began_s = event.at_s - event.duration_s
        between_s = 0.0 if before_s is None else max(0.0, began_s - before_s)
        if event.rows:
            found.append(_epoch(program, event, outcome, between_s))
        before_s = event.at_s
    return found


def _epoch(program: Program, event: EpochCommitted, outcome: Outcome, between_s: float) -> MeasuredEpoch:
    rounds: dict[int, list[Mapping[int | None, Work]]] = {}
    for report in outcome.reports:
        pieces: dict[int | None, Work] = {}
        carried = 0
        for number, lane in report.lanes.items():
            spent_s = lane.advancing_s + lane.emitting_s
            pairs = sum(events * size for events, size in zip(lane.events, lane.state_bytes, strict=True))
            pieces[number] = Work(sum(lane.events), sum(lane.results), sum(lane.state_bytes), spent_s, float(pairs))
            carried += sum(lane.carried_bytes)
        rest_s = max(0.0, report.cost_s - sum(work.seconds for work in pieces.values()))
        pieces[None] = Work(0, 0, carried, rest_s)
        depth = max((program.lanes[number].depth for number in report.lanes), default=1)
        rounds.setdefault(depth, []).append(pieces)
    reading = [(each.stream, Work(each.rows, 0, 0, each.cost_s)) for each in outcome.headers]
    in_order = [rounds[depth] for depth in sorted(rounds)]
    return MeasuredEpoch(event.rows, event.results, event.duration_s, between_s, reading, in_order)


Part = tuple[str, Any]
"""The kind of a part, and the stream or lane that it belongs to."""
Seconds = Callable[[Part, Work], float]


def _time_s(epoch: MeasuredEpoch, slots: int, seconds: Seconds) -> float:
    """The time of the tasks of an epoch: reading tasks share the slots, a round takes as long as its last worker."""
    reading = [seconds((READING, stream), work) for stream, work in epoch.reading]
    reading_s = max(*reading, sum(reading) / slots) if reading else 0.0
    rounds_s = 0.0
    for workers in epoch.rounds:
        spent = [sum(seconds(_part(number), work) for number, work in pieces.items()) for pieces in workers]
        rounds_s += max(*spent, sum(spent) / slots)
    return reading_s + rounds_s


def _part(lane: int | None) -> Part:
    return (WORKER, None) if lane is None else (LANE, lane)


def _works(epochs: Sequence[MeasuredEpoch], slots: int) -> dict[Part, list[Work]]:
    """All pieces of work by part."""
    found: dict[Part, list[Work]] = {}
    for epoch in epochs:
        for stream, work in epoch.reading:
            found.setdefault((READING, stream), []).append(work)
        for workers in epoch.rounds:
            for pieces in workers:
                for number, work in pieces.items():
                    found.setdefault(_part(number), []).append(work)
        driver_s = max(0.0, epoch.duration_s - _time_s(epoch, slots, lambda _part, work: work.seconds))
        found.setdefault((DRIVER, None), []).append(Work(epoch.tasks, epoch.results, 0, driver_s))
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


def _modelled_s(epoch: MeasuredEpoch, slots: int, fits: Mapping[Part, FittedCost]) -> float:
    """The time of an epoch by the fits, without the time between epochs."""

    def seconds(part: Part, work: Work) -> float:
        return float((_columns([work]) @ fits.get(part, FittedCost()).parts)[0])

    driver = seconds((DRIVER, None), Work(epoch.tasks, epoch.results, 0, 0.0))
    return driver + _time_s(epoch, slots, seconds)


def _error(epochs: Sequence[MeasuredEpoch], slots: int) -> float | None:
    """The relative error of the time of held-out epochs, modelled without them."""
    if len(epochs) < LEAST_TURNS:
        return None
    in_order = sorted(epochs, key=lambda epoch: epoch.rows)
    held = in_order[HELD_OUT // 2 :: HELD_OUT]
    fits = _fits(_works([epoch for at, epoch in enumerate(in_order) if at % HELD_OUT != HELD_OUT // 2], slots))
    modelled_s = sum(_modelled_s(epoch, slots, fits) for epoch in held)
    return relative_error(modelled_s, sum(epoch.duration_s for epoch in held))


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
