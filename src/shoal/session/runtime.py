"""Runtimes as a session sees them: what every one can do, and how each is made for a policy."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from shoal.connectors.sinks import Sink
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.model.binding import Binding
from shoal.model.graph import Graph
from shoal.model.messages import Command, Event
from shoal.policies.catalog import QUEUED, check_policy
from shoal.runtimes.local.runtime import LocalRuntime
from shoal.runtimes.spark.position import MECHANISMS
from shoal.session.job import Job
from shoal.session.local import NO_QUEUES, LocalSettings

QUEUES_OF = {"guarded": "node-queue"}
"""Who serves the parts of operators that a policy binds; with other policies their workers do."""


class Runtime(Protocol):
    """What every runtime can do."""

    @property
    def topology(self) -> str:
        """The machines it runs on."""

    @property
    def consumed(self) -> int:
        """Events taken in since the beginning, earlier runs included."""

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin, or go on from a checkpoint."""

    def events(self) -> Iterable[Event]:
        """What happens, ending with `RunEnded`."""

    def apply(self, command: Command) -> None:
        """Ask for a change."""

    def stop(self) -> None:
        """End after the running epoch."""


def policy_on(runtime: str, policy: str | None) -> str:
    """The policy of a run; one that does not exist, or not on this runtime, is refused."""
    if policy is None:
        return "round-robin"
    check_policy(policy)
    if policy in QUEUED and runtime != "local":
        raise ConfigError(f"policy {policy} is for the local runtime; tasks of Spark share no queue")
    return policy


def bound_settings(settings: LocalSettings, policy: str | None, control: ControlSettings) -> LocalSettings:
    """Settings of the local runtime with the queues that a policy needs."""
    if policy is None and not control.scale:
        return settings
    usual = policy if policy in QUEUED else QUEUES_OF.get(policy or "", "worker-queue")
    if policy in QUEUED and settings.queues not in (NO_QUEUES, usual):
        raise ConfigError(f"policy {policy} goes with queues={usual}; got queues={settings.queues}")
    queues = usual if settings.queues == NO_QUEUES else settings.queues
    most = 0 if control.scaling is None else control.scaling.most
    return replace(settings, queues=queues, most_workers=max(settings.most_workers, most))


def local_runtime(job: Job, sink: Sink, settings: LocalSettings) -> Runtime:
    """Threads of this process."""
    return LocalRuntime(settings.setup(job.sources, sink))


def spark_runtime(
    job: Job,
    checkpoint: str,
    sink: Sink,
    spark: Any,
    conf: Mapping[str, str] | None,
    interval_s: float,
    mechanism: str | None,
) -> Runtime:
    """Spark is imported only when it is used: it takes a while."""
    from shoal.runtimes.spark.cluster import spark_session
    from shoal.runtimes.spark.runtime import SparkRuntime, SparkSetup

    session = spark if spark is not None else spark_session(conf)
    return SparkRuntime(SparkSetup(session, checkpoint, job.sources, sink, interval_s, mechanism or MECHANISMS[0]))
