"""SQLite as an engine: the example of docs/how-to/add-an-engine.md, on the conformance list like all others."""

import sqlite3
import threading
from collections.abc import Iterable, Mapping

import pyarrow as pa

from shoal.errors import ConfigError
from shoal.experiments.engines.collected import Answer, BatchEngine
from shoal.experiments.engines.contract import EngineJob

TIME = " [timestamp]"
"""What a query writes behind the name of a column that is a time: SQLite has none, so they are microseconds here."""
STEPS = 10_000
"""Steps of SQLite after which a query looks whether it was stopped."""


class SqliteEngine(BatchEngine):
    """Runs SQL in this process; a query may read the streams only."""

    name = "sqlite"
    languages: tuple[str, ...] = ("sqlite",)

    def check(self, job: EngineJob, empty: Mapping[str, pa.Table]) -> None:
        """Run every query without rows, so that SQLite finds mistakes."""
        database = loaded(empty)
        for query in job.queries:
            try:
                if database.execute(query.text).description is None:
                    raise ConfigError(f"{self.name} cannot run query {query.name!r}: it must be a SELECT")
            except sqlite3.Error as error:
                raise ConfigError(f"{self.name} cannot run query {query.name!r}: {error}") from error
        database.close()

    def answers(self, job: EngineJob, tables: Mapping[str, pa.Table], stop: threading.Event) -> Iterable[Answer]:
        """Run the queries in order; a stopped session interrupts them."""
        database = loaded(tables)
        database.set_progress_handler(stop.is_set, STEPS)
        for query in job.queries:
            yield query.output, rows_of(database.execute(query.text))
        database.close()


def loaded(tables: Mapping[str, pa.Table]) -> sqlite3.Connection:
    """A database with the rows of all streams."""
    database = sqlite3.connect(":memory:")
    for name, table in tables.items():
        columns = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in table.columns]
        database.execute(f"CREATE TABLE {name} ({', '.join(table.column_names)})")
        marks = ", ".join("?" * len(columns))
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return database


def rows_of(cursor: sqlite3.Cursor) -> pa.Table:
    """Results as a table."""
    names = [each[0] for each in cursor.description]
    values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    types = [pa.timestamp("us") if name.endswith(TIME) else None for name in names]
    columns = [pa.array(each, type_) for each, type_ in zip(values, types, strict=True)]
    return pa.table(columns, names=[name.removesuffix(TIME) for name in names])


SQLITE = SqliteEngine()
