"""The Spark runtime: a Structured Streaming job whose every micro-batch is one epoch."""

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import DRAIN, Source
from shoal.errors import CheckpointError
from shoal.mechanisms.catalog import mechanism_named
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    Command,
    CommandRefused,
    Drain,
    EpochCommitted,
    Event,
    MessageRejected,
    MovesFinished,
    QueriesParked,
    RunEnded,
)
from shoal.model.control.shedding import StreamShedding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.runtimes.clock import WallClock
from shoal.runtimes.event_queue import EventQueue
from shoal.runtimes.protocol import Capabilities, Unmeasured
from shoal.runtimes.spark.ahead.shelf import Shelf, new_shelf
from shoal.runtimes.spark.capabilities import CAPABILITIES
from shoal.runtimes.spark.cluster.executor_placement import executor_placement
from shoal.runtimes.spark.cluster.failure import failed_queries, stop_job, translated
from shoal.runtimes.spark.cluster.session import set_up
from shoal.runtimes.spark.driver import restore
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.driver.position import MECHANISMS, Position, asked_shedding
from shoal.runtimes.spark.driver.repair import repaired
from shoal.runtimes.spark.driver.small_epochs import LocalRows, SmallEpochs
from shoal.runtimes.spark.driver.source_checks import check_sources
from shoal.runtimes.spark.driver.ticks import Ticks, waits
from shoal.runtimes.spark.rebinding.commands import Commands
from shoal.runtimes.spark.rebinding.mailbox import Mailbox
from shoal.runtimes.spark.rebinding.migration import Limits
from shoal.runtimes.spark.rebinding.throttle import Throttle
from shoal.runtimes.spark.state.checkpoint import Checkpoint, EpochPlan, program
from shoal.runtimes.spark.state.hot_owner import claim_shared_memory
from shoal.runtimes.spark.state.store import open_store
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.intake import flush_header
from shoal.runtimes.spark.tasks.source import FORMAT, ShoalSource, SourceFeed
from shoal.runtimes.spark.tasks.task import prework
from shoal.storage.directory import Directory

POLL_S = 0.1


class StopRequested(Exception):  # noqa: N818  (not an error: it ends a stream between two epochs)
    """Raised inside a micro-batch to end the stream without committing the batch."""


@dataclass(frozen=True)
class SparkSetup:
    """Everything a run on Spark needs beside its graph.

    `mechanism`: the default of rebindings. `hot`: whether copies of state are kept in shared memory. `allow_pickle`:
    whether code in the checkpoint is accepted without a signature. `parks`: whether queries that fail are parked, and
    the others go on. `shedding`: streams of which rows may be shed. `small_epochs`: whether the driver may finish small
    epochs itself. `reads_ahead`: whether slices may be read before their epoch; needs `hot`, and one machine.
    """

    spark: SparkSession
    checkpoint: str
    sources: Mapping[str, Source | DataFrame]
    sink: Sink
    interval_s: float = 0.0
    mechanism: str = MECHANISMS[0]
    hot: bool = True
    allow_pickle: bool = False
    parks: bool = False
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    small_epochs: bool = True
    reads_ahead: bool = False

    def __post_init__(self) -> None:
        """Reject an unknown or unsupported mechanism."""
        mechanism_named(self.mechanism, MECHANISMS, "Spark")


