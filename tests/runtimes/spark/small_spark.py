"""A stand-in for Spark that runs epochs of the small city in this process: no start-up, and crashes at will.

It does what Spark does for the runtime, no more: it calls for one epoch after another, in each reads the events
that belong to it, brings every row to its worker's task, and calls again for an epoch that did not return.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.small_city import city, city_events

from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import RawBatch
from shoal.model.control.binding import Binding
from shoal.model.control.messages import Command, Rebind
from shoal.model.control.shedding import StreamShedding
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.driver.epoch import EpochRunner
from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup
from shoal.runtimes.spark.driver.small_epochs import SmallEpochs
from shoal.runtimes.spark.state.checkpoint import Checkpoint, compiled, program
from shoal.runtimes.spark.state.store import hot_directory, open_store
from shoal.runtimes.spark.tasks import task as tasks
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.intake import Intake
from shoal.runtimes.spark.tasks.reports import SliceRead
from shoal.session.digest import result_digest
from shoal.storage.directory import Directory
from shoal.workloads.traffic.queries import STREAM

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Context:
    """Spark's task context, as far as Shoal asks it anything."""

    running = 0

    @classmethod
    def get(cls) -> "Context":
        return cls()

    def partitionId(self) -> int:  # noqa: N802  (Spark's name)
        return Context.running


@dataclass
class Rows:
    """A DataFrame of wire rows that are made when they are needed."""

    make: Callable[[], pa.Table]
    workers: int = 1

    @property
    def sparkSession(self) -> "Session":  # noqa: N802  (Spark's name)
        return Session()

    def repartitionById(self, workers: int, column: str) -> "Rows":  # noqa: N802  (Spark's name)
        return Rows(self.make, workers)

    def mapInArrow(self, work: Work, schema: object) -> "Rows":  # noqa: N802  (Spark's name)
        return Rows(lambda: pa.Table.from_batches(list(self._each(work))))

    def toArrow(self) -> pa.Table:  # noqa: N802  (Spark's name)
        return self.make()

    def _each(self, work: Work) -> Iterator[pa.RecordBatch]:
        table = self.make()
        for Context.running in range(self.workers):
            mine = table.filter(pc.equal(table["worker"], Context.running))
            yield from work(iter(mine.to_batches()))


class Settings(dict[str, str]):
    """Spark's settings; none is read here."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


class Session:
    """Spark's session, as far as the runtime asks it anything after the start."""

    def __init__(self) -> None:
        self.conf = Settings()

    def newSession(self) -> "Session":  # noqa: N802  (Spark's name)
        return self

    @property
    def sparkContext(self) -> "Session":  # noqa: N802  (Spark's name)
        return self

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802  (Spark's name)
        """Tasks run in this process, and trust what it trusts."""

    def createDataFrame(self, data: pa.Table, schema: object) -> Rows:  # noqa: N802  (Spark's name)
        return Rows(lambda: data)


@dataclass
class SmallRun:
    """A run of the small city on a checkpoint directory; `go` may be interrupted and called again."""

    root: Path
    epochs: int = 6
    rows_per_epoch: int = 1_500
    workers: int = 2
    shuffle: bool = False
    commands: Mapping[int, Sequence[Command]] = field(default_factory=dict)
    graph: Graph = field(default_factory=lambda: city().job.graph)
    mechanism: str = "megaphone"
    parks: bool = False
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    small: bool = False

    @property
    def uri(self) -> str:
        return str(self.root / "checkpoint")

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.uri)

    @property
    def sink(self) -> ParquetSink:
        return ParquetSink(str(self.root / "results"))

    def started(self) -> SparkRuntime:
        """A runtime at the position where the last one left off, as a new process would find it."""
        open_store.cache_clear()
        compiled.cache_clear()
        source = Generator(city_events(), self.epochs * self.rows_per_epoch)
        session = cast(SparkSession, Session())
        setup = SparkSetup(
            session,
            self.uri,
            {STREAM: source},
            self.sink,
            mechanism=self.mechanism,
            parks=self.parks,
            shedding=self.shedding,
        )
        runtime = SparkRuntime(setup)
        position = runtime._begin(self.graph, round_robin(self.graph, self.workers))
        small = SmallEpochs(session) if self.small else None
        runtime._runner = EpochRunner(runtime._checkpoint, self.sink, position, small=small)
        return runtime

    def go(self, until: int | None = None) -> SparkRuntime:
        """Run from wherever it is to the end, or to an epoch."""
        runtime = self.started()
        while not runtime._all_ended() and (until is None or runtime._last + 1 < until):
            epoch = self.next_epoch()
            self.note("offsets", epoch, str((epoch + 1) * self.rows_per_epoch))
            self.command(runtime, epoch)
            runtime._epoch(self.rows(epoch), epoch)
            self.note("commits", epoch, "done")
        if runtime._all_ended() and not runtime._finished:
            runtime._flush()
        return runtime

    def command(self, runtime: SparkRuntime, epoch: int) -> None:
        """Ask for an epoch's changes, once: they are in its plan if that was made before a crash."""
        if self.checkpoint.has_plan(epoch):
            return
        if self.shuffle:
            runtime.apply(Rebind(self.binding(epoch)))
        for command in self.commands.get(epoch, ()):
            runtime.apply(command)

    def next_epoch(self) -> int:
        """As Spark does: the last one it has noted the input of, or the one after if that is done."""
        noted, done = (
            max((int(path.name) for path in Path(self.uri, "spark", log).glob("*")), default=-1)
            for log in ("offsets", "commits")
        )
        return noted + 1 if noted == done else noted

    def note(self, log: str, epoch: int, text: str) -> None:
        path = Path(self.uri, "spark", log, str(epoch))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def noted(self, epoch: int) -> int:
        """Where an epoch's input ends."""
        return int(Path(self.uri, "spark", "offsets", str(epoch)).read_text()) if epoch >= 0 else 0

    def binding(self, epoch: int) -> Binding:
        return shuffled(self.graph, self.workers, seed=epoch)

    def rows(self, epoch: int) -> DataFrame:
        """What the reading tasks make of an epoch's events."""

        def make() -> pa.Table:
            plan = self.checkpoint.plan(epoch)
            first, last = self.noted(epoch - 1), self.noted(epoch)
            middle = (first + last) // 2
            ended = last >= self.epochs * self.rows_per_epoch
            parts = []
            for start, stop in ((first, middle), (middle, last)):
                events = city_events().batch(start, stop)
                read = SliceRead("events", stop - start, ended)
                intake = Intake(program(self.uri, plan.graph, plan.partitioning), plan, STREAM)
                parts.append(wire.rows(list(intake.run([RawBatch(events, "events", start)], read))))
            return pa.Table.from_batches(parts)

        return cast(DataFrame, Rows(make))

    def digest(self) -> str:
        return result_digest({name: self.sink.table(name) for name in self.sink.names()})


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Directories for runs; their hot copies in shared memory are removed afterwards."""
    made: list[Path] = []

    def directory() -> Path:
        made.append(tmp_path / str(len(made)))
        return made[-1]

    yield directory
    for root in made:
        Directory(hot_directory(str(root / "checkpoint"))).clear()


def pretend(patched: pytest.MonkeyPatch) -> None:
    """Make tasks run as if in Spark."""
    patched.setattr(tasks, "TaskContext", Context)
    patched.setattr(tasks, "freeze_what_stays", lambda: None)


@pytest.fixture
def small_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tasks run as if in Spark during a test."""
    pretend(monkeypatch)
