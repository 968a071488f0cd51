"""What the sources of a run must be, checked before it begins."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame

from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, GraphError
from shoal.model.query.graph import Graph


def check_sources(graph: Graph, sources: Mapping[str, Source | DataFrame], shed: Collection[str]) -> None:
    """Reject a stream without a source, and DataFrames that are not streams or of which rows may be shed."""
    missing = set(graph.streams) - set(sources)
    if missing:
        known = ", ".join(sources) or "none"
        raise GraphError(f"stream {', '.join(sorted(missing))} has no source; there are sources for {known}")
    for stream, source in sources.items():
        if not isinstance(source, DataFrame):
            continue
        if not source.isStreaming:
            raise GraphError(
                f"source of stream {stream!r} must be a streaming DataFrame, made by spark.readStream; "
                "got one that is not"
            )
        if stream in shed:
            raise ConfigError(
                f"rows of stream {stream!r} cannot be shed: those of a DataFrame have no positions that a replay "
                "would find again; read it with a source of Shoal"
            )
