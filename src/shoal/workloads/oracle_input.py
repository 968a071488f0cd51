"""The input of an oracle: exactly the events that a run has read, made again or from the same files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import duckdb
import pyarrow as pa

from shoal.connectors.sources.files import Files
from shoal.connectors.sources.generator import Events
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, SchemaError, SourceError

BATCH_ROWS = 1 << 20


@runtime_checkable
class RepeatedEvents(Protocol):
    """A source that can make the events of a run again, after the run."""

    def first_events(self, number: int) -> pa.Table:
        """The first `number` events of the stream."""


def oracle_input(events: Events, number: int, columns: Sequence[str], source: Source | None) -> pa.Table | str:
    """The first events of a generator or of what replaced it as a table, or a glob of the Parquet files that did."""
    if source is None:
        return _generated(events, number, list(columns))
    if isinstance(source, RepeatedEvents):
        return source.first_events(number)
    if not isinstance(source, Files) or source.format != "parquet":
        raise ConfigError("an oracle checks generated events or Parquet files, no other source; leave --check out")
    return f"{source.path}/*.parquet"


def known_windows(clock: str) -> None:
    """Reject windows by the clock: which events they have depends on when a run reads them, so no oracle knows."""
    if clock != "event":
        raise ConfigError(f"an oracle checks windows of event time; got clock={clock}; leave --check out")


def relation_of(
    database: duckdb.DuckDBPyConnection, workload: str, events: pa.Table | str | Path, columns: Sequence[str]
) -> duckdb.DuckDBPyRelation:
    """The events of a workload as a relation of a database: a table, or the Parquet files of a glob."""
    try:
        rows = database.from_arrow(events) if isinstance(events, pa.Table) else database.read_parquet(str(events))
    except duckdb.Error as error:
        raise _unreadable(workload, events, error) from error
    _check_columns(workload, rows.columns, columns)
    return rows


def table_of(workload: str, events: pa.Table | str | Path, columns: Sequence[str]) -> pa.Table:
    """The events of a workload as a table, from a table or the Parquet files of a glob."""
    if isinstance(events, pa.Table):
        _check_columns(workload, events.column_names, columns)
        return events
    with duckdb.connect() as database:
        try:
            return relation_of(database, workload, events, columns).to_arrow_table()
        except duckdb.Error as error:
            raise _unreadable(workload, events, error) from error


def _unreadable(workload: str, events: object, error: duckdb.Error) -> SourceError:
    return SourceError(f"{workload} events must be Parquet files; cannot read {str(events)!r}: {error}")


def _check_columns(workload: str, present: Sequence[str], columns: Sequence[str]) -> None:
    if missing := [column for column in columns if column not in present]:
        raise SchemaError(f"{workload} events lack {', '.join(missing)}; got {', '.join(present)}")


def _generated(events: Events, number: int, columns: list[str]) -> pa.Table:
    schema = events.batch(0, 0).select(columns).schema
    starts = range(0, number, BATCH_ROWS)
    batches = [events.batch(start, min(number, start + BATCH_ROWS)).select(columns) for start in starts]
    return pa.Table.from_batches(batches, schema)
