"""The registry entry of the Spark runtime; Spark itself is imported only when a runtime is made."""

from collections.abc import Mapping
from typing import Any

from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError
from shoal.model.control.parked import parks
from shoal.model.query.graph import Graph
from shoal.runtimes.protocol import Launch, Runtime, RuntimeKind, Say, refuse_dataframes, refuse_endless
from shoal.runtimes.spark.capabilities import CAPABILITIES
from shoal.runtimes.spark.cluster.conf import check_conf
from shoal.runtimes.spark.rebinding.kept_run import SparkRun
from shoal.runtimes.spark.state.checkpoint import Checkpoint


def made(launch: Launch) -> Runtime:
    """A runtime on the given session, on the active one, or on a new local one."""
    launch.refuse(CAPABILITIES.name, "local")
    if launch.checkpoint is None:
        raise ConfigError("the spark runtime needs a checkpoint directory; got none")
    check_conf(launch.conf)
    Checkpoint(launch.checkpoint).check_usable()
    from shoal.runtimes.spark.cluster.session import READ_AHEAD, SMALL_EPOCHS, spark_session, use_own_python
    from shoal.runtimes.spark.driver.runtime import SparkRuntime, SparkSetup

    session = launch.spark if launch.spark is not None else spark_session(launch.conf)
    use_own_python(session)
    mechanism = launch.mechanism or CAPABILITIES.mechanisms[0]
    return SparkRuntime(
        SparkSetup(
            session,
            launch.checkpoint,
            launch.sources,
            launch.sink,
            launch.interval_s,
            mechanism,
            allow_pickle=launch.allow_pickle,
            parks=parks(launch.on_query_error),
            shedding=launch.shedding,
            small_epochs=session.conf.get(SMALL_EPOCHS, "true") == "true",
            reads_ahead=session.conf.get(READ_AHEAD, "true") == "true",
        )
    )


def profiled(graph: Graph, sources: Mapping[str, Source], say: Say | None = None) -> dict[str, Any]:
    """What the parts of an epoch cost, on the active session or on a new local one."""
    refuse_dataframes(sources)
    refuse_endless(sources)
    from shoal.runtimes.spark.profile import epoch_costs

    return epoch_costs(graph, sources, say)


SPARK = RuntimeKind(CAPABILITIES, made, profile=profiled, kept=SparkRun)
