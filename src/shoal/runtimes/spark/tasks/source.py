"""Shoal's sources as Spark sources: the reading task also does the stateless work and emits wire rows."""

import base64
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from shoal.connectors.sources.source import Cursor, ForesightedCursor, Slice, Source, close_cursor, open_partitions
from shoal.errors import CheckpointError, RunError, SourceError
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.runtimes.spark.ahead.reader import reader
from shoal.runtimes.spark.ahead.shelf import Shelf
from shoal.runtimes.spark.state.checkpoint import Checkpoint, program
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.collector import freeze_what_stays
from shoal.runtimes.spark.tasks.intake import Gathered, Intake
from shoal.runtimes.spark.tasks.reports import SliceRead, query_errors_encoded
from shoal.runtimes.spark.tasks.slice_pass import SlicePass
from shoal.storage.directory import Directory

FORMAT = "shoal"
EPOCH_PROPERTY = "streaming.sql.batchId"
CODE_PROPERTY = "shoal.code"
"""Property of a job by which the driver says what code the graph of the epoch has."""
TICK = "tick"
"""File in the directory of a source by which the driver asks for an epoch without rows; its key in offsets."""


@dataclass(frozen=True)
class SourceFeed:
    """A source, the stream it feeds and the run it belongs to; `shelf`: where slices are left that were read ahead."""

    stream: str
    source: Source
    checkpoint: str
    parallelism: int
    shelf: Shelf | None = None

    def option(self) -> str:
        """The feed as a text that fits into a Spark option."""
        return base64.b64encode(cloudpickle.dumps(self)).decode()  # type: ignore[no-untyped-call]


@dataclass
class SourcePartition(InputPartition):
    """One slice, as Spark hands it to a task; a tick has none. `expected`: one of the next epoch, to be read ahead."""

    slice: Slice
    ended: bool
    planned_us: int
    open: tuple[str, ...] | None = None
    tick: bool = False
    expected: Slice | None = None


