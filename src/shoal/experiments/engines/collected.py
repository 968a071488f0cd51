"""Engines that answer at the end: rows are collected in memory, and one function turns them into results."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import pyarrow as pa

from shoal.errors import ConfigError, RunError, ShoalError
from shoal.experiments.engines.contract import Emit, EngineJob
from shoal.experiments.engines.ordered_session import OrderedSession
from shoal.experiments.engines.row_types import columns_of, plain_results

Answer = tuple[str, pa.Table]
"""The name of an output stream and its rows."""


class BatchEngine(ABC):
    """Computes results from all rows at once. A subclass has `name`, `languages`, `missing`, `check` and `answers`."""

    name: str
    languages: tuple[str, ...]
    live = False
    runs_graphs = False
    """Whether a query may be a graph of operators instead of a text."""

    def missing(self) -> str:
        """Nothing, unless a subclass needs a package."""
        return ""

    @abstractmethod
    def check(self, job: EngineJob, empty: Mapping[str, pa.Table]) -> None:
        """Raise an error if a query cannot run; `empty` has the columns of each stream."""

    @abstractmethod
    def answers(self, job: EngineJob, tables: Mapping[str, pa.Table], stop: threading.Event) -> Iterable[Answer]:
        """Yield the results of every query; return early if `stop` is set."""

    def open(self, job: EngineJob, emit: Emit) -> "CollectedSession":
        """Check the queries against streams without rows."""
        if not self.runs_graphs:
            check_texts(self.name, self.languages, job)
        self.check(job, {name: columns_of(each).empty_table() for name, each in job.streams.items()})
        return CollectedSession(self, job, emit)


class CollectedSession(OrderedSession):
    """Collects rows and answers when there are no more."""

    def __init__(self, engine: BatchEngine, job: EngineJob, emit: Emit) -> None:
        """No rows yet."""
        super().__init__(engine.name, job)
        self._engine, self._emit = engine, emit
        self._rows: dict[str, list[pa.RecordBatch]] = {name: [] for name in job.streams}
        self._stop = threading.Event()

    def _begin(self) -> None:
        pass

    def _take(self, stream: str, rows: pa.RecordBatch) -> None:
        self._rows[stream].append(rows)

    def _finish(self) -> None:
        tables = {name: _table(rows, columns_of(self._job.streams[name])) for name, rows in self._rows.items()}
        self._rows.clear()
        try:
            for output, found in self._engine.answers(self._job, tables, self._stop):
                for batch in plain_results(found).to_batches():
                    if self._stop.is_set():
                        return
                    self._emit(output, batch)
        except ShoalError:
            raise
        except Exception as error:
            if self._stop.is_set():
                return
            raise RunError(f"{self._name} failed: {type(error).__name__}: {error}") from error

    def _release(self) -> None:
        self._stop.set()


def check_texts(engine: str, languages: tuple[str, ...], job: EngineJob) -> None:
    """Reject queries without a text, for engines that run no graphs."""
    for query in job.queries:
        if not query.text.strip():
            keys = " or ".join(languages)
            raise ConfigError(f"query {query.name!r} has no text for {engine}; give it one under sql-query: {keys}")


def _table(rows: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.table(pa.Table.from_batches([batch.cast(nullable) for batch in rows], nullable))
