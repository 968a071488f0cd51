"""Makes simulated runtimes for the registry: settings by name, and queues if a policy needs them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator, TimedEvents
from shoal.connectors.sources.rate import EventTime
from shoal.errors import ConfigError
from shoal.model.control.parked import parks
from shoal.policies.binding.energy_aware import NAME as ENERGY_AWARE
from shoal.runtimes.protocol import Launch, Runtime, RuntimeKind
from shoal.runtimes.simulated.commanded import CAPABILITIES, MECHANISM
from shoal.runtimes.simulated.machine.known_hosts import known_hosts
from shoal.runtimes.simulated.micro_batch.micro_batches import MicroBatchRuntime, check_settings
from shoal.runtimes.simulated.network.row_runtime import RowRuntime
from shoal.runtimes.simulated.network.row_runtime import check_settings as check_rows
from shoal.runtimes.simulated.runtime import SimulatedRuntime
from shoal.runtimes.simulated.settings import CHOICES, SimulatedSettings
from shoal.runtimes.simulated.traced_results import ResultTracedSimulation


def made(launch: Launch) -> Runtime:
    """A runtime in simulated time: one of micro-batches, if the machine consists of executors of Spark."""
    launch.refuse_checkpoint(CAPABILITIES.name)
    launch.refuse(CAPABILITIES.name, "local", "spark")
    settings = SimulatedSettings.of({"seed": str(launch.seed), **launch.conf})
    if launch.policy == ENERGY_AWARE and not known_hosts(settings.machine).has_energy:
        machine = settings.topology or "of cores alone"
        raise ConfigError(
            f"policy {ENERGY_AWARE} needs the energy of hosts; topology {machine} has none, use a file with `energy`"
        )
    if settings.machine.spark:
        return _of_spark(launch, settings)
    launch.refuse(CAPABILITIES.name, "interval_s")
    if settings.detail == "rows" or launch.mechanism not in (None, MECHANISM):
        return _row_by_row(launch, settings)
    if settings.standby:
        raise ConfigError(f"state is replicated with detail=rows only; got standby={settings.standby}")
    if settings.placed:
        raise ConfigError(f"rows have places with detail=rows only; got {settings.placed}")
    settings, sources = settings.bound(launch.policy), launch.sources
    if settings.mode == "statistical":
        if not isinstance(launch.sink, MemorySink):
            raise ConfigError("mode=statistical counts results and writes none; leave the sink out, or use mode=real")
        if launch.shedding:
            raise ConfigError("mode=statistical has no rows to shed; use mode=real")
        sources = {stream: _played(source) for stream, source in sources.items()}
    kind = ResultTracedSimulation if settings.trace_results else SimulatedRuntime
    return kind(
        sources,
        launch.sink,
        settings,
        parks=parks(launch.on_query_error),
        most_workers=launch.most_workers,
        shedding=launch.shedding,
    )


def _played(source: Any) -> Any:
    """The same source; generated events without a rate come at their own times."""
    if isinstance(source, Generator) and source.rate is None and isinstance(source.made_by, TimedEvents):
        return replace(source, rate=EventTime())
    return source


def _of_spark(launch: Launch, settings: SimulatedSettings) -> MicroBatchRuntime:
    check_settings(settings, launch.policy)
    if launch.mechanism not in (None, MECHANISM):
        raise ConfigError(f"a simulated Spark moves instances by {MECHANISM} only; got mechanism {launch.mechanism}")
    return MicroBatchRuntime(
        launch.sources,
        launch.sink,
        settings,
        parks=parks(launch.on_query_error),
        most_workers=launch.most_workers,
        interval_s=launch.interval_s,
        shedding=launch.shedding,
    )


def _row_by_row(launch: Launch, settings: SimulatedSettings) -> RowRuntime:
    """A run in which state moves in pieces; parking of failing queries has no meaning there yet."""
    check_rows(settings, launch.policy)
    if parks(launch.on_query_error):
        raise ConfigError("with detail=rows a failing query ends the run; leave on_query_error out")
    return RowRuntime(
        launch.sources,
        launch.sink,
        settings,
        mechanism=launch.mechanism or MECHANISM,
        most_workers=launch.most_workers,
        shedding=launch.shedding,
    )


def _workers(conf: Mapping[str, str]) -> int:
    """All cores of the topology."""
    return SimulatedSettings.of(conf).machine.workers


SIMULATED = RuntimeKind(
    replace(CAPABILITIES, options={"scheduling": CHOICES["scheduling"][1:], "topology": ()}),
    made,
    clock=lambda: 0.0,
    workers=_workers,
    counts_only=lambda conf: SimulatedSettings.of(conf).mode == "statistical",
    settings=tuple(each.name for each in fields(SimulatedSettings) if each.name != "seed"),
)
