"""Profiles of Spark runs: epochs of different sizes, of which the costs of their parts are fitted.

Epochs are measured with the workers' part in tasks and, as in usual runs, in the driver where they are small enough.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.compiler.program import Program, compile_graph
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import EpochCommitted, RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.protocol import Say
from shoal.runtimes.spark.cluster.session import spark_session, use_own_python
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.runtimes.spark.driver.small_epochs import MOST_S, MOST_SENT_BYTES, MOST_STATE_BYTES, SmallEpochs
from shoal.runtimes.spark.epoch_fit import MeasuredEpoch, Work, epochs_section
from shoal.runtimes.spark.state.checkpoint import EpochPlan

SIZES = (1.0, 1 / 4, 1 / 16, 1 / 256)
"""The sizes of epochs, relative to the largest."""
EPOCHS = 10
"""Epochs of each size."""
FEWEST_LARGEST = 6
"""Into at least so many of the largest epochs a stream is divided."""
WARM_UP = 2
"""The first epochs of a run, which do not count."""
WARMING = 20
"""Epochs before any that is measured, of each kind: Spark's JVM compiles what it runs often."""
SMALL = {"most_s": MOST_S, "most_sent_bytes": MOST_SENT_BYTES, "most_state_bytes": MOST_STATE_BYTES}
"""Which epochs Spark's driver finishes itself; a simulation asks the profile."""


class _Run(NamedTuple):
    """Epochs to measure: their size, the workers, and whether the driver may finish small ones."""

    size: float
    workers: int
    small: bool


class _Recorded(NamedTuple):
    """An epoch as it was reported, and whether the driver finished it."""

    event: EpochCommitted
    outcome: Outcome
    small: bool


@dataclass
class _NotedSmall(SmallEpochs):
    """Decides as usual, and remembers whether the last epoch was small."""

    is_small: bool = False

    def expects(self, position: Position, *, has_code: bool) -> bool:
        """Whether the next epoch should be small."""
        self.is_small = False
        return super().expects(position, has_code=has_code)

    def fits(self, rows: pa.Table) -> bool:
        """Whether it is."""
        self.is_small = super().fits(rows)
        return self.is_small


class RecordingRunner(EpochRunner):
    """A runner that keeps what the tasks of every epoch reported."""

    recorded: list[_Recorded]

    def __init__(self, *args: Any, small: SmallEpochs | None = None, **kwargs: Any) -> None:
        """Begin as usual."""
        self._noted = None if small is None else _NotedSmall(small.spark)
        super().__init__(*args, small=self._noted, **kwargs)

    def _event(self, plan: EpochPlan, outcome: Outcome, duration_s: float) -> EpochCommitted:
        event = super()._event(plan, outcome, duration_s)
        self.recorded.append(_Recorded(event, outcome, self._noted is not None and self._noted.is_small))
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
    for small in (False, True):
        warming = {name: _sized(each, SIZES[2], WARMING) for name, each in sources.items()}
        _measured(session, graph, program, warming, _Run(SIZES[2], max(2, slots), small))
    for run in _runs(sources, slots):
        sized = {name: _sized(source, run.size, EPOCHS + WARM_UP) for name, source in sources.items()}
        where = ", small ones in the driver" if run.small else ""
        tell(f"measuring epochs of {run.size:.3g} of the largest size, workers: {run.workers}{where} ...")
        found = _measured(session, graph, program, sized, run)
        kept = found[WARM_UP:] if len(found) > WARM_UP else found
        epochs += kept
        runs.append(
            {
                **run._asdict(),
                "epochs": len(kept),
                "small_epochs": sum(epoch.small for epoch in kept),
                "rows": sum(epoch.rows for epoch in kept),
                "duration_s": float(np.mean([epoch.duration_s for epoch in kept])) if kept else None,
            }
        )
    return {"on": "spark", "epochs": {**epochs_section(program, epochs, slots, runs), "small": SMALL}}


def _runs(sources: Mapping[str, Source], slots: int) -> list[_Run]:
    """What to measure; sources that are not generated have one size."""
    most = max(2, slots)
    if not any(isinstance(source, Generator) for source in sources.values()):
        return [_Run(1.0, most, small=False), _Run(1.0, most, small=True), _Run(1.0, 1, small=False)]
    sized = [_Run(size, most, small) for small in (False, True) for size in SIZES]
    return [*sized, _Run(SIZES[2], 1, small=False)]


def _sized(source: Source, size: float, epochs: int) -> Source:
    """A source of so many epochs that have a share of the largest size, if it is generated."""
    if not isinstance(source, Generator) or source.events is None:
        return source
    largest = max(1, min(source.rows_per_epoch, source.events // FEWEST_LARGEST))
    rows = max(1, int(largest * size))
    return replace(source, rate=None, rows_per_epoch=rows, events=min(source.events, rows * epochs))


def _measured(
    session: Any, graph: Graph, program: Program, sources: Mapping[str, Source], run: _Run
) -> list[MeasuredEpoch]:
    recorded: list[_Recorded] = []
    runner = type("Recorder", (RecordingRunner,), {"recorded": recorded})
    with tempfile.TemporaryDirectory(prefix="shoal-profile-") as directory:
        checkpoint = str(Path(directory) / "checkpoint")
        runtime = SparkRuntime(SparkSetup(session, checkpoint, sources, MemorySink(), small_epochs=run.small))
        runtime.runner = runner
        runtime.start(graph, round_robin(graph, run.workers))
        for event in runtime.events():
            if isinstance(event, RunEnded) and event.error is not None:
                raise event.error
    found, before_s = [], None
    for each in recorded:
        began_s = each.event.at_s - each.event.duration_s
        between_s = 0.0 if before_s is None else max(0.0, began_s - before_s)
        if each.event.rows:
            found.append(_epoch(program, each, between_s))
        before_s = each.event.at_s
    return found


def _epoch(program: Program, recorded: _Recorded, between_s: float) -> MeasuredEpoch:
    event, outcome = recorded.event, recorded.outcome
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
    return MeasuredEpoch(event.rows, event.results, event.duration_s, between_s, reading, in_order, recorded.small)
