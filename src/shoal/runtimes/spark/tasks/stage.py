"""The stateful side: one task per worker and round applies input to the state of its instances and emits results.

A chain of stateful operators needs one round for each: round n runs the lanes of depth n, sends their results to the
next lanes, and forwards everything addressed to later rounds.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.compiler.query_failure import lane_failure, raise_instead
from shoal.compiler.router import Router
from shoal.compiler.shedding.whole_windows import shed_by_windows
from shoal.compiler.spatial.lane_arrivals import lane_arrivals
from shoal.compiler.watermarks import Reading, advanced
from shoal.errors import RunError
from shoal.kernels.columns.parts import table_from_arrow
from shoal.kernels.columns.table import INSTANCE, Ints, Tables
from shoal.model.query.graph import InstanceId
from shoal.model.spatial.arrivals import TileArrivals
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.state.loading import LoadedState, ahead, concatenated, loaded
from shoal.runtimes.spark.state.postponed import Rest
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.state.writing import OLDEST_EPOCHS, REWRITE_BYTES, StateWriter
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.dropped import losses
from shoal.runtimes.spark.tasks.on_demand import OnDemand, rests
from shoal.runtimes.spark.tasks.outbox import Outbox, WireRow
from shoal.runtimes.spark.tasks.reports import HEADERS, REPORTS, Header, LaneReport, Report, lane_report, received
from shoal.runtimes.spark.tasks.sample import Sampler

NO_WORKER = -1
HOT_SWEEP_EPOCHS = 50
"""The number of epochs between two removals of hot copies that a machine no longer needs."""


@dataclass
class Stage:
    """One worker's part of one round of an epoch; `executor` is the one that runs it."""

    program: Program
    plan: EpochPlan
    worker: int
    store: StateStore
    depth: int = 1
    sampler: Sampler = field(default_factory=Sampler)
    executor: str = ""
    _fresh: dict[int, list[Tables]] = field(default_factory=lambda: defaultdict(list))
    _headers: list[Header] = field(default_factory=list)
    _pass_on: list[WireRow] = field(default_factory=list)
    _lanes: dict[int, LaneReport] = field(default_factory=dict)
    _rests: dict[InstanceId, Rest] = field(default_factory=dict)

    def run(self, rows: Iterable[pa.RecordBatch]) -> Iterator[WireRow]:
        """Run the round; yields wire rows, the worker's report last."""
        began = time.perf_counter()
        for batch in rows:
            self._receive(batch)
        yield from self._pass_on
        watermarks = advanced_watermarks(self.program, self.plan, self._headers)
        loading = time.perf_counter()
        self.store.forget({ref.segment for ref in self.plan.states}, self.plan.epoch)
        demand = OnDemand()
        if self.plan.postponed:
            demand = OnDemand.of(self.program, self.plan, self.worker, self.depth, self._fresh, watermarks)
        left_out = {*demand.waiting, *(each.instance for each in self.plan.dropped)}
        held = loaded(self.program, self.plan, self.worker, self.depth, self.store, left_out)
        held = demand.caught_up(self.program, held, self.plan.watermarks_us)
        loaded_s = time.perf_counter() - loading
        writer = StateWriter(self.plan.epoch, max(REWRITE_BYTES, held.nbytes // OLDEST_EPOCHS))
        soon = ahead(self.plan, self.worker if self.depth == 1 else NO_WORKER, demand.ahead())
        plan, shed = self.plan, shed_by_windows(self.plan.shedding)
        router = Router(self.program, plan.binding, plan.watermarks_us, plan.now_us, shed)
        for lane in self.program.lanes:
            if lane.kernel and lane.depth == self.depth:
                marks_us = lane.watermark_us(self.plan.watermarks_us), lane.watermark_us(watermarks)
                self._advance(lane, held, marks_us, router, writer)
        outbox = Outbox(router, self.plan.workers)
        yield from outbox.rows()
        segments = writer.write(self.store)
        report = Report(
            worker=self.worker,
            executor=self.executor,
            cost_s=time.perf_counter() - began,
            load_s=loaded_s,
            segments=segments,
            gone=tuple(writer.gone),
            moved_bytes=held.moved_bytes,
            late_bytes=held.late_bytes,
            arrived=held.arrived,
            fetched=demand.names,
            rests=self._rests,
            lost=dict(losses(self.program, self.plan, self.worker, self.depth, self.store)),
            ahead_bytes=sum(ref.bytes for ref in soon if not self.store.is_near(ref.segment)),
            lanes=self._lanes,
            watermarks_us=watermarks,
            refused=outbox.refused,
            headers=tuple(self._headers) if self.worker == 0 and self.depth == 1 else (),
        )
        yield self.worker, wire.REPORT, REPORTS.encode(report)
        self.store.read_ahead(ref.segment for ref in soon)
        if self.depth == 1 and self.plan.epoch % HOT_SWEEP_EPOCHS == HOT_SWEEP_EPOCHS - 1:
            self.store.trim_hot({ref.segment for ref in self.plan.states}, self.plan.epoch)

    def _receive(self, batch: pa.RecordBatch) -> None:
        last = self.depth >= self.program.depth
        if batch.num_rows and pc.min_max(batch.column("worker")).as_py() != {"min": self.worker, "max": self.worker}:
            raise RunError(f"worker {self.worker} received rows of another worker")
        for address, payload in zip(batch.column("lane").to_pylist(), batch.column("payload"), strict=True):
            content = payload.as_buffer()
            if address == wire.HEADER:
                self._headers.append(received(HEADERS, content.to_pybytes(), "a reading task"))
                if not last:
                    self._pass_on.append((self.worker, address, content.to_pybytes()))
                continue
            lane, table = wire.lane_and_table(address)
            if address >= 0 and self.program.lanes[lane].depth == self.depth:
                self._fresh[lane].append({table: table_from_arrow(wire.unpack(content))})
            else:
                self._pass_on.append((self.worker, address, content.to_pybytes()))

    def _advance(
        self, lane: Lane, held: LoadedState, marks_us: tuple[int, int], router: Router, writer: StateWriter
    ) -> None:
        """Apply the input of a lane to its state; results go to the router."""
        size, arrived = len(lane.instances), self._fresh[lane.number]
        state, fresh = held.tables.get(lane.number, {}), concatenated(self.program, lane.number, arrived)
        received, before = _counts(fresh, size), _counts(state, size)
        work = (received + before).sum(axis=0)
        alone = self.sampler.chosen(self.plan.graph, lane, work, self.plan.epoch)
        try:
            done = self.sampler.advanced(lane, state, fresh, marks_us, alone)
        except Exception as error:  # noqa: BLE001  (any failure is one of the lane's queries)
            raise_instead(lane_failure(self.program, lane, error), error)
        advancing_s = done.merged_s + sum(done.alone_s.values())
        self.sampler.learn(self.plan.graph, lane, work, advancing_s)
        began = time.perf_counter()
        router.emit(lane, done.results)
        emitting_s = time.perf_counter() - began
        after = _counts(done.tables, size)
        touched = (received > 0).any(axis=0) | (before != after).any(axis=0)
        touched[list(held.divided.get(lane.number, ()))] = True
        rows = after.sum(axis=0)
        state_bytes = np.ceil(rows * _row_bytes(done.tables)).astype(np.int64)
        first = self.program.first_instances[lane.number]
        owners = (self.plan.coming or self.plan.binding)[first : first + size]
        written = writer.keep(lane, done.tables, state_bytes, touched, held.origins, owners)
        if self.plan.on_demand:
            now = self.plan.binding[first : first + size]
            self._rests |= rests(lane, done.tables, now, owners, marks_us[1])
        results = np.bincount(done.results.columns[INSTANCE], minlength=size)
        came = received.sum(axis=0)
        carried = (came * _row_bytes(fresh)).astype(np.int64) + state_bytes * written
        events = _events(arrived, size)
        self._lanes[lane.number] = lane_report(
            events=events,
            rows=came + rows + results,
            results=results,
            state_bytes=state_bytes,
            carried_bytes=carried,
            advancing_s=advancing_s,
            emitting_s=emitting_s,
            alone_s=done.alone_s,
            arrivals=self._arrivals(lane, fresh),
        )

    def _arrivals(self, lane: Lane, fresh: Tables) -> list[TileArrivals]:
        """What came to the tiles of a lane, if its keys are cells."""
        if lane.kernel is None or not lane.kernel.by_place:
            return []
        return [came for several in lane_arrivals(lane, fresh).values() for came in several]


def _counts(tables: Tables, size: int) -> Ints:
    """Rows of every instance in each table."""
    counts = np.zeros((wire.TABLES, size), np.int64)
    for number, table in tables.items():
        counts[number] = np.bincount(table.instance, minlength=size)
    return counts


def _row_bytes(tables: Tables) -> float:
    """The mean size of a row."""
    return sum(table.nbytes for table in tables.values()) / max(1, sum(len(table) for table in tables.values()))


def _events(arrived: Iterable[Tables], size: int) -> Ints:
    """The number of input events per instance."""
    total = np.zeros(size, np.int64)
    for tables in arrived:
        for table in tables.values():
            total += table.events(size)
    return total


def advanced_watermarks(program: Program, plan: EpochPlan, headers: Iterable[Header]) -> dict[str, int]:
    """Marks after an epoch, from the headers of all its reading tasks: every worker computes the same."""
    readings = [
        Reading(each.stream, each.newest_us, each.slice.partition, each.slice.open, each.slice.ended, each.flush)
        for each in headers
    ]
    return advanced(program, plan.watermarks_us, readings, plan.now_us)
