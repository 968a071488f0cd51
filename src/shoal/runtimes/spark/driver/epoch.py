"""One epoch on the driver: plan it, run it, write its results, commit it, clean up."""

import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shoal.compiler.program import Program, compile_graph
from shoal.compiler.warm_up import warm_up
from shoal.compiler.watermarks import Reading
from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.refused_rows import refused_rows
from shoal.connectors.sinks import Sink
from shoal.errors import QueryError
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import EpochCommitted, MovesFinished
from shoal.model.control.shedding import NOTHING_SHED, added
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.graph import InstanceId
from shoal.runtimes.shedder import after_reading, in_use
from shoal.runtimes.spark.cluster.executor_placement import Affinity, ExecutorPlacement, OneNode
from shoal.runtimes.spark.driver.instance_costs import Costs
from shoal.runtimes.spark.driver.outcome import Outcome
from shoal.runtimes.spark.driver.position import Position, goal_of, numbers
from shoal.runtimes.spark.driver.small_epochs import LocalRows, SmallEpochs, finished
from shoal.runtimes.spark.rebinding.settlement import losses, settled
from shoal.runtimes.spark.state.checkpoint import Checkpoint, EpochPlan, Manifest, program
from shoal.runtimes.spark.state.postponed import Rest
from shoal.runtimes.spark.state.signed_code import code_digest
from shoal.runtimes.spark.state.store import open_store
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.reports import SliceRead
from shoal.runtimes.spark.tasks.source import CODE_PROPERTY
from shoal.runtimes.spark.tasks.task import rehearsal, stateful

SWEEP_EPOCHS = 100
"""The number of epochs between two searches of the state directory for orphans."""


