"""A query of the study on lazy migration in a run: its moves, and the latencies of its results."""

import math
import tempfile
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from measures.migration.moving_query import EPOCH_S, ORIGIN_US, WEIGHTS, MovingQuery
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import Run, start

MECHANISMS = ("all-at-once", "rhino", "megaphone", "meces", "lazy-latency")
"""The mechanisms that the study compares."""
NOTHING = ""
"""Instead of a mechanism: nothing moves."""


class CountedSink(MemorySink):
    """Also tells how many rows a table got in an epoch."""

    def rows(self, table: str, epoch: int) -> int:
        """The rows of one epoch."""
        return self._parts[table][epoch].num_rows if epoch in self._parts[table] else 0


@dataclass
class Outcome:
    """What a migration did: its moves, and of every table the latencies of its results, by epoch.

    `latency`: the time of each epoch, its results and the sum of their latencies. `joined_s`: of every result of a join
    when the row came that found it.
    """

    moves: tuple[MoveReport, ...] = ()
    latency: dict[str, list[tuple[float, int, float]]] = field(default_factory=dict)
    digest: str = ""
    joined_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def delay_s(self, table: str) -> float:
        """The sum of the latencies of all results of a table."""
        return sum(total for _, _, total in self.latency.get(table, ()))

    def move(self, operator: str) -> MoveReport:
        """The move of an operator, by its kind."""
        return next(each for each in self.moves if operator in str(each.instance))


def kept(trial: MovingQuery, mechanism: str) -> float:
    """Of the results of rows that come after the disconnection, the share that is there all the same."""
    since_s = trial.begin_s + trial.gone_s
    ours = outcome(trial, mechanism).joined_s
    theirs = outcome(replace(trial, gone_s=math.inf), NOTHING).joined_s
    return float((ours >= since_s).sum() / (theirs >= since_s).sum())


@cache
def outcome(trial: MovingQuery, mechanism: str) -> Outcome:
    """Run a trial with a mechanism, or without a migration."""
    sink, found = CountedSink(), Outcome()
    source = Generator(trial.events(), trial.events().at_us.size, "event-time")
    job = Job.of("migration", trial.queries(), {"events": source})

    def act(run: Run, event: EpochCommitted) -> None:
        if mechanism and event.at_s >= trial.begin_s and not begun:
            begun.append(run.rebind(Binding.of(dict.fromkeys(run.instances, 1), 2)))
        for table, mean_s in event.snapshot.latency_s.items():
            rows = sink.rows(table, event.epoch)
            found.latency.setdefault(table, []).append((event.at_s, rows, mean_s * rows))

    begun = list[str]()
    with tempfile.TemporaryDirectory(prefix="shoal-migration-") as directory:
        machine = Path(directory) / "machine.yaml"
        machine.write_text(trial.topology, encoding="utf-8")
        conf = {
            "topology": str(machine),
            "detail": "rows",
            "delay": "uniform",
            "weights": WEIGHTS,
            "source": "outside",
            "step_s": "0.002",
            "epoch_s": str(EPOCH_S),
        }
        workers = 1 if trial.gone_s == math.inf else 2  # something must be left to go on with
        run = start(
            job,
            on="simulated",
            workers=workers,
            sink=sink,
            policy="round-robin",
            mechanism=mechanism or None,
            conf=conf,
        )
        run.wait(act)
    found.moves = tuple(move for event in run.finished for move in event.moves)
    if "joined" in sink.names():
        at_us = sink.table("joined")["at_right"].cast(pa.int64()).to_numpy()
        found.joined_s = (at_us - ORIGIN_US) / 1e6
    found.digest = result_digest({name: sink.table(name) for name in sink.names()})
    return found
