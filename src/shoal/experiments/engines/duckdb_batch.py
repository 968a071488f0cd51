"""DuckDB: all rows in one batch, the answer that streaming engines are compared with."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from shoal.errors import ConfigError
from shoal.experiments.engines.collected import Answer, BatchEngine
from shoal.experiments.engines.contract import EngineJob

WATCH_S = 0.05
"""How often a query that runs looks whether it was stopped."""


class DuckDbEngine(BatchEngine):
    """Runs SQL in this process; a query may read the output of those before it."""

    name = "duckdb"
    languages = ("duckdb", "sql")

    def check(self, job: EngineJob, empty: Mapping[str, pa.Table]) -> None:
        """Run every query without rows: parser and binder find most mistakes."""
        with _database(job, empty) as database:
            for query in job.queries:
                try:
                    view = database.sql(query.text)
                    if view is None:
                        raise ConfigError(f"duckdb cannot run query {query.name!r}: it must be a SELECT")
                    _keep(database, query.output, view.to_arrow_table())
                except duckdb.Error as error:
                    raise ConfigError(f"duckdb cannot run query {query.name!r}: {error}") from error

    def answers(self, job: EngineJob, tables: Mapping[str, pa.Table], stop: threading.Event) -> Iterable[Answer]:
        """Run the queries in order."""
        with _database(job, tables) as database, _interrupted(database, stop):
            for query in job.queries:
                found = database.sql(query.text).to_arrow_table()
                _keep(database, query.output, found)
                yield query.output, found


@contextmanager
def _database(job: EngineJob, tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": job.workers}) as database:
        for name, table in tables.items():
            database.register(name, table)
        yield database


def _keep(database: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    database.register(name, table)


@contextmanager
def _interrupted(database: duckdb.DuckDBPyConnection, stop: threading.Event) -> Iterator[None]:
    """Interrupt the database when the session is stopped."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):  # so that the end of a query is noticed at once
            if stop.is_set():
                database.interrupt()
                return

    watcher = threading.Thread(target=watch, name="shoal-duckdb-stop")
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


DUCKDB = DuckDbEngine()
