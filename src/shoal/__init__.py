"""Adaptive stream processing on Spark: many continuous queries, one graph, state that belongs to operators."""

from shoal.connectors.files import Files
from shoal.connectors.generator import Generator
from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink
from shoal.errors import ShoalError
from shoal.model.aggregate import count, max_, mean, min_, sum_, top_k
from shoal.model.binding import Binding, Move
from shoal.model.expression import col, lit, lookup
from shoal.model.graph import Graph, Query
from shoal.model.window import hop, tumbling
from shoal.query.stream import Stream
from shoal.session.job import Job
from shoal.session.run import Run, start

__version__ = "0.1.0"

__all__ = [
    "Binding",
    "ConsoleSink",
    "Files",
    "Generator",
    "Graph",
    "Job",
    "MemorySink",
    "Move",
    "ParquetSink",
    "Query",
    "Run",
    "ShoalError",
    "Stream",
    "col",
    "count",
    "hop",
    "lit",
    "lookup",
    "max_",
    "mean",
    "min_",
    "start",
    "sum_",
    "top_k",
    "tumbling",
]