class ShoalStreamReader(DataSourceStreamReader):
    """Offsets, slices and the reading of one source."""

    def __init__(self, feed: SourceFeed) -> None:
        """Keep the feed; the cursor is opened only in the process that plans offsets."""
        self._feed = feed
        self._cursor: Cursor | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  (Spark's name)
        """The offset before the first event."""
        return dict(self._feed.source.start())

    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:  # noqa: ARG002, N802
        """How far the next epoch may read; the source applies its own limits."""
        self._check(start)
        own = _without_tick(start)
        end = self._open().latest(own)
        asked = asked_epoch(Directory(self._location)) if end == own else None
        tick = start.get(TICK) if asked is None else asked
        return dict(end) if tick is None else {**end, TICK: tick}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[SourcePartition]:
        """The slices between two offsets."""
        self._check(start)
        now_us, first, last = time.time_ns() // 1000, _without_tick(start), _without_tick(end)
        if first == last:
            nothing = Slice("no rows", 0, {})
            return [SourcePartition(nothing, bool(end["ended"]), now_us, open_partitions(end), tick=True)]
        slices = self._open().slices(first, last, self._feed.parallelism)
        expected = [*self._expected(last), *[None] * len(slices)]
        return [
            SourcePartition(piece, bool(end["ended"]), now_us, open_partitions(end), expected=soon)
            for piece, soon in zip(slices, expected, strict=False)
        ]

    def _expected(self, start: dict[str, object]) -> Sequence[Slice]:
        """The slices of the next epoch, as far as they can be foreseen."""
        cursor = self._open()
        if self._feed.shelf is None or not isinstance(cursor, ForesightedCursor):
            return ()
        return cursor.expected(start, self._feed.parallelism)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a slice, do the stateless work, and emit wire rows."""
        if not isinstance(partition, SourcePartition):
            raise RunError(f"expected a piece of stream {self._feed.stream!r}; got {type(partition).__name__}")
        plan = Checkpoint(self._feed.checkpoint).plan(epoch_of_task())
        compiled = program(self._feed.checkpoint, plan.graph, plan.partitioning, told_code())
        piece, stream = partition.slice, self._feed.stream
        read = SliceRead(
            piece.where, piece.rows, partition.ended, partition.planned_us, piece.partition, partition.open
        )
        slice_pass = SlicePass(compiled, plan, stream, self._feed.source, piece, told_code())
        with query_errors_encoded():
            done = list(Intake(compiled, plan, stream).sent(self._gathered(slice_pass, partition), read))
        yield wire.rows(done)
        if partition.expected is not None and self._feed.shelf is not None:
            reader().begin(self._feed.shelf, replace(slice_pass, piece=partition.expected))
        freeze_what_stays()

    def _gathered(self, slice_pass: SlicePass, partition: SourcePartition) -> Gathered:
        if partition.tick:
            return Gathered((), 0, FOREVER_US, NEVER_US, {}, 0.0)
        if self._feed.shelf is None:
            return slice_pass.gathered()
        return reader().gathered(self._feed.shelf, slice_pass)

    def stop(self) -> None:
        """Release what the source holds; called by Spark in the process that plans offsets."""
        if self._cursor is not None:
            close_cursor(self._cursor)

    def _check(self, start: dict[str, object]) -> None:
        """Reject an offset that another kind of source has left in the checkpoint."""
        expected = self._feed.source.start()
        if set(start) - {TICK} != set(expected):
            raise CheckpointError(
                f"checkpoint {self._feed.checkpoint} has a position of stream {self._feed.stream!r} with "
                f"{', '.join(start)}; its source needs one with {', '.join(expected)}; start it with another checkpoint"
            )

    def _open(self) -> Cursor:
        if self._cursor is None:
            self._cursor = self._feed.source.cursor(self._location)
        return self._cursor

    @property
    def _location(self) -> str:
        return Checkpoint(self._feed.checkpoint).source_location(self._feed.stream)


class Unreadable(DataSourceStreamReader):
    """Stands for a source that cannot be made where Spark runs it: says why as soon as it is asked."""

    def __init__(self, error: Exception) -> None:
        """The error with which the source was not made."""
        self._error = error

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  (Spark's name)
        """Raises the error."""
        raise self._refusal()

    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:  # noqa: ARG002, N802
        """Raises the error."""
        raise self._refusal()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raises the error."""
        raise self._refusal()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raises the error."""
        raise self._refusal()

    def _refusal(self) -> SourceError:
        return SourceError(
            f"a source cannot be loaded by Spark's Python processes: {type(self._error).__name__}: {self._error}; "
            "its class must be in the job file, or in a module that they can import (PYTHONPATH)"
        )


class ShoalSource(DataSource):
    """Spark data source that wraps any Shoal source."""

    @classmethod
    def name(cls) -> str:
        """Format name in Spark."""
        return FORMAT

    def schema(self) -> StructType:
        """Wire rows, always."""
        return wire.SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A reader for the feed in the options."""
        try:
            return ShoalStreamReader(cloudpickle.loads(base64.b64decode(self.options["feed"])))
        except Exception as error:  # noqa: BLE001  (PySpark would report that it has no reader, and not why)
            return Unreadable(error)


def asked_epoch(directory: Directory) -> int | None:
    """The epoch that the driver asks for, if any."""
    try:
        return int(directory.read(TICK)) if directory.exists(TICK) else None
    except FileNotFoundError:
        return None  # it has just been withdrawn


def _without_tick(offset: dict[str, object]) -> dict[str, object]:
    """The source's own part of an offset."""
    return {key: value for key, value in offset.items() if key != TICK}


def epoch_of_task() -> int:
    """The epoch of the running task."""
    context = TaskContext.get()
    text = context.getLocalProperty(EPOCH_PROPERTY) if context else None
    if text is None:
        raise RunError("a Shoal source can only be read by Shoal's own streaming job")
    return int(text)


def told_code() -> str:
    """The digest of the user's code in the graph of the running task, as the driver has said; empty without code."""
    context = TaskContext.get()
    return (context.getLocalProperty(CODE_PROPERTY) if context else None) or ""
