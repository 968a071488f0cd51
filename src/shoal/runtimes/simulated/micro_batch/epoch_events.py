"""Events of simulated epochs: what the driver would report of each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shoal.connectors.admission import DEAD_LETTERS
from shoal.model.control.binding import Move
from shoal.model.control.histogram import Histogram
from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.control.snapshot import Arrivals, Snapshot
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.simulated.input.timed import Written
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork, Floats
from shoal.runtimes.simulated.micro_batch.timeline import Bound, Timeline
from shoal.runtimes.simulated.workers import Workers

LATENCIES = 16
"""Due times that the results of an epoch are spread over, between its first row and its last."""
GONE = "its query was removed"


@dataclass(frozen=True, eq=False)
class PlayedEpoch:
    """An epoch: when its input was fixed, what it had to do, where, and when that was done."""

    number: int
    fixed_s: float
    work: EpochWork
    bound: Bound
    times: Timeline
    instance_s: Floats

    def latency(self) -> Histogram:
        """The latency of every result, from when the row that completed it was due.

        Rows of an epoch are due at even distances, and so are its results taken to be.
        """
        histogram, results = Histogram(), sum(self._results().values())
        first_s, last_s = self.work.due_s
        for due_s, times in zip(np.linspace(first_s, last_s, LATENCIES).tolist(), _shares(results), strict=True):
            if times:
                histogram.record(self.times.commit_s - due_s, times)
        return histogram

    def _results(self) -> dict[str, int]:
        return {table: rows for table, rows in self.work.written.items() if table != DEAD_LETTERS and rows}

    def snapshot(self, now: Arrangement, workers: Workers, marks: Mapping[str, int], arrivals: Arrivals) -> Snapshot:
        """All instances during the epoch."""
        work = self.work
        loads = LoadColumns(
            now.program.instances,
            work.events,
            self.instance_s / self.bound.slots.machine.host_speed[self.bound.home[self.bound.worker]],
            work.results,
            work.state_bytes.astype(np.int64),
            np.zeros(len(work.events), np.int64),
        )
        mean_s = self.times.commit_s - sum(work.due_s) / 2
        return Snapshot(
            self.number,
            now.binding,
            loads,
            {stream: mark for stream, mark in marks.items() if stream in now.program.inputs},
            self.times.duration_s,
            dict.fromkeys(self._results(), mean_s),
            tuple(self.times.busy_s.tolist()),
            workers.topology,
            now.graph,
            now.partitioning,
            arrivals,
        )

    def committed(self, snapshot: Snapshot, written: Written, moves: int) -> EpochCommitted:
        """The event of the commit."""
        times, moved = self.times, self.bound.source >= 0
        return EpochCommitted(
            epoch=self.number,
            rows=written.rows,
            results=sum(self._results().values()),
            dead_letters=self.work.written.get(DEAD_LETTERS, 0),
            moves=moves,
            state_bytes=int(self.work.state_bytes.sum()),
            state_bytes_moved=int(self.bound.held_bytes[moved].sum()),
            duration_s=times.duration_s,
            latency_s=times.commit_s - self.fixed_s,
            compute_s=float(times.reading_work_s + times.busy_s.sum() - times.loading_s.sum()),
            migration_s=float(times.moved_s - times.begin_s + times.loading_s.sum()),
            policy_s=0.0,
            snapshot=snapshot,
            refusals=dict(written.refusals),
            refused_rows=written.refused_rows,
            shed=written.shed,
            shedding=written.shedding,
            latency=self.latency(),
            at_s=times.commit_s,
        )

    def reports(self, now: Arrangement, moves: Iterable[Move]) -> tuple[MoveReport, ...]:
        """What became of moves that were made before the epoch."""
        place = {instance: number for number, instance in enumerate(now.program.instances)}
        return tuple(self._report(move, place.get(move.instance)) for move in moves)

    def _report(self, move: Move, place: int | None) -> MoveReport:
        if place is None:
            return MoveReport(move.instance, move.source, move.target, aborted=GONE)
        if self.bound.source[place] < 0:
            return MoveReport(move.instance, move.source, move.target)
        frozen_s = self.times.moved_s - self.times.begin_s + self.times.loading_s[self.bound.worker[place]]
        size = int(self.bound.held_bytes[place])
        return MoveReport(move.instance, move.source, move.target, size, frozen_s=float(frozen_s))


def _shares(results: int) -> list[int]:
    """A number divided into as many whole parts as there are latencies, as even as possible."""
    ends = [results * part // LATENCIES for part in range(LATENCIES + 1)]
    return [end - begin for begin, end in pairwise(ends)]
