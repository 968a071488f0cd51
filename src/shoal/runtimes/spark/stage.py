"""The stateful side: one task per worker and round brings what has come to its instances' state, and answers.

A graph whose operators with state lie one behind another needs a round for each: round n runs the lanes of depth n,
sends their answers on to the lanes behind them, and passes everything meant for later rounds through.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.block import Block
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.kernels.panes import PaneTable
from shoal.kernels.table import INSTANCE, Table, Tables
from shoal.model.graph import InstanceId
from shoal.query.lane import ENDED, NOW, Lane
from shoal.query.program import Program
from shoal.query.router import Router
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Plan
from shoal.runtimes.spark.outbox import Outbox, WireRow
from shoal.runtimes.spark.segment import Part, chosen, table_from
from shoal.runtimes.spark.store import StateStore

OLDEST_EPOCHS = 32
"""A quiet instance's state is written anew after so many epochs, so that few segments stay alive."""


MOVED = -(1 << 60)
"""Epoch of state that another worker wrote: always old enough to be written anew here."""
HOT_SWEEP_EPOCHS = 50
"""Every so many epochs a worker lets go of hot copies that are no longer needed on its machine."""


@lru_cache(maxsize=4)
def open_store(checkpoint: str) -> StateStore:
    """The process's store for a checkpoint, with its cache."""
    return StateStore(checkpoint)


@dataclass
class Stage:
    """One worker's part of one round of an epoch."""

    program: Program
    plan: Plan
    worker: int
    store: StateStore
    depth: int = 1
    _fresh: dict[int, list[Tables]] = field(default_factory=lambda: defaultdict(list))
    _headers: list[dict[str, Any]] = field(default_factory=list)
    _pass_on: list[WireRow] = field(default_factory=list)
    _loads: dict[str, list[Any]] = field(default_factory=dict)

    def run(self, rows: Iterable[pa.RecordBatch]) -> Iterator[WireRow]:
        """Do the round's work of this worker."""
        began = time.perf_counter()
        for batch in rows:
            self._receive(batch)
        yield from self._pass_on
        watermarks = advanced_watermarks(self.program, self.plan, self._headers)
        loading = time.perf_counter()
        self.store.forget({ref.segment for ref in self.plan.states}, self.plan.epoch)
        states, origins, foreign = self._load()
        loaded_s = time.perf_counter() - loading
        parts: list[Part] = []
        gone: list[InstanceId] = []
        router = Router(self.program, self.plan.binding, self.plan.watermarks_us, self.plan.now_us)
        for lane in self._lanes():
            before, after = (lane.watermark_us(marks) for marks in (self.plan.watermarks_us, watermarks))
            tables, touched = self._advance(lane, states.get(lane.number, {}), before, after, router)
            self._keep(lane, tables, touched, origins, parts, gone)
        outbox = Outbox(router, self.plan.workers)
        yield from outbox.rows()
        segment, size = self.store.write(self.plan.epoch, self.worker, parts) if parts else ("", 0)
        report = {
            "segment": segment,
            "bytes": size,
            "instances": list(dict.fromkeys(instance for part in parts for instance in part.instances)),
            "gone": gone,
            "foreign_bytes": foreign,
            "loads": self._loads,
            "load_s": loaded_s,
            "cost_s": time.perf_counter() - began,
            "watermarks_us": watermarks,
            "refused": outbox.refused,
        }
        if self.worker == 0 and self.depth == 1:
            report["headers"] = self._headers
        yield self.worker, wire.REPORT, wire.pack_data(report)
        if self.depth == 1 and self.plan.epoch % HOT_SWEEP_EPOCHS == HOT_SWEEP_EPOCHS - 1:
            self.store.trim_hot({ref.segment for ref in self.plan.states}, self.plan.epoch)

    def _lanes(self) -> Iterator[Lane]:
        return (lane for lane in self.program.lanes if lane.kernel and lane.depth == self.depth)

    def _receive(self, batch: pa.RecordBatch) -> None:
        last = self.depth >= self.program.depth
        for address, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            content = payload.as_buffer()
            if address == wire.HEADER:
                self._headers.append(wire.unpack_data(content.to_pybytes()))
                if not last:
                    self._pass_on.append((self.worker, address, content.to_pybytes()))
                continue
            lane, table = wire.lane_and_table(address)
            if address >= 0 and self.program.lanes[lane].depth == self.depth:
                self._fresh[lane].append({table: table_from(wire.unpack(content))})
            else:
                self._pass_on.append((self.worker, address, content.to_pybytes()))

    def _load(self) -> tuple[dict[int, Tables], dict[InstanceId, int], int]:
        """State tables per lane, the epoch each instance's state was written in (never, if another worker wrote it),
        and the bytes that other workers had written.
        """
        mine = self._bound()
        found: dict[int, list[Tables]] = defaultdict(list)
        origins: dict[InstanceId, int] = {}
        foreign = 0
        for ref in self.plan.states:
            if self.worker not in ref.workers:
                continue
            current = None if ref.instances is None else set(ref.instances)
            epoch, writer = (int(text) for text in ref.segment.split("-")[:2])
            for part in self.store.read(ref.segment):
                wanted: dict[int, dict[InstanceId, int]] = defaultdict(dict)
                for instance in part.instances:
                    if instance in mine and (current is None or instance in current):
                        lane, number = mine[instance]
                        wanted[lane][instance] = number
                        origins[instance] = epoch if writer == self.worker else MOVED
                for lane, numbers in wanted.items():
                    table = chosen(part, numbers)
                    found[lane].append({part.table: table})
                    foreign += table.nbytes if writer != self.worker else 0
        states = {lane: self._together(lane, tables) for lane, tables in found.items()}
        return states, origins, foreign

    def _together(self, lane: int, tables: list[Tables]) -> Tables:
        kernel = self.program.lanes[lane].kernel
        return kernel.together(tables) if kernel and tables else {}

    def _bound(self) -> dict[InstanceId, tuple[int, int]]:
        """The lane and number of every instance of this round that is bound to this worker."""
        return {
            instance: (lane.number, number)
            for lane in self._lanes()
            for number, instance in enumerate(lane.instances)
            if self.plan.binding[self.program.first_instances[lane.number] + number] == self.worker
        }

    def _advance(
        self, lane: Lane, state: Tables, before_us: int, after_us: int, router: Router
    ) -> tuple[Tables, NDArray[np.bool_]]:
        """A lane's new state, and which of its instances changed; its answers go to the router."""
        began = time.perf_counter()
        size = len(lane.instances)
        events = _per_instance(self._fresh[lane.number], size)
        fresh = self._together(lane.number, self._fresh[lane.number])
        tables, answers = lane.advanced(state, fresh, before_us, after_us)
        router.answered(lane, answers)
        touched = events > 0
        for number in {*state, *tables}:
            before, after = (_rows_per_instance(each.get(number), size) for each in (state, tables))
            touched |= before != after
        self._measure(lane, events, answers, tables, time.perf_counter() - began)
        return tables, touched

    def _measure(self, lane: Lane, events: NDArray[np.int64], answers: Block, tables: Tables, cost_s: float) -> None:
        """Split the lane's time over its instances by the rows each had."""
        size = len(lane.instances)
        rows = sum((_rows_per_instance(table, size) for table in tables.values()), np.zeros(size, np.int64))
        results = np.bincount(answers.columns[INSTANCE], minlength=size)
        busy = np.flatnonzero((events > 0) | (rows > 0) | (results > 0))
        weight = (events + rows + results)[busy]
        shares = cost_s * weight / max(1, weight.sum())
        row_bytes = sum(table.nbytes for table in tables.values()) / max(1, int(rows.sum()))
        self._loads[str(lane.number)] = [
            busy.tolist(),
            events[busy].tolist(),
            np.round(shares, 9).tolist(),
            results[busy].tolist(),
            (rows[busy] * row_bytes).astype(np.int64).tolist(),
        ]

    def _keep(
        self,
        lane: Lane,
        tables: Tables,
        touched: NDArray[np.bool_],
        origins: Mapping[InstanceId, int],
        parts: list[Part],
        gone: list[InstanceId],
    ) -> None:
        """Write what changed, and what lies in segments that should be let go."""
        size = len(lane.instances)
        held = sum((_rows_per_instance(table, size) for table in tables.values()), np.zeros(size, np.int64)) > 0
        too_old = self.plan.epoch - OLDEST_EPOCHS
        stale = np.array([origins.get(instance, self.plan.epoch) < too_old for instance in lane.instances], bool)
        write = held & (touched | stale)
        gone += [lane.instances[n] for n in np.flatnonzero(~held).tolist() if lane.instances[n] in origins]
        numbers = np.flatnonzero(write)
        if not numbers.size:
            return
        new_number = np.full(size, -1, np.int64)
        new_number[numbers] = np.arange(numbers.size)
        instances = tuple(lane.instances[n] for n in numbers.tolist())
        for number, table in tables.items():
            renumbered = new_number[table.instance]
            parts.append(Part(instances, number, table.with_instances(renumbered).where(renumbered >= 0)))


