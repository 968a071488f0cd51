"""Engines that read files: rows are written as they come, and the engine answers when there are no more."""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from shoal.errors import RunError, ShoalError
from shoal.experiments.engines.collected import Answer, check_texts
from shoal.experiments.engines.contract import Emit, EngineJob
from shoal.experiments.engines.ordered_session import OrderedSession
from shoal.experiments.engines.row_types import columns_of, plain_results
from shoal.experiments.engines.spool import Spool


class FileQueries(Protocol):
    """Queries that an engine has accepted, which read the files of a spool."""

    def answers(self) -> Iterable[Answer]:
        """Yield the results of all queries; called once, when all files are written."""

    def close(self) -> None:
        """End everything; called once, perhaps while another thread is in `answers`."""


class SpooledEngine(ABC):
    """A subclass has `name`, `languages`, `format`, `missing` and `prepared`."""

    name: str
    languages: tuple[str, ...]
    format: str
    """Of the files: `parquet`, `csv`, or `headed-csv` with a line of names."""
    live = False

    @abstractmethod
    def missing(self) -> str:
        """What must be installed."""

    @abstractmethod
    def prepared(self, job: EngineJob, spool: Spool) -> FileQueries:
        """Check the queries, and start what takes long; no rows are written yet."""

    def open(self, job: EngineJob, emit: Emit) -> "SpooledSession":
        """Prepare the queries over empty directories."""
        check_texts(self.name, self.languages, job)
        directory = Path(tempfile.mkdtemp(prefix=f"shoal-{self.name}-"))
        try:
            spool = Spool(directory, {name: columns_of(each) for name, each in job.streams.items()}, self.format)
            return SpooledSession(self.name, job, spool, self.prepared(job, spool), emit)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise


class SpooledSession(OrderedSession):
    """Writes rows to files; at the end the engine reads them."""

    def __init__(self, name: str, job: EngineJob, spool: Spool, queries: FileQueries, emit: Emit) -> None:
        """No rows yet."""
        super().__init__(name, job)
        self._spool, self._queries, self._emit = spool, queries, emit

    def _begin(self) -> None:
        pass

    def _take(self, stream: str, rows: pa.RecordBatch) -> None:
        self._spool.add(stream, rows)

    def _finish(self) -> None:
        self._spool.close()
        try:
            for output, found in self._queries.answers():
                for batch in plain_results(found).to_batches():
                    if self._stopped:
                        return
                    self._emit(output, batch)
        except ShoalError:
            if not self._stopped:
                raise
        except Exception as error:
            if not self._stopped:
                raise RunError(f"{self._name} failed: {type(error).__name__}: {error}") from error

    def _release(self) -> None:
        try:
            self._queries.close()
        finally:
            shutil.rmtree(self._spool.directory, ignore_errors=True)
