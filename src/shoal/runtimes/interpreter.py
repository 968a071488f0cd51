"""The interpreter: one epoch of a compiled program in this thread, every stream and every lane once."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shoal.compiler.lane import Lane
from shoal.compiler.late import late_letters
from shoal.compiler.program import Program
from shoal.compiler.query_failure import lane_failure, raise_instead
from shoal.compiler.router import Router
from shoal.compiler.shedding.whole_windows import shed_by_windows
from shoal.compiler.spatial.lane_arrivals import NO_ARRIVALS, lane_arrivals
from shoal.compiler.watermarks import Reading
from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.refused_rows import refused_rows
from shoal.connectors.sources.source import Cursor, Offset, Slice, Source, open_partitions, rows_of
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.model.control.messages import RefusedRows
from shoal.model.control.shedding import NO_SHEDDING, ShedCount, StreamShedding, added
from shoal.model.control.snapshot import Arrivals, InstanceLoad
from shoal.model.query.graph import InstanceId
from shoal.runtimes.admitted import AdmittedStream
from shoal.runtimes.shedder import shedder_of

EMPTY: Mapping[str, int] = {}


class Interpreted:
    """One epoch: its input, and its results by table.

    `marks` are the watermarks before it, `now_us` is its processing time; rows too far ahead of `wall_us` are refused,
    by default of the processing time. `shedding`: which rows are shed. Call `read` for every stream, then `computed`
    once.
    """

    parallelism = 1
    """Into how many slices the rows of a stream are cut."""

    def __init__(
        self,
        program: Program,
        marks: Mapping[str, int],
        now_us: int,
        wall_us: int | None = None,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
    ) -> None:
        """Nothing read yet."""
        self._wall_us = now_us if wall_us is None else wall_us
        self.rows, self.refused = 0, defaultdict[str, int](int)
        self.results: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._fresh: dict[int, list[Tables]] = defaultdict(list)
        self._program, self._before, self._now_us = program, marks, now_us
        self._shedding = shedding
        self.shed: dict[str, ShedCount] = {}
        self.arrivals: Arrivals = NO_ARRIVALS

    def read(self, stream: str, source: Source, cursor: Cursor, start: Offset, end: Offset) -> list[Reading]:
        """Admit and route the rows of a stream between two offsets; returns what was read of its partitions."""
        opened, ended = open_partitions(end), bool(end["ended"])
        if stream not in self._program.inputs or start == end:
            return [Reading(stream, open=opened, ended=ended)] if ended else []
        pieces = cursor.slices(start, end, self.parallelism)
        return [Reading(stream, self._slice(stream, source, each), each.partition, opened, ended) for each in pieces]

    def _slice(self, stream: str, source: Source, piece: Slice) -> int:
        """Admit and route the rows of a slice; returns the newest event time among them."""
        shedder = shedder_of(stream, self._program.inputs[stream].time, self._shedding)
        admitted, router = AdmittedStream(self._program, stream, self._wall_us, shedder=shedder), self._router()
        for block in map(admitted.block, rows_of(source, piece, self._program.wanted(stream))):
            if block is not None:
                router.take(stream, block, piece.partition)
        self.rows += admitted.rows
        if shedder is not None:
            self.shed = added(self.shed, [(stream, shedder.count)])
        self._collect(router, admitted.dead, admitted.refused)
        return admitted.newest_us

    def computed(self, state: dict[int, Tables], marks: Mapping[str, int]) -> dict[InstanceId, InstanceLoad]:
        """Apply the input to the state, lane by lane in order of depth; returns the load of every instance."""
        loads: dict[InstanceId, InstanceLoad] = {}
        for lane in sorted(self._program.lanes, key=lambda lane: lane.depth):
            if lane.kernel is not None:
                began_s, sent = time.perf_counter(), self._fresh[lane.number]
                fresh = lane.kernel.concatenated(sent) if sent else {}
                if lane.kernel.by_place:
                    self.arrivals = {**self.arrivals, **lane_arrivals(lane, fresh)}
                marks_us = lane.watermark_us(self._before), lane.watermark_us(marks)
                try:
                    state[lane.number], results = self._advanced(lane, state.get(lane.number, {}), fresh, *marks_us)
                except Exception as error:  # noqa: BLE001  (any failure is one of the lane's queries)
                    raise_instead(lane_failure(self._program, lane, error), error)
                router = self._router()
                router.emit(lane, results)
                self._collect(router)
                loads.update(_loads(lane, fresh, state[lane.number], results, time.perf_counter() - began_s))
        return loads

    @property
    def refused_rows(self) -> tuple[RefusedRows, ...]:
        """Dead letters by stream, reason and column."""
        return refused_rows(self.results.get(DEAD_LETTERS, ()))

    def _advanced(
        self, lane: Lane, state: Tables, fresh: Tables, before_us: int, after_us: int
    ) -> tuple[Tables, Block]:
        """State and results of a lane after its input; a subclass may divide the work."""
        return lane.advanced(state, fresh, before_us, after_us)

    def _router(self) -> Router:
        bound, shed = [0] * len(self._program.instances), shed_by_windows(self._shedding)
        return Router(self._program, bound, self._before, self._now_us, shed)

    def _collect(self, router: Router, dead: Iterable[Any] = (), refused: Mapping[str, int] = EMPTY) -> None:
        """Distribute what a router holds: rows for lanes, results, and late rows."""
        for parcel in router.parcels():
            self._fresh[parcel.lane].append({parcel.table: parcel.content})
        late = [late_letters(lane, rows, self._program.inputs) for lane, rows in router.late]
        letters = [*dead, *late]
        for table, batches in {**router.results, **({DEAD_LETTERS: letters} if letters else {})}.items():
            self.results[table] += batches
        for reason, number in (*refused.items(), *(("late", batch.num_rows) for batch in late)):
            self.refused[reason] += number


def held_bytes(state: Tables, size: int) -> npt.NDArray[np.float64]:
    """The bytes of the state of each of so many instances; rows of a table count alike."""
    held = np.zeros(size)
    for table in state.values():
        held += np.bincount(table.instance, minlength=size) * (table.nbytes / max(1, len(table)))
    return held


def _loads(lane: Lane, fresh: Tables, state: Tables, results: Block, took_s: float) -> dict[InstanceId, InstanceLoad]:
    """The load of each instance of a lane; time is divided in proportion to events and results."""
    size = len(lane.instances)
    events, held = np.zeros(size), held_bytes(state, size)
    for table in fresh.values():
        events += table.events(size)
    emitted = np.bincount(results.columns[INSTANCE], minlength=size)
    cost_s = took_s * (events + emitted) / max(1.0, float((events + emitted).sum()))
    values = zip(events.tolist(), cost_s.tolist(), emitted.tolist(), held.tolist(), strict=True)
    return {i: InstanceLoad(int(e), c, r, int(h)) for i, (e, c, r, h) in zip(lane.instances, values, strict=True)}
