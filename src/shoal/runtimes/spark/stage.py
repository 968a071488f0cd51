"""The stateful side: one task per worker merges partials into its instances' state and answers closed windows."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.aggregate import FOREVER_US, INSTANCE, NEVER_US
from shoal.kernels.panes import PaneTable
from shoal.model.graph import InstanceId
from shoal.query.lane import Lane
from shoal.query.program import Program
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Plan
from shoal.runtimes.spark.segment import Part, chosen
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
    """One worker's part of one epoch."""

    program: Program
    plan: Plan
    worker: int
    store: StateStore
    _partials: dict[int, list[PaneTable]] = field(default_factory=lambda: defaultdict(list))
    _headers: list[dict[str, Any]] = field(default_factory=list)
    _pass_on: list[tuple[int, int, bytes]] = field(default_factory=list)
    _loads: dict[str, list[Any]] = field(default_factory=dict)

    def run(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
        """Do the epoch's work of this worker."""
        began = time.perf_counter()
        for batch in rows:
            self._receive(batch)
        yield from self._pass_on
        watermarks = advanced_watermarks(self.program, self.plan.watermarks_us, self._headers)
        loading = time.perf_counter()
        states, origins, foreign = self._load()
        loaded_s = time.perf_counter() - loading
        parts: list[Part] = []
        gone: list[InstanceId] = []
        for lane in self.program.lanes:
            if lane.kernel is None:
                continue
            before = self.plan.watermarks_us.get(lane.stream, NEVER_US)
            table, touched, rows_out = self._advance(lane, states, before, watermarks.get(lane.stream, NEVER_US))
            yield from rows_out
            self._keep(lane, table, touched, origins, parts, gone)
        segment, size = self.store.write(self.plan.epoch, self.worker, parts) if parts else ("", 0)
        report = {
            "segment": segment,
            "bytes": size,
            "instances": [instance for part in parts for instance in part.instances],
            "gone": gone,
            "foreign_bytes": foreign,
            "loads": self._loads,
            "load_s": loaded_s,
            "cost_s": time.perf_counter() - began,
            "watermarks_us": watermarks,
        }
        if self.worker == 0:
            report["headers"] = self._headers
        yield self.worker, wire.REPORT, wire.pack_data(report)
        if self.plan.epoch % HOT_SWEEP_EPOCHS == HOT_SWEEP_EPOCHS - 1:
            self.store.trim_hot({ref.segment for ref in self.plan.states}, self.plan.epoch)

    def _receive(self, batch: pa.RecordBatch) -> None:
        for lane, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            content = payload.as_buffer()
            if lane >= 0:
                self._partials[lane].append(PaneTable.from_arrow(wire.unpack(content)))
            elif lane == wire.HEADER:
                self._headers.append(wire.unpack_data(content.to_pybytes()))
            else:
                self._pass_on.append((self.worker, lane, content.to_pybytes()))

    def _load(self) -> tuple[dict[int, list[PaneTable]], dict[InstanceId, int], int]:
        """State rows per lane, the epoch each instance's state was written in (never, if another worker wrote it),
        and the bytes that other workers had written.
        """
        mine = self._bound()
        states: dict[int, list[PaneTable]] = defaultdict(list)
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
                    states[lane].append(table)
                    foreign += table.nbytes if writer != self.worker else 0
        return states, origins, foreign

    def _bound(self) -> dict[InstanceId, tuple[int, int]]:
        """The lane and number of every instance bound to this worker."""
        every = (
            (lane.number, n, i) for lane in self.program.lanes if lane.kernel for n, i in enumerate(lane.instances)
        )
        return {
            instance: (lane, number)
            for (lane, number, instance), worker in zip(every, self.plan.binding, strict=True)
            if worker == self.worker
        }

    def _advance(
        self, lane: Lane, states: Mapping[int, list[PaneTable]], before_us: int, after_us: int
    ) -> tuple[PaneTable, NDArray[np.bool_], list[tuple[int, int, bytes]]]:
        """A lane's new state, which of its instances changed, and its result rows."""
        began = time.perf_counter()
        old, fresh = states.get(lane.number, []), self._partials[lane.number]
        size = len(lane.instances)
        table, answers = lane.advanced([*old, *fresh], before_us, after_us)
        events = _per_instance(fresh, size)
        rows_before = sum((np.bincount(t.instance, minlength=size) for t in old), np.zeros(size, np.int64))
        rows_after = np.bincount(table.instance, minlength=size)
        touched = (events > 0) | (rows_before != rows_after)
        out = []
        for outlet in lane.outlets:
            rows = outlet.rows(answers) if answers.length else None
            if rows is not None and rows.num_rows:
                out.append((self.worker, wire.RESULT, wire.pack(rows, outlet.table)))
        self._measure(lane, events, answers.columns[INSTANCE], table, time.perf_counter() - began)
        return table, touched, out

    def _measure(
        self,
        lane: Lane,
        events: NDArray[np.int64],
        answered: NDArray[np.int64],
        table: PaneTable,
        cost_s: float,
    ) -> None:
        """Split the lane's time over its instances by the rows each had."""
        size = len(lane.instances)
        rows = np.bincount(table.instance, minlength=size)
        results = np.bincount(answered, minlength=size)
        busy = np.flatnonzero((events > 0) | (rows > 0) | (results > 0))
        weight = (events + rows + results)[busy]
        shares = cost_s * weight / max(1, weight.sum())
        row_bytes = table.nbytes / max(1, len(table))
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
        table: PaneTable,
        touched: NDArray[np.bool_],
        origins: Mapping[InstanceId, int],
        parts: list[Part],
        gone: list[InstanceId],
    ) -> None:
        """Write what changed, and what lies in segments that should be let go."""
        held = np.bincount(table.instance, minlength=len(lane.instances)) > 0
        too_old = self.plan.epoch - OLDEST_EPOCHS
        stale = np.array([origins.get(instance, self.plan.epoch) < too_old for instance in lane.instances], bool)
        write = held & (touched | stale)
        gone += [lane.instances[n] for n in np.flatnonzero(~held).tolist() if lane.instances[n] in origins]
        numbers = np.flatnonzero(write)
        if not numbers.size:
            return
        new_number = np.full(len(lane.instances), -1, np.int64)
        new_number[numbers] = np.arange(numbers.size)
        renumbered = new_number[table.instance]
        kept = table.with_instances(renumbered).where(renumbered >= 0)
        parts.append(Part(tuple(lane.instances[n] for n in numbers.tolist()), kept))


def _per_instance(tables: Iterable[PaneTable], size: int) -> NDArray[np.int64]:
    """Events behind partial tables, per instance."""
    total = np.zeros(size, np.int64)
    for table in tables:
        np.add.at(total, table.instance, table.slots[0])
    return total


def advanced_watermarks(
    program: Program, before_us: Mapping[str, int], headers: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """Watermarks after an epoch: the newest event of each stream less its lateness, never backwards."""
    after = dict(before_us)
    for header in headers:
        stream = header["stream"]
        if header.get("flush"):
            after[stream] = FOREVER_US
        elif header["newest_us"] > NEVER_US:
            mark = header["newest_us"] - program.inputs[stream].lateness_us
            after[stream] = max(after.get(stream, NEVER_US), mark)
    return after
