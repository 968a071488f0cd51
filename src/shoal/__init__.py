"""Adaptive stream processing on Spark: many continuous queries, one graph, state that belongs to operators."""

from typing import TYPE_CHECKING, Any

from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.generator import Generator
from shoal.control.settings import ControlSettings
from shoal.errors import ShoalError
from shoal.language.python.containment import cell_borders, cell_center
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding, Move
from shoal.model.control.shedding import Shedding
from shoal.model.query.aggregate import (
    approx_distinct,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    user_aggregate,
    variance,
)
from shoal.model.query.expression import col, lit
from shoal.model.query.functions import (
    abs_,
    call,
    coalesce,
    distance,
    floor,
    haversine,
    if_,
    is_null,
    is_same,
    null,
    nullif,
    round_,
    udf,
)
from shoal.model.query.graph import Graph, Query
from shoal.model.query.lookup import lookup
from shoal.model.query.pattern import prev
from shoal.model.query.schema import not_null
from shoal.model.query.window import hop, rows, sessions, tumbling
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import circle, point, polygon, rectangle
from shoal.session.job import Job
from shoal.session.run import Run, start

if TYPE_CHECKING:
    from shoal.runtimes.local.settings import LocalSettings

__version__ = "0.1.0"

__all__ = [
    "Binding",
    "ConsoleSink",
    "ControlSettings",
    "Files",
    "Flow",
    "Generator",
    "Graph",
    "Grid",
    "Job",
    "LocalSettings",
    "MemorySink",
    "Move",
    "ParquetSink",
    "Query",
    "Run",
    "Shedding",
    "ShoalError",
    "Stream",
    "abs_",
    "approx_distinct",
    "call",
    "cell_borders",
    "cell_center",
    "circle",
    "coalesce",
    "col",
    "count",
    "count_distinct",
    "distance",
    "floor",
    "haversine",
    "hop",
    "if_",
    "is_null",
    "is_same",
    "lit",
    "lookup",
    "max_",
    "mean",
    "min_",
    "not_null",
    "null",
    "nullif",
    "point",
    "polygon",
    "prev",
    "rectangle",
    "round_",
    "rows",
    "sessions",
    "start",
    "stddev",
    "sum_",
    "top_k",
    "tumbling",
    "udf",
    "user_aggregate",
    "variance",
]


def __getattr__(name: str) -> Any:
    """Import the local runtime when its settings are first asked for."""
    if name == "LocalSettings":
        from shoal.runtimes.local.settings import LocalSettings

        return LocalSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
