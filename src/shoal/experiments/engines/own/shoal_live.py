"""Shoal's runtimes as engines: rows are pushed into a run, and results are emitted while it goes on."""

import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError, RunError
from shoal.experiments.engines.contract import Emit, EngineJob
from shoal.experiments.engines.ordered_session import OrderedSession
from shoal.experiments.engines.own.pushed_rows import Inbox, PushedRows
from shoal.experiments.engines.own.shoal_queries import shoal_graph
from shoal.experiments.engines.own.stored_rows import RowWriter, StoredRows
from shoal.experiments.engines.row_types import plain_results
from shoal.experiments.engines.spark_jvm import end_spark, shared_spark
from shoal.language.python.flow import QUERY
from shoal.model.query.graph import Graph
from shoal.session.job import Job
from shoal.session.run import Run, start

LATE = "late"
"""The reason of rows that are refused because their windows are closed, which is no mistake of theirs."""


@dataclass(frozen=True)
class ShoalEngine:
    """A runtime of this project; `in_memory`: its workers are threads, so that rows need no files."""

    name: str
    runtime: str
    in_memory: bool
    live: bool = True

    @property
    def languages(self) -> tuple[str, ...]:
        """Its own texts first, then those for every runtime."""
        return self.name, "shoal", "sql"

    def missing(self) -> str:
        """Nothing: runtimes come with Shoal."""
        return ""

    def open(self, job: EngineJob, emit: Emit) -> "ShoalSession":
        """Compile the queries."""
        if not job.queries:
            raise ConfigError(f"{self.name} needs at least one query; deploy one before it starts")
        return ShoalSession(self, job, shoal_graph(self.name, job), emit)


class EmittingSink(MemorySink):
    """Passes results on as they come; the local runtime delivers to a sink in memory at once."""

    def __init__(self, emit: Emit) -> None:
        """Nothing written yet."""
        super().__init__()
        self._emit: Emit | None = emit
        self._newest: dict[str, int] = {}

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        """Emit rows of an epoch, once."""
        emit = self._emit
        if emit is None or table == DEAD_LETTERS or epoch <= self._newest.get(table, -1):
            return
        self._newest[table] = epoch
        kept = rows.drop_columns([QUERY]) if QUERY in rows.column_names else rows
        for batch in plain_results(kept).to_batches():
            emit(table, batch)

    def close(self) -> None:
        """Emit nothing more."""
        self._emit = None


class ShoalSession(OrderedSession):
    """A run that is fed by inboxes, one for each stream that a query reads."""

    def __init__(self, engine: ShoalEngine, job: EngineJob, graph: Graph, emit: Emit) -> None:
        """Nothing runs yet."""
        super().__init__(engine.name, job)
        self._engine, self._graph = engine, graph
        self._sink = EmittingSink(emit)
        self._inboxes = {name: Inbox(name) for name in graph.streams}
        self._writers: list[RowWriter] = []
        self._directory: Path | None = None
        self._run: Run | None = None
        self._failure: BaseException | None = None
        self._follower = threading.Thread(target=self._follow, name=f"{engine.name}-run", daemon=True)

    def _begin(self) -> None:
        if not self._engine.in_memory:
            self._directory = Path(tempfile.mkdtemp(prefix=f"{self._name}-rows-"))
        self._run = start(
            Job(self._name, self._graph, {name: self._source(name) for name in self._inboxes}),
            on=self._engine.runtime,
            workers=self._job.workers,
            sink=self._sink,
            conf=dict(self._job.settings),
            spark=None if self._engine.in_memory else shared_spark(self._job.workers, self._job.settings),
        )
        self._follower.start()

    def _source(self, stream: str) -> PushedRows | StoredRows:
        inbox = self._inboxes[stream]
        if self._directory is None:
            return PushedRows(inbox)
        self._writers.append(RowWriter(inbox, self._directory / stream))
        return StoredRows(str(self._directory / stream))

    def _follow(self) -> None:
        """Follow the run to its end, on a thread of its own."""
        try:
            if self._run is not None:
                self._run.wait()
        except BaseException as error:  # noqa: BLE001  (whoever calls the session must get every failure)
            self._failure = error
        finally:
            for inbox in self._inboxes.values():
                inbox.close()

    def _take(self, stream: str, rows: pa.RecordBatch) -> None:
        inbox = self._inboxes.get(stream)
        if inbox is not None and rows.num_rows and not inbox.put(rows) and not self._stopped:
            self._follower.join()
            self._raise()

    def _finish(self) -> None:
        for inbox in self._inboxes.values():
            inbox.end()
        self._follower.join()
        if not self._stopped:
            self._raise()

    def _raise(self) -> None:
        """Raise what ended the run, or what it refused."""
        if self._failure is not None:
            raise RunError(f"{self._name} failed: {self._failure}") from self._failure
        if self._run is not None and (refused := refused_input(self._run)):
            raise RunError(f"{self._name} {refused}")

    def _release(self) -> None:
        self._sink.close()
        if self._run is not None:
            self._run.stop()
        for inbox in self._inboxes.values():
            inbox.close()
        if self._follower.ident is not None and self._follower is not threading.current_thread():
            self._follower.join()
        for writer in self._writers:
            writer.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def refused_input(run: Run) -> str:
    """What a run has refused of its input, as the rest of a sentence; empty if nothing but late rows."""
    for each in run.tally.refused_rows.values():
        if each.reason != LATE:
            return (
                f"refused {each.rows} rows of stream {each.stream!r} ({each.reason}, column {each.column!r}: "
                f"{each.detail}); correct the dataset or the stream definition"
            )
    return ""


class ShoalSparkEngine(ShoalEngine):
    """Shoal on Spark; sessions share the JVM with other engines on Spark."""

    def shutdown(self) -> None:
        """End Spark."""
        end_spark()


LOCAL = ShoalEngine("shoal-local", "local", in_memory=True)
REFERENCE = ShoalEngine("shoal-reference", "reference", in_memory=True)
SPARK = ShoalSparkEngine("shoal-spark", "spark", in_memory=False)
