"""Makes local runtimes for the registry: settings by name or as an object, and queues if a policy needs them."""

from dataclasses import replace

from shoal.errors import ConfigError
from shoal.model.control.parked import parks
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.runtimes.local.profile import profiled
from shoal.runtimes.local.runtime import CAPABILITIES, LocalRuntime
from shoal.runtimes.local.settings import MODES, NO_QUEUES, LocalSettings
from shoal.runtimes.local.traced_results import ResultTracedRuntime
from shoal.runtimes.protocol import Launch, Runtime, RuntimeKind


def made(launch: Launch) -> Runtime:
    """A runtime on threads of this process; it binds instances if a policy or the settings require it."""
    launch.refuse_checkpoint(CAPABILITIES.name)
    launch.refuse(CAPABILITIES.name, "spark", "interval_s")
    settings = _settings(launch).bound(launch.policy, launch.most_workers)
    if launch.must_bind and settings.queues == NO_QUEUES:
        raise ConfigError("the local runtime binds instances to workers only with a policy; give it one")
    if launch.mechanism is not None and settings.queues == NO_QUEUES:
        raise ConfigError("the local runtime moves instances only with a policy; give it one, or leave mechanism out")
    ready = replace(settings, say=settings.say or launch.say)
    setup = ready.setup(launch.sources, launch.sink, launch.mechanism)
    kind = ResultTracedRuntime if settings.trace_results else LocalRuntime
    return kind(replace(setup, parks=parks(launch.on_query_error), shedding=launch.shedding))


def _settings(launch: Launch) -> LocalSettings:
    if launch.local is None:
        return LocalSettings.of(launch.conf)
    if launch.conf:
        raise ConfigError("settings of the local runtime come by name or as LocalSettings; got both")
    if not isinstance(launch.local, LocalSettings):
        raise ConfigError(f"settings of the local runtime are LocalSettings; got {type(launch.local).__name__}")
    return launch.local


LOCAL = RuntimeKind(
    replace(CAPABILITIES, options={"scheduling": tuple(SCHEDULING), "mode": tuple(MODES)}), made, profile=profiled
)
