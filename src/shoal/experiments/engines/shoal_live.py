"""Shoal's runtimes as engines: rows are pushed into a run, and results are emitted while it goes on."""

import threading
import uuid
from dataclasses import dataclass

import pyarrow as pa

from shoal.connectors.admission import DEAD_LETTERS
from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError, RunError
from shoal.experiments.engines.contract import Emit, EngineJob
from shoal.experiments.engines.ordered_session import OrderedSession
from shoal.experiments.engines.pushed_rows import INBOXES, Inbox, PushedRows, StoredRows
from shoal.experiments.engines.row_types import plain_results
from shoal.experiments.engines.shoal_queries import shoal_graph
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
        return self.name, "shoal"

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
        self._key = uuid.uuid4().hex
        self._run: Run | None = None
        self._failure: BaseException | None = None
        self._follower = threading.Thread(target=self._follow, name=f"{engine.name}-run", daemon=True)

    def _begin(self) -> None:
        for name, inbox in self._inboxes.items():
            INBOXES[f"{self._key}/{name}"] = inbox
        self._run = start(
            Job(self._name, self._graph, {name: self._source(name) for name in self._inboxes}),
            on=self._engine.runtime,
            workers=self._job.workers,
            sink=self._sink,
            conf=dict(self._job.settings),
        )
        self._follower.start()

    def _source(self, stream: str) -> PushedRows | StoredRows:
        if self._engine.in_memory:
            return PushedRows(self._inboxes[stream])
        return StoredRows(f"{self._key}/{stream}")

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
        refused = {} if self._run is None else self._run.tally.refused_rows
        for each in refused.values():
            if each.reason != LATE:
                raise RunError(
                    f"{self._name} refused {each.rows} rows of stream {each.stream!r}: {each.reason}, "
                    f"column {each.column!r}; correct the dataset or the stream definition"
                )

    def _release(self) -> None:
        self._sink.close()
        if self._run is not None:
            self._run.stop()
        for inbox in self._inboxes.values():
            inbox.close()
        if self._follower.ident is not None and self._follower is not threading.current_thread():
            self._follower.join()
        for name in [each for each in INBOXES if each.startswith(self._key)]:
            del INBOXES[name]


LOCAL = ShoalEngine("shoal-local", "local", in_memory=True)
REFERENCE = ShoalEngine("shoal-reference", "reference", in_memory=True)
SPARK = ShoalEngine("shoal-spark", "spark", in_memory=False)
