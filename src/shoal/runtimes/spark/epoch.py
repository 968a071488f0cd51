"""One epoch on the driver: plan it, run it, write results, commit, clean up: all that a crash could interrupt."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import Sink
from shoal.model.binding import Binding, Move
from shoal.model.messages import EpochCommitted
from shoal.model.snapshot import Snapshot
from shoal.model.topology import Topology
from shoal.query.program import Program
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Checkpoint, Manifest, Plan, program
from shoal.runtimes.spark.costs import Costs
from shoal.runtimes.spark.position import Position
from shoal.runtimes.spark.stage import open_store
from shoal.runtimes.spark.tasks import stateful

SWEEP_EPOCHS = 100
"""Every so many epochs the state directory is searched for orphans."""


@dataclass(frozen=True)
class Outcome:
    """What came back from the workers."""

    results: Mapping[str, pa.Table]
    dead: pa.Table | None
    reports: list[Mapping[str, Any]]

    @property
    def headers(self) -> list[Mapping[str, Any]]:
        """What the reading tasks saw."""
        return next((report["headers"] for report in self.reports if "headers" in report), [])


class EpochRunner:
    """Takes a run from one position to the next."""

    def __init__(self, checkpoint: Checkpoint, sink: Sink, position: Position) -> None:
        """Begin at a position."""
        self.checkpoint = checkpoint
        self.position = position
        self._sink = sink
        self._store = open_store(checkpoint.uri)
        self._known_graphs: set[str] = set()
        self._costs = Costs()

    def plan(self, epoch: int, moves: list[Move]) -> Plan:
        """Fix what the epoch will do; an epoch that was planned before a crash is done as it was planned."""
        if self.checkpoint.has_plan(epoch):
            return self.checkpoint.plan(epoch)
        position = self.position
        digest = self.keep_graph()
        compiled = program(self.checkpoint.uri, digest)
        plan = Plan(
            epoch,
            digest,
            position.binding.workers,
            position.numbers(compiled),
            position.watermarks_us,
            position.states(),
            time.time_ns() // 1000,
            len(moves),
            position.declared,
            position.added,
            position.removed,
            tuple(sorted(position.ended)),
            self.checkpoint.offsets(epoch),
        )
        self.checkpoint.write_plan(plan)
        return plan

    def keep_graph(self) -> str:
        """Write the graph where every task can find it; returns its digest."""
        graph = self.position.graph
        if graph.digest not in self._known_graphs:
            self.checkpoint.write_graph(graph)
            self._known_graphs.add(graph.digest)
        return graph.digest

    def run(self, rows: DataFrame, plan: Plan, *, final: bool = False) -> EpochCommitted:
        """Run a planned epoch and commit it."""
        began = time.perf_counter()
        for depth in range(1, max(1, program(self.checkpoint.uri, plan.graph).depth) + 1):
            exchanged = rows.repartitionById(plan.workers, "worker")
            rows = exchanged.mapInArrow(stateful(self.checkpoint.uri, plan.epoch, depth), wire.SCHEMA)
        outcome = _outcome(rows.toArrow())
        for table, result in outcome.results.items():
            self._sink.write(table, plan.epoch, result)
        if outcome.dead is not None:
            self._sink.write(DEAD_LETTERS, plan.epoch, outcome.dead)
        position = self._after(plan, outcome)
        self.checkpoint.write_manifest(self._manifest(position, plan, outcome, final=final))
        self.position = position
        self._clean(plan)
        return self._event(plan, outcome, time.perf_counter() - began)

    def _after(self, plan: Plan, outcome: Outcome) -> Position:
        position = self.position
        known = set(position.binding.worker_of)
        homes = {instance: segment for instance, segment in position.homes.items() if instance in known}
        sizes, sizes_bytes = dict(position.segment_sizes), dict(position.segment_bytes)
        watermarks = dict(position.watermarks_us)
        for report in outcome.reports:
            for instance in report["gone"]:
                homes.pop(instance, None)
            if report["segment"]:
                homes.update(dict.fromkeys(report["instances"], report["segment"]))
                sizes[report["segment"]] = len(report["instances"])
                sizes_bytes[report["segment"]] = report["bytes"]
            watermarks.update(report["watermarks_us"])
        alive = set(homes.values())
        headers = outcome.headers
        counted = {
            "rows": sum(header["rows"] for header in headers),
            "results": sum(table.num_rows for table in outcome.results.values()),
            "dead_letters": outcome.dead.num_rows if outcome.dead is not None else 0,
            "epochs": 1,
            "moves": plan.moves,
        }
        totals = {name: position.totals.get(name, 0) + number for name, number in counted.items()}
        ended = {header["stream"] for header in headers if header["slice"].get("ended")}
        return replace(
            position,
            watermarks_us=watermarks,
            homes=homes,
            segment_sizes={segment: size for segment, size in sizes.items() if segment in alive},
            segment_bytes={segment: size for segment, size in sizes_bytes.items() if segment in alive},
            totals=totals,
            ended=position.ended | ended,
        )

    def _manifest(self, position: Position, plan: Plan, outcome: Outcome, *, final: bool) -> Manifest:
        slices: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for header in outcome.headers:
            slices[header["stream"]].append(header["slice"])
        return Manifest(
            plan.epoch,
            plan.graph,
            plan.workers,
            plan.binding,
            position.watermarks_us,
            position.states(),
            dict(slices),
            position.declared,
            position.added,
            position.removed,
            tuple(sorted(position.ended)),
            final,
            position.totals,
            plan.offsets,
            position.streams,
        )

    def _clean(self, plan: Plan) -> None:
        """Let go of segments that neither this epoch nor the next needs."""
        alive = set(self.position.homes.values())
        if plan.epoch % SWEEP_EPOCHS == 0:
            self._store.keep_only(alive)
        else:
            self._store.delete(ref.segment for ref in plan.states if ref.segment not in alive)
        self.checkpoint.forget_before(plan.epoch)

    def _event(self, plan: Plan, outcome: Outcome, duration_s: float) -> EpochCommitted:
        compiled = program(self.checkpoint.uri, plan.graph)
        loads = self._costs.loads(compiled, outcome.reports)
        self._costs.forget(compiled.instances)
        worker_of = dict(zip(compiled.instances, plan.binding, strict=True))
        refusals: dict[str, int] = defaultdict(int)
        for told in (*outcome.headers, *outcome.reports):
            for reason, number in told["refused"].items():
                refusals[reason] += number
        latency_s = time.time() - _input_fixed_us(plan, outcome) / 1e6
        busy_s = [0.0] * plan.workers
        for report in outcome.reports:
            busy_s[report["worker"]] += report["cost_s"]
        snapshot = Snapshot(
            plan.epoch,
            Binding.of(worker_of, plan.workers),
            loads,
            self._stream_marks(compiled),
            period_s=duration_s,
            latency_s={table: latency_s for table, rows in outcome.results.items() if rows.num_rows},
            busy_s=tuple(busy_s),
            topology=Topology.of(1, plan.workers),
        )
        return EpochCommitted(
            epoch=plan.epoch,
            rows=sum(header["rows"] for header in outcome.headers),
            results=sum(table.num_rows for table in outcome.results.values()),
            dead_letters=outcome.dead.num_rows if outcome.dead is not None else 0,
            moves=plan.moves,
            state_bytes=sum(self.position.segment_bytes.values()),
            state_bytes_moved=sum(report["foreign_bytes"] for report in outcome.reports),
            duration_s=duration_s,
            latency_s=latency_s,
            compute_s=sum(h["cost_s"] for h in outcome.headers)
            + sum(r["cost_s"] - r["load_s"] for r in outcome.reports),
            migration_s=sum(report["load_s"] for report in outcome.reports if report["foreign_bytes"]),
            policy_s=0.0,
            snapshot=snapshot,
            refusals=dict(refusals),
        )

    def _stream_marks(self, compiled: Program) -> dict[str, int]:
        """The watermarks of streams, without the runtime's own marks."""
        return {name: mark for name, mark in self.position.watermarks_us.items() if name in compiled.inputs}


def _input_fixed_us(plan: Plan, outcome: Outcome) -> int:
    """When it was decided what the epoch reads: before that its newest events may not have existed."""
    planned = [header["slice"]["planned_us"] for header in outcome.headers if "planned_us" in header["slice"]]
    return min([plan.now_us, *planned])


def _outcome(rows: pa.Table) -> Outcome:
    results: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    dead: list[pa.RecordBatch] = []
    reports: list[Mapping[str, Any]] = []
    for lane, payload in zip(rows.column("lane").to_pylist(), rows.column("payload"), strict=True):
        content = payload.as_buffer()
        if lane == wire.REPORT:
            reports.append(wire.unpack_data(content.to_pybytes()))
            continue
        batch = wire.unpack(content)
        if lane == wire.DEAD:
            dead.append(batch)
        else:
            results[wire.table_of(batch)].append(batch.replace_schema_metadata(None))
    tables = {table: pa.Table.from_batches(batches) for table, batches in results.items()}
    return Outcome(tables, pa.Table.from_batches(dead) if dead else None, reports)