def _rows_per_instance(table: Table | None, size: int) -> NDArray[np.int64]:
    return np.zeros(size, np.int64) if table is None else np.bincount(table.instance, minlength=size)


def _per_instance(fresh: Iterable[Tables], size: int) -> NDArray[np.int64]:
    """Events behind what has come, per instance."""
    total = np.zeros(size, np.int64)
    for tables in fresh:
        for table in tables.values():
            if isinstance(table, PaneTable):
                np.add.at(total, table.instance, table.slots[0])
            else:
                total += np.bincount(table.instance, minlength=size)
    return total


def advanced_watermarks(program: Program, plan: Plan, headers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Watermarks after an epoch: the newest event of each stream less its lateness, never backwards.

    Among them are the processing clock, and a mark for every stream that has ended.
    """
    after = dict(plan.watermarks_us)
    after[NOW] = max(after.get(NOW, NEVER_US), plan.now_us)
    for header in headers:
        stream = header["stream"]
        if stream not in program.inputs:
            continue
        if header.get("flush"):
            after[stream] = after[NOW] = FOREVER_US
        elif header["newest_us"] > NEVER_US:
            mark = header["newest_us"] - program.inputs[stream].lateness_us
            after[stream] = max(after.get(stream, NEVER_US), mark)
        if header["slice"].get("ended"):
            after[ENDED + stream] = 0
    return after