class EpochRunner:
    """Takes a run from one position to the next."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        sink: Sink,
        position: Position,
        placement: ExecutorPlacement | None = None,
        *,
        hot: bool = True,
        small: SmallEpochs | None = None,
    ) -> None:
        """Begin at a position; without a placement all workers run on one node.

        `small`: decides which epochs the driver finishes itself; without it, none.
        """
        self.checkpoint = checkpoint
        self.position = position
        self.placement = placement or OneNode()
        self._sink = sink
        self._hot = hot
        self._small = small
        self._store = open_store(checkpoint.uri, hot)
        self._known_graphs: set[str] = set()
        self._told: dict[str, str] = {}
        self._costs = Costs()
        self._ran_on: Mapping[InstanceId, int] = {}

    def warm_up(self, spark: SparkSession) -> None:
        """Start the Python workers and load machine code, theirs and what small epochs need, before the first event."""
        digest, partitioning = self.keep_graph(), self.position.partitioning
        code = code_digest(self.position.graph.operators.values())
        tasks = spark.sparkContext.defaultParallelism
        with ThreadPoolExecutor(1) as beside:
            here = None
            if self._small is not None and not code:
                here = beside.submit(lambda: warm_up(program(self.checkpoint.uri, digest, partitioning)))
            work = rehearsal(self.checkpoint.uri, digest, partitioning, code)
            spark.range(0, tasks, 1, tasks).mapInArrow(work, wire.SCHEMA).collect()
            if here is not None:
                here.result()

    def plan(self, epoch: int, moves: list[Move], *, final: bool = False) -> EpochPlan:
        """Write the plan of an epoch; one that was planned before a crash keeps its plan."""
        if self.checkpoint.has_plan(epoch):
            return self.checkpoint.plan(epoch)
        still = {*self.position.postponed, *self.position.dropped}
        moved = {move.instance for move in moves if move.instance not in still}
        coming = None if final else self.position.coming
        return self._write_plan(epoch, time.time_ns() // 1000, len(moves), moved, coming)

    def park(self, error: QueryError, plan: EpochPlan) -> EpochPlan:
        """Plan an epoch again without the queries that failed in it; raises if no other is left."""
        self.position = self.position.arranged(self.position.arrangement.parking(error))
        return self.plan_again(plan)

    def plan_again(self, before: EpochPlan) -> EpochPlan:
        """Replace the plan of an epoch that was not committed by one for the current queries, with the same clock.

        An earlier attempt may have written results of queries that have changed. They are replaced by none first,
        since the queries of the new plan need not have results in this epoch.
        """
        old = compile_graph(self.checkpoint.unverified_graph(before.graph), before.partitioning)
        same = {name for name, query in old.graph.queries.items() if self.position.graph.queries.get(name) == query}
        for outlet in (outlet for lane in old.lanes for outlet in lane.outlets):
            if not same.issuperset(name for name in outlet.query_of if name is not None):
                self._sink.write(outlet.table, before.epoch, outlet.arrow.empty_table())
        moved = {old.instances[position] for position in before.arrived}
        coming = self.position.coming if before.coming else None
        return self._write_plan(before.epoch, before.now_us, before.moves, moved, coming, before.attempt + 1)

    def _write_plan(
        self, epoch: int, now_us: int, moves: int, moved: set[InstanceId], coming: Binding | None, attempt: int = 0
    ) -> EpochPlan:
        position = self.position
        digest = self.keep_graph()
        compiled = program(self.checkpoint.uri, digest, position.partitioning)
        plan = EpochPlan(
            epoch=epoch,
            graph=digest,
            workers=position.binding.workers,
            binding=numbers(position.binding, compiled),
            watermarks_us=position.watermarks_us,
            states=position.states(),
            declared=position.declared,
            added=position.added,
            removed=position.removed,
            parked=position.parked,
            ended=tuple(sorted(position.ended)),
            offsets=self.checkpoint.offsets(epoch),
            coming=numbers(coming, compiled) if coming else (),
            coming_workers=coming.workers if coming else 0,
            partitioning=position.partitioning,
            goal=goal_of(position.rebinding, compiled),
            shedding=position.shedding,
            postponed=position.postponed_now(now_us),
            on_demand=coming is not None and position.on_demand,
            now_us=now_us,
            moves=moves,
            arrived=tuple(position for position, instance in enumerate(compiled.instances) if instance in moved),
            divided=tuple(position.heirs),
            attempt=attempt,
            dropped=position.dropped_now(),
        )
        self.checkpoint.write_plan(plan)
        return plan

    def keep_graph(self) -> str:
        """Write the graph to the checkpoint, where tasks read it; returns its digest."""
        graph = self.position.graph
        if graph.digest not in self._known_graphs:
            self.checkpoint.write_graph(graph)
            self._known_graphs.add(graph.digest)
        return graph.digest

    def run(
        self, rows: DataFrame | LocalRows, plan: EpochPlan, *, final: bool = False
    ) -> tuple[EpochCommitted, list[MovesFinished]]:
        """Run a planned epoch and commit it; also returns the rebindings that finish with it.

        `rows`: what the reading tasks send.
        """
        began = time.perf_counter()
        self.placement.settle(plan.workers, self._affinity)
        compiled = program(self.checkpoint.uri, plan.graph, plan.partitioning)
        self._tell(rows, plan.graph, compiled)
        outcome = Outcome.of(self._worked(rows, plan, compiled))
        if self._small is not None:
            self._small.learn(outcome)
        self.placement.observe(outcome.executors)
        for table, result in outcome.results.items():
            self._sink.write(table, plan.epoch, result)
        if outcome.dead is not None:
            self._sink.write(DEAD_LETTERS, plan.epoch, outcome.dead)
        began_us = self.position.announced_us or plan.now_us
        after = self._after(plan, outcome)
        position, finished = settled(after, outcome, plan.postponed, began_us, final=final)
        manifest = self._manifest(position, plan, outcome, final=final)
        self.checkpoint.write_manifest(replace(manifest, losses=losses(position, finished)))
        self.position = position
        self._clean(plan)
        return self._event(plan, outcome, time.perf_counter() - began), finished

    def _worked(self, rows: DataFrame | LocalRows, plan: EpochPlan, compiled: Program) -> pa.Table:
        """What the workers make of an epoch: their tasks, or this process if the epoch is small."""
        small = self._small
        if small is not None and small.expects(self.position, has_code=bool(self._told[plan.graph])):
            sent = rows.toArrow()
            if small.fits(sent):
                return finished(self.checkpoint.uri, plan, compiled, sent, hot=self._hot)
            rows = LocalRows(sent, small.spark)
        if isinstance(rows, LocalRows):
            rows = rows.frame()
        for depth in range(1, max(1, compiled.depth) + 1):
            exchanged = self.placement.exchanged(rows, plan.workers)
            work = stateful(self.checkpoint.uri, plan.epoch, depth, self.placement.worker_of, hot=self._hot)
            rows = exchanged.mapInArrow(work, wire.SCHEMA)
        return rows.toArrow()

    def _tell(self, rows: DataFrame | LocalRows, digest: str, compiled: Program) -> None:
        """Tell the tasks of the epoch what code its graph has: they may be where no key is to verify it."""
        if digest not in self._told:
            self._told[digest] = code_digest(compiled.graph.operators.values())
        if any(self._told.values()):
            rows.sparkSession.sparkContext.setLocalProperty(CODE_PROPERTY, self._told[digest])

    def _affinity(self) -> Affinity:
        """Bytes of state that each worker of this epoch takes from each worker of the last one."""
        position = self.position
        size_of = {name: size / position.segment_sizes[name] for name, size in position.segment_bytes.items()}
        found: dict[tuple[int, int], float] = defaultdict(float)
        for instance, segment in position.homes.items():
            if instance in self._ran_on and instance in position.binding.worker_of:
                found[int(position.binding.worker_of[instance]), self._ran_on[instance]] += size_of[segment]
        return found

    def _after(self, plan: EpochPlan, outcome: Outcome) -> Position:
        position = self.position
        known = set(position.binding.worker_of)
        dropped = {each.instance for each in plan.dropped}
        gone = dropped.union(plan.divided)
        homes = {i: segment for i, segment in position.homes.items() if i in known and i not in gone}
        sizes, sizes_bytes = dict(position.segment_sizes), dict(position.segment_bytes)
        watermarks = position.watermarks_us
        postponed = {each.instance: each for each in plan.postponed if each.instance in known}
        rests: dict[InstanceId, Rest] = {}
        for report in outcome.reports:
            rests |= report.rests
            for instance in report.fetched:
                postponed.pop(instance, None)
            for instance in report.gone:
                homes.pop(instance, None)
            for written in report.segments:
                homes.update(dict.fromkeys(written.instances, written.segment))
                sizes[written.segment] = len(written.instances)
                sizes_bytes[written.segment] = written.bytes
            watermarks = report.watermarks_us
        alive = set(homes.values())
        headers = outcome.headers
        counted = {**outcome.counted, "epochs": 1, "moves": plan.moves}
        totals = {name: position.totals.get(name, 0) + number for name, number in counted.items()}
        ended = {header.stream for header in headers if header.slice.ended}
        return replace(
            position,
            watermarks_us=watermarks,
            homes=homes,
            segment_sizes={segment: size for segment, size in sizes.items() if segment in alive},
            segment_bytes={segment: size for segment, size in sizes_bytes.items() if segment in alive},
            totals=totals,
            ended=position.ended | ended,
            held=plan.partitioning,
            shedding=after_reading(plan.shedding, (Reading(each.stream, each.newest_us) for each in headers)),
            postponed=postponed,
            rests=rests,
            announced_us=plan.now_us if plan.coming else 0,
            dropped={},
        )

    def _manifest(self, position: Position, plan: EpochPlan, outcome: Outcome, *, final: bool) -> Manifest:
        slices: dict[str, tuple[SliceRead, ...]] = defaultdict(tuple)
        for header in outcome.headers:
            slices[header.stream] += (header.slice,)
        done = Manifest.of(
            plan,
            watermarks_us=position.watermarks_us,
            states=position.states(),
            ended=tuple(sorted(position.ended)),
            goal=goal_of(position.rebinding, program(self.checkpoint.uri, plan.graph, plan.partitioning)),
            shedding=position.shedding,
            slices=slices,
            totals=position.totals,
            streams=position.streams,
            final=final,
        )
        return replace(done, postponed=position.postponed_now(plan.now_us), rests=position.rests)

    def _clean(self, plan: EpochPlan) -> None:
        """Delete segments that neither this epoch nor the next needs."""
        alive = set(self.position.homes.values())
        if plan.epoch % SWEEP_EPOCHS == 0:
            self._store.keep_only(alive)
        else:
            self._store.delete(ref.segment for ref in plan.states if ref.segment not in alive)
        self.checkpoint.forget_before(plan.epoch)

    def _unread(self) -> dict[InstanceId, InstanceLoad]:
        """The loads of instances whose state no worker has read: only its size is known."""
        position = self.position
        share = {name: size // position.segment_sizes[name] for name, size in position.segment_bytes.items()}
        return {i: InstanceLoad(0, 0.0, 0, share[position.homes[i]]) for i in position.postponed}

    def _event(self, plan: EpochPlan, outcome: Outcome, duration_s: float) -> EpochCommitted:
        compiled = program(self.checkpoint.uri, plan.graph, plan.partitioning)
        loads = {**self._unread(), **self._costs.loads(compiled, outcome.reports)}
        self._costs.forget(compiled.instances)
        bound = dict(zip(compiled.instances, plan.binding, strict=True))
        worker_of = {instance: bound[instance] for instance in plan.partitioning.instances(compiled.graph)}
        self._ran_on = worker_of
        counted = outcome.counted
        now_s = time.time()
        latency_s = now_s - outcome.fixed_us(plan) / 1e6
        snapshot = Snapshot(
            plan.epoch,
            Binding.of(worker_of, plan.workers),
            loads,
            {name: mark for name, mark in self.position.watermarks_us.items() if name in compiled.inputs},
            period_s=duration_s,
            latency_s={table: latency_s for table, rows in outcome.results.items() if rows.num_rows},
            busy_s=outcome.busy_s(plan.workers),
            topology=self.placement.topology(plan.workers),
            graph=self.position.graph,
            partitioning=plan.partitioning,
            arrivals=outcome.arrivals(compiled),
        )
        return EpochCommitted(
            epoch=plan.epoch,
            rows=counted["rows"],
            results=counted["results"],
            dead_letters=counted["dead_letters"],
            moves=plan.moves,
            state_bytes=sum(self.position.segment_bytes.values()),
            state_bytes_moved=sum(report.moved_bytes for report in outcome.reports),
            state_bytes_late=sum(report.late_bytes for report in outcome.reports),
            state_bytes_ahead=sum(report.ahead_bytes for report in outcome.reports),
            duration_s=duration_s,
            latency_s=latency_s,
            compute_s=outcome.compute_s,
            migration_s=sum(report.load_s for report in outcome.reports if report.moved_bytes),
            policy_s=0.0,
            snapshot=snapshot,
            refusals=outcome.refusals,
            refused_rows=() if outcome.dead is None else refused_rows(outcome.dead.to_batches()),
            shed=added(NOTHING_SHED, [(header.stream, header.shed) for header in outcome.headers]),
            shedding=in_use(self.position.shedding),
            at_s=now_s,
        )
