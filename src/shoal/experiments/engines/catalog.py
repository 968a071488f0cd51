"""The engines by name; each is imported when it is first used."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import cast

from shoal.errors import ConfigError, did_you_mean
from shoal.experiments.engines.contract import Engine, SharingEngine

ENGINES: Mapping[str, str] = {
    "shoal-local": "shoal.experiments.engines.own.shoal_live:LOCAL",
    "shoal-spark": "shoal.experiments.engines.own.shoal_live:SPARK",
    "shoal-simulated": "shoal.experiments.engines.own.shoal_simulated:SIMULATED",
    "shoal-reference": "shoal.experiments.engines.own.shoal_live:REFERENCE",
    "spark-sql": "shoal.experiments.engines.structured_streaming:SPARK_SQL",
    "flink": "shoal.experiments.engines.apart.flink_sql:FLINK",
    "bytewax": "shoal.experiments.engines.apart.python_programs:BYTEWAX",
    "pathway": "shoal.experiments.engines.apart.python_programs:PATHWAY",
    "duckdb": "shoal.experiments.engines.duckdb_batch:DUCKDB",
}
"""Module and name of every engine."""


@cache
def engine_named(name: str) -> Engine:
    """The engine with this name, installed or not.

    >>> engine_named("duckdb").live
    False
    """
    if name not in ENGINES:
        raise ConfigError(f"engine must be one of {', '.join(ENGINES)}; got {name!r}{did_you_mean(name, ENGINES)}")
    module, _, attribute = ENGINES[name].partition(":")
    return cast(Engine, getattr(import_module(module), attribute))


def installed_engine(name: str) -> Engine:
    """The engine with this name; an error says what to install if it cannot run here."""
    engine = engine_named(name)
    if missing := engine.missing():
        raise ConfigError(f"engine {name} cannot run here: {missing}")
    return engine


def shut_down(engine: Engine) -> None:
    """End what the sessions of an engine have shared, if anything."""
    if isinstance(engine, SharingEngine):
        engine.shutdown()
