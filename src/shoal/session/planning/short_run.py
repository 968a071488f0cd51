"""Short runs: a job under one binding, simulated for a short time in statistical mode."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator, TimedEvents
from shoal.control.observation import merged_snapshots
from shoal.errors import ConfigError, RunError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, RunEnded, WorkersLost
from shoal.model.control.snapshot import Snapshot
from shoal.runtimes.protocol import Launch
from shoal.runtimes.registry import runtime_kind
from shoal.session.job import Job

RUNTIME = "simulated"
WARM_UP = 0.25
"""Share of a run that does not count: queues and windows are still empty."""


@dataclass(frozen=True)
class ShortRun:
    """What came of a short run: its snapshots merged, how the machine was used, and workers that were lost."""

    seconds: float
    snapshot: Snapshot
    machine: Mapping[str, Any]
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShortRuns:
    """A job and the settings of the simulated runtime for all of its short runs."""

    job: Job
    conf: Mapping[str, str]
    seconds: float
    policy: str
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject a job whose events come as fast as they can: how busy workers are would say nothing."""
        for stream, source in self.job.sources.items():
            timed = isinstance(source, Generator) and (source.rate or isinstance(source.made_by, TimedEvents))
            if not timed:
                raise ConfigError(
                    f"a plan needs events at a rate; stream {stream!r} is read as fast as possible, give it a rate"
                )

    @property
    def workers(self) -> int:
        """All cores of the topology."""
        return runtime_kind(RUNTIME).workers(self.conf)

    def under(self, binding: Binding) -> ShortRun:
        """Simulate the job under a binding."""
        settings = {**self.conf, "mode": "statistical"}
        launch = Launch(self.job.sources, MemorySink(), policy=self.policy, conf=settings, seed=self.seed)
        try:
            runtime = runtime_kind(RUNTIME).make(launch)
        except ConfigError as error:
            raise ConfigError(f"a plan needs a simulated run in statistical mode: {error}") from error
        runtime.start(self.job.graph, binding)
        following = _Following(binding.workers)
        for event in runtime.events():
            if isinstance(event, EpochCommitted) and not following.machine:
                following.snapshots.append(event.snapshot)
                following.at_s = event.at_s
                if event.at_s >= self.seconds:
                    following.machine = runtime.machine_report() or {}
                    runtime.stop()
            elif isinstance(event, WorkersLost):
                following.lost.append(event.reason)
            elif isinstance(event, RunEnded) and event.error is not None:
                raise event.error
        return following.run(runtime.machine_report() or {})


@dataclass
class _Following:
    """What has been seen of a run so far; it began with so many workers."""

    workers: int
    snapshots: list[Snapshot] = field(default_factory=list)
    machine: Mapping[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    at_s: float = 0.0

    def run(self, at_end: Mapping[str, Any]) -> ShortRun:
        """The outcome, by the time before any worker was lost."""
        same = [each for each in self.snapshots if each.period_s > 0 and each.binding.workers == self.workers]
        if not same:
            raise RunError("the simulated run had no workers, or ended, before anything was observed")
        counted = same[int(WARM_UP * len(same)) :]
        return ShortRun(self.at_s, merged_snapshots(counted), self.machine or at_end, tuple(self.lost))
