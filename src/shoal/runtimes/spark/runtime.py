"""The Spark runtime: a Structured Streaming job whose every micro-batch is one epoch."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from shoal.connectors.directory import Directory
from shoal.connectors.sinks import Sink
from shoal.connectors.source import DRAIN, RawBatch, Source
from shoal.errors import BindingError, GraphError, ShoalError
from shoal.kernels.aggregate import NEVER_US
from shoal.model.binding import Binding, Move
from shoal.model.graph import Graph
from shoal.model.messages import (
    AddQuery,
    Command,
    CommandRefused,
    Drain,
    Event,
    Rebind,
    RemoveQuery,
    RunEnded,
)
from shoal.runtimes.spark import wire
from shoal.runtimes.spark.checkpoint import Checkpoint, program
from shoal.runtimes.spark.epoch import EpochRunner, Position
from shoal.runtimes.spark.failure import translated
from shoal.runtimes.spark.intake import Intake
from shoal.runtimes.spark.restore import as_planned, check_streams, desired, restored
from shoal.runtimes.spark.source import FORMAT, Feed, ShoalSource, epoch_of_task
from shoal.runtimes.spark.stage import open_store

STOP_POLL_S = 0.2


@dataclass(frozen=True)
class SparkSetup:
    """Everything a run on Spark needs beside its graph."""

    spark: SparkSession
    checkpoint: str
    sources: Mapping[str, Source | DataFrame]
    sink: Sink
    interval_s: float = 0.0


class SparkRuntime:
    """Runs a graph as one streaming job; commands take effect at the next epoch."""

    def __init__(self, setup: SparkSetup) -> None:
        """Prepare a run; nothing starts yet."""
        self._setup = setup
        self._checkpoint = Checkpoint(setup.checkpoint)
        self._events: queue.Queue[Event] = queue.Queue()
        self._commands: queue.Queue[Command] = queue.Queue()
        self._last = -1
        self._finished = False
        self._wanted: Position | None = None
        self._runner: EpochRunner
        self._query: StreamingQuery | None = None
        self._failure: Exception | None = None
        self._stopping = threading.Event()

    @property
    def topology(self) -> str:
        """Spark's master."""
        return str(self._setup.spark.sparkContext.master)

    @property
    def consumed(self) -> int:
        """Events taken in since the checkpoint began."""
        return int(self._runner.position.totals.get("rows", 0))

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin, or go on from the checkpoint; returns as soon as the job runs."""
        missing = set(graph.streams) - set(self._setup.sources)
        if missing:
            known = ", ".join(self._setup.sources) or "none"
            raise GraphError(f"stream {', '.join(sorted(missing))} has no source; there are sources for {known}")
        self._runner = EpochRunner(self._checkpoint, self._setup.sink, self._begin(graph, binding))
        threading.Thread(target=self._run, name="shoal-run", daemon=True).start()

    def events(self) -> Iterator[Event]:
        """What happens, as it happens; ends with `RunEnded`."""
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, RunEnded):
                return

    def apply(self, command: Command) -> None:
        """Ask for a change; it takes effect at the next epoch, or a `CommandRefused` says why not."""
        if isinstance(command, Drain):
            for stream in self._setup.sources:
                Directory(self._checkpoint.source_location(stream)).write(DRAIN, b"")
        self._commands.put(command)

    def stop(self) -> None:
        """End after the running epoch; a later run goes on from there."""
        self._stopping.set()

    def _begin(self, graph: Graph, binding: Binding) -> Position:
        store = open_store(self._checkpoint.uri)
        fresh = Position(graph, binding, declared=tuple(graph.queries))
        found = restored(self._checkpoint, store)
        if found is None:
            position, wanted, self._last, self._finished = fresh, graph, -1, False
        else:
            self._last, position, manifest = found
            self._finished = manifest.final
            check_streams(position, set(self._setup.sources), self._checkpoint.uri)
            wanted = desired(graph, position)
            store.keep_only({*position.homes.values()})
        later = replace(
            position, graph=wanted, binding=_fitted(position, wanted, binding), declared=tuple(graph.queries)
        )
        if not self._checkpoint.has_plan(self._last + 1):
            return later
        self._wanted = later
        return as_planned(self._checkpoint, position, self._last + 1)

    def _run(self) -> None:
        try:
            if not self._finished:
                self._stream()
                if not self._stopping.is_set() and self._all_ended():
                    self._flush()
            open_store(self._checkpoint.uri).cool()
        except Exception as error:  # noqa: BLE001  (whatever it is, the session must hear of it)
            self._events.put(RunEnded(translated(self._failure or error)))
        else:
            self._events.put(RunEnded())

    def _stream(self) -> None:
        """Run the streaming job until it is stopped, has failed, or every stream has ended."""
        if self._all_ended():
            return
        spark = self._setup.spark
        spark.dataSource.register(ShoalSource)
        rows = reduce(DataFrame.union, [self._rows(stream) for stream in self._setup.sources])
        writer = rows.writeStream.foreachBatch(self._epoch).option(
            "checkpointLocation", self._checkpoint.spark_location()
        )
        self._query = writer.trigger(processingTime=f"{round(self._setup.interval_s * 1000)} milliseconds").start()
        try:
            while self._query.isActive and not self._stopping.is_set() and not self._all_ended():
                self._stopping.wait(STOP_POLL_S)
        finally:
            failed = self._query.exception()
            with contextlib.suppress(Exception):
                self._query.stop()
        if failed is not None:
            raise self._failure or failed

    def _rows(self, stream: str) -> DataFrame:
        """A stream as wire rows: from a source of Shoal's, or from the user's own DataFrame."""
        source = self._setup.sources[stream]
        spark = self._setup.spark
        if isinstance(source, DataFrame):
            return source.mapInArrow(_prework(self._checkpoint.uri, stream), wire.SCHEMA)
        feed = Feed(stream, source, self._checkpoint.uri, spark.sparkContext.defaultParallelism)
        return spark.readStream.format(FORMAT).option("feed", feed.option()).load()

    def _epoch(self, rows: DataFrame, epoch: int) -> None:
        """What Spark calls for every micro-batch."""
        if epoch <= self._last or self._stopping.is_set():
            return
        try:
            self._commit(rows, epoch)
        except Exception as error:
            self._failure = error
            raise

    def _commit(self, rows: DataFrame, epoch: int, *, final: bool = False) -> None:
        began = time.perf_counter()
        replay = self._checkpoint.has_plan(epoch)
        moves = [] if replay else self._take_commands()
        plan = self._runner.plan(epoch, moves)
        decided_s = time.perf_counter() - began
        event = self._runner.run(rows, plan, final=final)
        self._last = epoch
        if replay and self._wanted is not None:
            self._go_on_as_wanted(self._wanted)
        self._events.put(replace(event, policy_s=decided_s, replayed=replay))

    def _go_on_as_wanted(self, wanted: Position) -> None:
        """After the interrupted epoch has been repeated as it was planned: on with the graph of today."""
        position = self._runner.position
        self._runner.position = replace(
            position,
            graph=wanted.graph,
            binding=_fitted(position, wanted.graph, wanted.binding),
            declared=wanted.declared,
        )
        self._wanted = None

    def _take_commands(self) -> list[Move]:
        before = self._runner.position.binding
        with contextlib.suppress(queue.Empty):
            while True:
                command = self._commands.get_nowait()
                try:
                    self._runner.position = _changed(self._runner.position, command, set(self._setup.sources))
                except ShoalError as error:
                    self._events.put(CommandRefused(command, str(error)))
        return list(before.diff(self._runner.position.binding))

    def _all_ended(self) -> bool:
        streams = {stream for stream, source in self._setup.sources.items() if not isinstance(source, DataFrame)}
        return bool(streams) and streams <= self._runner.position.ended

    def _flush(self) -> None:
        """One last epoch without input that closes every window."""
        headers = [
            (worker, wire.HEADER, wire.pack_data(_flush_header(stream)))
            for worker in range(self._runner.position.binding.workers)
            for stream in self._setup.sources
        ]
        rows = self._setup.spark.createDataFrame(pa.Table.from_batches([wire.rows(headers)]), schema=wire.SCHEMA)
        self._commit(rows, self._last + 1, final=True)


def _flush_header(stream: str) -> dict[str, object]:
    nothing = {"place": "end of stream", "rows": 0, "ended": True}
    return {
        "stream": stream,
        "rows": 0,
        "newest_us": NEVER_US,
        "slice": nothing,
        "refused": {},
        "cost_s": 0.0,
        "flush": True,
    }


def _prework(checkpoint: str, stream: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Admission and stateless work on the user's own DataFrame."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Checkpoint(checkpoint).plan(epoch_of_task())
        raw = (RawBatch(batch, f"DataFrame for stream {stream}") for batch in batches)
        described = {"place": "DataFrame", "rows": 0, "ended": False}
        yield wire.rows(list(Intake(program(checkpoint, plan.graph), plan, stream).run(raw, described)))

    return work


def _fitted(position: Position, graph: Graph, binding: Binding) -> Binding:
    """The binding a changed graph goes on with: as it was where the number of workers is the same."""
    if position.binding.workers != binding.workers:
        return binding.fitted(graph)
    return position.binding.fitted(graph)


def _changed(position: Position, command: Command, streams: set[str]) -> Position:
    """The position after a command; raises where the command makes no sense."""
    if isinstance(command, Rebind):
        unknown = [i for i in command.binding.worker_of if i not in position.binding.worker_of]
        if unknown:
            raise BindingError(f"the binding names instance {unknown[0]!r}, which the graph does not have")
        wanted = {**position.binding.worker_of, **command.binding.worker_of}
        return replace(position, binding=Binding(wanted, command.binding.workers))
    if isinstance(command, AddQuery):
        if command.query.stream not in streams:
            raise GraphError(
                f"query {command.query.name!r} reads stream {command.query.stream!r}, which has no source in this run"
            )
        graph = position.graph.with_query(command.query)
        added = tuple(dict.fromkeys((*position.added, command.query.name)))
        removed = tuple(name for name in position.removed if name != command.query.name)
        return replace(position, graph=graph, binding=position.binding.fitted(graph), added=added, removed=removed)
    if isinstance(command, RemoveQuery):
        graph = position.graph.without_query(command.name)
        added = tuple(name for name in position.added if name != command.name)
        removed = tuple(dict.fromkeys((*position.removed, command.name)))
        return replace(position, graph=graph, binding=position.binding.fitted(graph), added=added, removed=removed)
    return position
