"""What an oracle reads: the very events a run has read, generated again or from the same files."""

from collections.abc import Sequence

import pyarrow as pa

from shoal.connectors.files import Files
from shoal.connectors.generator import Events
from shoal.connectors.source import Source
from shoal.errors import ConfigError

BATCH_ROWS = 1 << 20


def oracle_input(events: Events, number: int, columns: Sequence[str], source: Source | None) -> pa.Table | str:
    """The first events of a generator as a table, or a glob of the Parquet files that stood in for it."""
    if source is None:
        return _generated(events, number, list(columns))
    if not isinstance(source, Files) or source.format != "parquet":
        raise ConfigError("an oracle checks generated events or Parquet files, no other source; leave --check out")
    return f"{source.path}/*.parquet"


def _generated(events: Events, number: int, columns: list[str]) -> pa.Table:
    schema = events.batch(0, 0).select(columns).schema
    starts = range(0, number, BATCH_ROWS)
    batches = [events.batch(start, min(number, start + BATCH_ROWS)).select(columns) for start in starts]
    return pa.Table.from_batches(batches, schema)