class SparkRuntime(WallClock, Unmeasured):
    """Runs a graph as one streaming job; commands take effect at the next epoch."""

    runner: type[EpochRunner] = EpochRunner
    """What runs its epochs; profiles replace it by one that records them."""

    def __init__(self, setup: SparkSetup) -> None:
        """Prepare a run; nothing starts yet."""
        self._setup = setup
        self._checkpoint = Checkpoint(setup.checkpoint, allow_pickle=setup.allow_pickle)
        self._events = EventQueue()
        self._mailbox = Mailbox(setup.checkpoint, self._reject)
        self._throttle = Throttle()
        self._commands = Commands(self._mailbox, set(setup.sources), self._refuse, setup.mechanism)
        self._last = -1
        self._finished = False
        self._wanted: Position | None = None
        self._outdated: EpochPlan | None = None
        self._own = set_up(setup.spark.newSession())
        self._is_set_up = False
        self._runner: EpochRunner
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._in_epoch = threading.Lock()
        self._shelf: Shelf | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The same for every run on Spark."""
        return CAPABILITIES

    @property
    def topology(self) -> Topology:
        """The executors that the workers of the last epoch ran on."""
        return self._runner.placement.topology(self._runner.position.binding.workers)

    @property
    def consumed(self) -> int:
        """Events taken in since the checkpoint began."""
        return int(self._runner.position.totals.get("rows", 0))

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin, or resume from the checkpoint; returns as soon as the job runs."""
        check_sources(graph, self._setup.sources, self._setup.shedding)
        self._checkpoint.lock()
        try:
            if self._setup.hot:
                claim_shared_memory(self._setup.checkpoint)
            position = self._begin(graph, binding)
            placement = executor_placement(self._own)
            small = SmallEpochs(self._own) if self._setup.small_epochs and placement.is_local else None
            if self._setup.reads_ahead and self._setup.hot and placement.is_local:
                self._shelf = new_shelf(self._setup.checkpoint)
            self._runner = self.runner(
                self._checkpoint, self._setup.sink, position, placement, hot=self._setup.hot, small=small
            )
            self._runner.warm_up(self._setup.spark)
        except BaseException:
            self._clear_memory()
            self._checkpoint.unlock()
            raise
        self._events.producer = threading.Thread(target=self._run, name="shoal-run", daemon=True)
        self._events.producer.start()

    def events(self) -> Iterable[Event]:
        """Events as they happen; ends with `RunEnded`."""
        return self._events

    def _refuse(self, command: Command, reason: str) -> None:
        self._events.put(CommandRefused(command, reason, at_s=self.now_s()))

    def _reject(self, file: str, reason: str) -> None:
        self._events.put(MessageRejected(file, reason, at_s=self.now_s()))

    def apply(self, command: Command) -> None:
        """Request a change; it takes effect at the next epoch, or a `CommandRefused` event gives the reason."""
        if isinstance(command, Drain):
            for stream in self._setup.sources:
                Directory(self._checkpoint.source_location(stream)).write(DRAIN, b"")
        else:
            self._commands.put(command)

    def stop(self) -> None:
        """End after the running epoch; a later run resumes there."""
        self._stopping.set()
        self._over.set()

    def _begin(self, graph: Graph, binding: Binding) -> Position:
        """The position to start from: a new one, or the checkpoint's with the current graph of the job."""
        store = open_store(self._checkpoint.uri, self._setup.hot)
        streams = tuple(sorted(self._setup.sources))
        position = Position(graph, binding, declared=tuple(graph.queries), streams=streams)
        found = restore.restored(self._checkpoint, store)
        if found is not None:
            self._last, position, self._finished = found
            restore.check_streams(position, set(self._setup.sources), self._checkpoint.uri)
            for finished in restore.unreported(self._checkpoint, self._last):
                self._events.put(finished)
            store.keep_only({*position.homes.values()})
        interrupted = self._checkpoint.has_plan(self._last + 1)
        self._mailbox.recover(self._last, planned=interrupted)
        before, planned = position.graph, position
        if interrupted:
            planned = restore.as_planned(self._checkpoint, position, self._last + 1)
        now = restore.desired(graph, planned)
        restore.verify_code(self._checkpoint, now, planned.graph)
        position = repaired(planned, before, now, store)
        parked = restore.still_parked(graph, planned)
        wanted = replace(position.with_graph(now, binding), declared=tuple(graph.queries), parked=parked)
        for each in parked:
            self._report_parked((each.name,), each.reason, each.row)
        if not interrupted:
            return wanted
        if now.digest == planned.graph.digest and position is planned:
            self._wanted = wanted
            return planned
        self._outdated = self._checkpoint.plan(self._last + 1)
        return wanted

    def _run(self) -> None:
        error = None
        try:
            if not self._finished and not self._all_ended():
                self._stream()
            if not self._finished and not self._stopping.is_set() and self._all_ended():
                self._flush()
            self._runner.placement.close()
        except Exception as failure:  # noqa: BLE001  (the session must get every failure)
            error = translated(self._failure or failure)
        self._clear_memory()
        self._checkpoint.unlock()
        self._events.put(RunEnded(error, at_s=self.now_s()))

    def _clear_memory(self) -> None:
        """Delete what the run has in shared memory."""
        with contextlib.suppress(OSError):
            if self._shelf is not None:
                self._shelf.remove()
            open_store(self._checkpoint.uri, self._setup.hot).cool()

    def _stream(self) -> None:
        """Run the streaming job until it is stopped, has failed, or every stream has ended; then close all windows."""
        self._setup.spark.dataSource.register(ShoalSource)
        rows = reduce(DataFrame.union, [self._rows(stream) for stream in sorted(self._setup.sources)])
        location = self._checkpoint.spark_location()
        writer = rows.writeStream.foreachBatch(self._epoch).option("checkpointLocation", location)
        query = writer.trigger(processingTime=f"{round(self._setup.interval_s * 1000)} milliseconds").start()
        sources = (stream for stream, source in self._setup.sources.items() if not isinstance(source, DataFrame))
        ticks = Ticks(self._checkpoint.source_location(stream) for stream in sorted(sources))
        while query.isActive and not self._stopping.is_set() and not self._all_ended():
            self._drain_frames(query)
            if self._in_epoch.acquire(blocking=False):
                try:
                    ticks.ask(self._last, self._waits_for_epoch)
                finally:
                    self._in_epoch.release()
            self._over.wait(POLL_S)
        ticks.withdraw()
        ended_by_plan = self._stopping.is_set() or self._all_ended()
        self._end(query)
        failed = self._failure or (None if ended_by_plan else query.exception())
        if failed is not None:
            raise failed

    def _waits_for_epoch(self) -> bool:
        """Whether something waits for an epoch, with rows or without."""
        position = self._runner.position
        if self._commands.has_waiting():
            return True
        return waits(position, program(self._checkpoint.uri, self._runner.keep_graph(), position.partitioning))

    def _end(self, query: StreamingQuery) -> None:
        """Stop the job between two epochs: the running one finishes, the next one does not begin.

        If all input has been read, all windows are closed before Spark has stopped: the last epoch is committed.
        """
        stopped = self._stopping.is_set()
        self._stopping.set()
        with self._in_epoch:
            pass
        try:
            if not stopped and self._failure is None and self._all_ended():
                self._flush()
        finally:
            stop_job(query)
        if not stopped:
            self._stopping.clear()

    def _rows(self, stream: str) -> DataFrame:
        """A stream as wire rows, from a Shoal source or from the user's DataFrame."""
        source = self._setup.sources[stream]
        spark = self._setup.spark
        if isinstance(source, DataFrame):
            return source.mapInArrow(prework(self._checkpoint.uri, stream), wire.SCHEMA)
        feed = SourceFeed(stream, source, self._checkpoint.uri, spark.sparkContext.defaultParallelism, self._shelf)
        return spark.readStream.format(FORMAT).option("feed", feed.option()).load()

    def _epoch(self, rows: DataFrame, epoch: int) -> None:
        """Called by Spark for every micro-batch; returning commits the batch, so anything else must raise."""
        if epoch == self._last:
            return
        with self._in_epoch:
            if self._stopping.is_set():
                raise StopRequested
            if not self._is_set_up:  # Spark clones the session for the streaming job
                set_up(rows.sparkSession)
                self._is_set_up = True
            try:
                self._check_next(epoch)
                self._commit(rows, epoch)
            except Exception as error:
                self._failure = error
                raise

    def _check_next(self, epoch: int) -> None:
        if epoch != self._last + 1:
            raise CheckpointError(
                f"checkpoint {self._checkpoint.uri} is inconsistent: "
                f"Spark is at epoch {epoch}, the last one committed is {self._last}"
            )

    def _commit(self, rows: DataFrame | LocalRows, epoch: int, *, final: bool = False) -> None:
        began = time.perf_counter()
        replay = self._checkpoint.has_plan(epoch)
        before = self._runner.position.binding
        if not replay and not final:
            asked = asked_shedding(self._runner.position, self._setup.shedding)
            self._runner.position = self._commands.carried_out(epoch, asked, self._limits)
        moves = list(before.diff(self._runner.position.binding))
        if self._outdated is not None:
            self._runner.plan_again(self._outdated)
            self._outdated = None
        plan = self._runner.plan(epoch, moves, final=final)
        decided_s = time.perf_counter() - began
        event, finished = self._run_or_park(rows, plan, final=final)
        for loss in self._runner.placement.lost():
            self._events.put(loss)
        if self._shelf is not None:
            self._shelf.forget_until(epoch)
        self._last = epoch
        self._mailbox.reply_committed(epoch)
        if replay and self._wanted is not None:
            position = self._runner.position
            position = position.with_graph(position.graph, self._wanted.binding)
            self._runner.position = replace(position, declared=self._wanted.declared)
            self._wanted = None
        self._throttle.learn(event)
        self._events.put(replace(event, policy_s=decided_s, replayed=replay))
        for each in finished:
            self._events.put(each)
        if self._all_ended():
            self._over.set()

    def _run_or_park(
        self, rows: DataFrame | LocalRows, plan: EpochPlan, *, final: bool
    ) -> tuple[EpochCommitted, list[MovesFinished]]:
        """Run a planned epoch; if queries fail and are parked, run it again for the others, on the same input."""
        while True:
            try:
                return self._runner.run(rows, plan, final=final)
            except Exception as error:
                failed = failed_queries(error)
                if failed is None or not self._setup.parks:
                    raise
                plan = self._runner.park(failed, plan)
                self._report_parked(failed.queries, failed.reason, failed.row)

    def _report_parked(self, queries: tuple[str, ...], reason: str, row: str) -> None:
        self._events.put(QueriesParked(queries, reason, row, at_s=self.now_s()))

    @property
    def _limits(self) -> Limits:
        """How much of a rebinding's plan the next epoch may execute."""
        topology = self._runner.placement.topology(self._runner.position.binding.workers)
        return Limits(self._throttle.most_bytes, self._throttle.costs, topology.node_of)

    def _all_ended(self) -> bool:
        return set(self._setup.sources) <= self._runner.position.ended

    def _drain_frames(self, query: StreamingQuery) -> None:
        """On a drain, process what DataFrames have and mark them ended, since a DataFrame never ends by itself."""
        frames = {stream for stream, source in self._setup.sources.items() if isinstance(source, DataFrame)}
        frames -= self._runner.position.ended
        if not frames or not all(Directory(self._checkpoint.source_location(s)).exists(DRAIN) for s in frames):
            return
        query.processAllAvailable()
        with self._in_epoch:
            position = self._runner.position
            self._runner.position = replace(position, ended=position.ended | frames)

    def _flush(self) -> None:
        """Run a last epoch without input that closes every window; waiting commands are refused."""
        reason = "the run has taken in all of its input and is ending"
        self._commands.refuse(self._last + 1, reason)
        headers = [
            (worker, wire.HEADER, flush_header(stream))
            for worker in range(self._runner.position.binding.workers)
            for stream in self._setup.sources
        ]
        self._commit(LocalRows(pa.Table.from_batches([wire.rows(headers)]), self._own), self._last + 1, final=True)
        self._finished = True
