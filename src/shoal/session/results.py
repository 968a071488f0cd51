"""Where the results of a run go: its sink, checked and opened before the runtime starts."""

import io
from pathlib import Path
from typing import cast

import pyarrow as pa

from shoal.connectors.result_directory import Opening
from shoal.connectors.sinks import MemorySink, OpenedSink, ParquetSink, Sink
from shoal.errors import ConfigError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.flow import QUERY
from shoal.model.query.graph import Graph
from shoal.model.query.schema import Schema
from shoal.runtimes.protocol import RuntimeKind


def opening_of(graph: Graph, kind: RuntimeKind, checkpoint: str | None) -> Opening:
    """What a sink is told of a run; `checkpoint` is None for one that cannot be resumed."""
    kept = None if checkpoint is None or kind.kept is None else kind.kept(checkpoint)
    tables = {query.table: _columns(query.sink.parameters["columns"]) for query in graph.queries.values()}
    return Opening(tables, checkpoint or "", resumed=kept is not None and kept.last_epoch() is not None)


def _columns(columns: object) -> pa.Schema:
    return pa.schema([pa.field(QUERY, pa.string()), *arrow_schema(Schema.of(columns))])  # type: ignore[arg-type]


def opened(sink: object, opening: Opening) -> Sink:
    """The sink for one run; anything that is no sink is rejected."""
    if not callable(getattr(sink, "write", None)) or isinstance(sink, io.IOBase):
        hint = f"; write sink=ParquetSink({str(sink)!r})" if isinstance(sink, str | Path) else ""
        raise ConfigError(
            f"sink must be a MemorySink, ParquetSink or ConsoleSink, or have their method write; got {sink!r}{hint}"
        )
    return sink.opened(opening) if isinstance(sink, OpenedSink) else cast(Sink, sink)


def written_results(sink: Sink, graph: Graph) -> dict[str, pa.Table]:
    """The result tables of some queries that are in a sink; none if they cannot be read back."""
    if not isinstance(sink, MemorySink | ParquetSink):
        return {}
    tables = {query.table for query in graph.queries.values()}
    return {table: sink.table(table) for table in sorted(tables & set(sink.names()))}
