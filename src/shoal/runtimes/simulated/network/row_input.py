"""Row input: the rows of every step, admitted and divided by lane and instance, before any operator has seen them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.compiler.lane import BlockCache, Lane, Origin, Outlet
from shoal.compiler.late import late_letters
from shoal.compiler.program import Program
from shoal.compiler.query_failure import feed_failure, outlet_failure, raise_instead
from shoal.compiler.watermarks import Reading, advanced, partition_us
from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.refused_rows import refused_rows
from shoal.connectors.sources.source import Offset, Slice, Source, open_partitions, rows_of
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import NEVER_US
from shoal.model.control.shedding import NO_SHEDDING, ShedCount, StreamShedding, added
from shoal.model.query.schema import TIME
from shoal.runtimes.admitted import AdmittedStream
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.shedder import after_reading, shedder_of
from shoal.runtimes.simulated.input.real import divided_source
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.runtimes.simulated.input.timed import TimedInput

Clock = Callable[[NDArray[np.int64]], NDArray[np.int64]]
Addressed = tuple[int, int, int, Block]
"""Rows with their address: lane, instance within the lane, and port."""


@dataclass
class RowStep:
    """One step of a source: when its first event was due, its rows by address, and the marks after it.

    `newest_us`: the largest event time among its rows.
    """

    due_s: float
    marks: Mapping[str, int]
    rows: list[Addressed] = field(default_factory=list)
    newest_us: int = NEVER_US


class RowInput(TimedInput):
    """Reads steps; the rows of each are in `steps` until they are taken."""

    def __init__(
        self, sources: Mapping[str, Source], now_s: Callable[[], float], *, block_rows: int, step_s: float
    ) -> None:
        """Open the sources; nothing is read yet."""
        super().__init__({name: divided_source(each, block_rows) for name, each in sources.items()}, now_s, step_s)
        self.steps: list[RowStep] = []

    def planned(self, plan: TaskPlan) -> None:
        """Nothing: operators keep their own state."""

    def arranged(self, before: Arrangement, after: Arrangement) -> None:
        """Nothing: queries do not change."""

    def _step(self, plan: TaskPlan, source: int, now: Arrangement, end: Offset | None, due_s: float) -> Counts:
        program, stream = now.program, plan.streams[source]
        now_us = round(self._now_s() * 1e6)
        routes = Addresses(program, self._marks, now_us, self._shedding)
        readings, step = list[Reading](), RowStep(due_s, self._marks)
        if end is None:
            readings += [Reading(name, flush=True) for name in program.inputs]
        else:
            readings += self._read(routes, stream, end, step)
            self._offsets[stream] = end
        self._shedding = after_reading(self._shedding, readings)
        step.marks = self._marks = advanced(program, self._marks, readings, now_us)
        self.steps.append(step)
        rows = routes.rows
        self.written.rows += rows
        self.written.shed = added(self.written.shed, list(routes.shed.items()))
        for table, batches in routes.results.items():
            self.written.results.setdefault(table, []).extend(batches)
        for reason, number in routes.refused.items():
            self.written.refusals[reason] = self.written.refusals.get(reason, 0) + number
        self.written.refused_rows += refused_rows(routes.results.get(DEAD_LETTERS, ()))
        nothing = np.zeros(plan.number, np.int64)
        return Counts(source, due_s, rows, nothing, nothing, np.zeros(len(plan.instances)))

    def _read(self, routes: "Addresses", stream: str, end: Offset, step: RowStep) -> Iterator[Reading]:
        start, cursor, opened = self._offsets[stream], self._cursors[stream], open_partitions(end)
        if stream not in routes.program.inputs or start == end:
            if end["ended"]:
                yield Reading(stream, open=opened, ended=True)
            return
        for piece in cursor.slices(start, end, 1):
            newest_us = routes.read(stream, self._sources[stream], piece, step.rows)
            step.newest_us = max(step.newest_us, newest_us)
            yield Reading(stream, newest_us, piece.partition, opened, bool(end["ended"]))


class Addresses:
    """Where blocks go: to the instances of the lanes that they feed, and into result tables."""

    def __init__(
        self,
        program: Program,
        marks: Mapping[str, int],
        now_us: int,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
        clock: Clock | None = None,
    ) -> None:
        """By the watermarks before a step, its processing time, and which rows are shed.

        `clock`: the processing times of rows that operators have emitted, by their event times.
        """
        self.program, self._marks, self._now_us, self._shedding = program, marks, now_us, shedding
        self._clock = clock
        self.shed: dict[str, ShedCount] = {}
        self.rows, self.refused = 0, defaultdict[str, int](int)
        self.results: dict[str, list[pa.RecordBatch]] = defaultdict(list)

    def read(self, stream: str, source: Source, piece: Slice, addressed: list[Addressed]) -> int:
        """Admit the rows of a slice, and add them with their addresses; returns their largest event time."""
        shedder = shedder_of(stream, self.program.inputs[stream].time, self._shedding)
        wall_us = time.time_ns() // 1000  # recorded rows are in the past, wherever the simulated clock is
        admitted = AdmittedStream(self.program, stream, wall_us, shedder=shedder)
        for block in map(admitted.block, rows_of(source, piece, self.program.wanted(stream))):
            if block is not None:
                addressed += self.taken(stream, block, piece.partition)
        self.rows += admitted.rows
        if shedder is not None:
            self.shed = added(self.shed, [(stream, shedder.count)])
        for reason, number in admitted.refused.items():
            self.refused[reason] += number
        if admitted.dead:
            self.results[DEAD_LETTERS] += admitted.dead
        return admitted.newest_us

    def taken(self, origin: Origin, block: Block, partition: str = "") -> Iterator[Addressed]:
        """The rows of a block by address; late ones become dead letters, and those of lanes without state results."""
        cache: BlockCache = {}
        of_rows = partition_us(self._marks, origin, partition) if isinstance(origin, str) else NEVER_US
        for lane, feed in self.program.feeds.get(origin, ()):
            try:
                prepared = feed.prepared(block, cache)[1]
            except Exception as error:  # noqa: BLE001  (any failure is one of the queries behind)
                raise_instead(feed_failure(self.program, lane, feed, block, error), error)
            if lane.kernel is None:
                self.write(lane, prepared)
                continue
            if lane.processing:
                now_us = self._clock(prepared.columns[TIME]) if self._clock else np.full(prepared.length, self._now_us)
                prepared = Block({**prepared.columns, TIME: now_us}, prepared.length)
            if isinstance(origin, str):
                prepared = self._timely(lane, feed.port, prepared, lane.late_us(self._marks, of_rows))
            if prepared.length:
                instances = prepared.columns[INSTANCE]
                for number in np.unique(instances).tolist():
                    yield lane.number, number, feed.port, prepared.where(instances == number)

    def _timely(self, lane: Lane, port: int, block: Block, watermark_us: int) -> Block:
        if lane.kernel is None or not block.length:
            return block
        late = lane.kernel.late(port, block, watermark_us)
        if not late.any():
            return block
        self.refuse(lane, port, block.where(late))
        return block.where(~late)

    def refuse(self, lane: Lane, port: int, late: Block) -> None:
        """Turn late rows into dead letters."""
        if lane.kernel is None:
            return
        read = lane.kernel.reads(port) | {INSTANCE, TIME}
        columns = {name: column for name, column in late.columns.items() if name in read}
        self.results[DEAD_LETTERS].append(late_letters(lane, Block(columns, late.length), self.program.inputs))
        self.refused["late"] += late.length

    def write(self, lane: Lane, block: Block, outlets: Sequence[Outlet] | None = None) -> int:
        """Write rows into the result tables of a lane, or of some of its outlets; returns how many there were."""
        written = 0
        for outlet in (lane.outlets if outlets is None else outlets) if block.length else ():
            try:
                rows = outlet.rows(block)
            except Exception as error:  # noqa: BLE001  (any failure is one of the queries behind)
                raise_instead(outlet_failure(self.program, outlet, block, error), error)
            if rows.num_rows:
                self.results[outlet.table].append(rows)
                written += rows.num_rows
        return written
