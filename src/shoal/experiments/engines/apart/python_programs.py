"""Bytewax and Pathway: queries are functions of Python files, in a Python that has the engine.

Pathway pins versions of Arrow and sqlglot that are not Shoal's; Bytewax can be installed beside Shoal as well.
"""

from shoal.experiments.engines.apart.environment import ApartEngine, Environment


class BytewaxEngine(ApartEngine):
    """A query is a function of streams and a clock that returns a stream of rows, see `bytewax_adapter.py`."""

    name = "bytewax"
    languages = ("bytewax",)
    format = "parquet"
    environment = Environment("SHOAL_BYTEWAX_PYTHON", "bytewax", "pip install bytewax pyarrow", "bytewax_adapter.py")


class PathwayEngine(ApartEngine):
    """A query is a function of tables that returns a table, or SQL; see `pathway_adapter.py`."""

    name = "pathway"
    languages = ("pathway",)
    format = "headed-csv"
    environment = Environment("SHOAL_PATHWAY_PYTHON", "pathway", "pip install 'pathway[sql]'", "pathway_adapter.py")


BYTEWAX = BytewaxEngine()
PATHWAY = PathwayEngine()
