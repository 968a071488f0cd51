"""Runs: the place where a job, a runtime and the one who watches them meet."""

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from shoal.connectors.sinks import MemorySink, Sink
from shoal.errors import ConfigError
from shoal.model.binding import Binding
from shoal.model.graph import Graph, Query
from shoal.model.messages import (
    AddQuery,
    Command,
    CommandRefused,
    Drain,
    EpochCommitted,
    Event,
    Rebind,
    RemoveQuery,
    ReplaceQuery,
    WorkersLost,
)
from shoal.policies.scheduling import SCHEDULING
from shoal.policies.static import STATIC
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.session.job import Job
from shoal.session.local import NO_QUEUES, LocalSettings
from shoal.session.summary import Tally

LOG = logging.getLogger("shoal")
RUNTIMES = ("spark", "local")
Watcher = Callable[["Run", EpochCommitted], None]
"""Called after every epoch, e.g. to rebind."""


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


@dataclass
class Run:
    """A job that has been started."""

    job: Job
    runtime: Runtime
    policy: str
    workers: int
    sink: Sink
    checkpoint: str
    began_s: float
    tally: Tally = field(default_factory=Tally)
    binding: Binding | None = None
    refused: list[CommandRefused] = field(default_factory=list)
    temporary: bool = False

    def rebind(self, binding: Binding) -> None:
        """Use another binding from the next epoch on; no result changes."""
        self.runtime.apply(Rebind(binding))

    def add(self, query: Query) -> None:
        """Run one more query from the next epoch on; the others keep their state."""
        self.runtime.apply(AddQuery(query))

    def replace(self, query: Query) -> None:
        """Run another query under the name of one that runs; operators that both have keep their state."""
        self.runtime.apply(ReplaceQuery(query))

    def remove(self, name: str) -> None:
        """Stop a query with the next epoch."""
        self.runtime.apply(RemoveQuery(name))

    def drain(self) -> None:
        """Take no more events in, answer every open window, and end."""
        self.runtime.apply(Drain())

    def stop(self) -> None:
        """End after the running epoch; starting the job again with the same checkpoint goes on from there."""
        self.runtime.stop()

    def wait(self, watcher: Watcher | None = None) -> Tally:
        """Follow the run to its end; raises what ended it if that was not by plan.

        Whatever else is raised in here, by the watcher or by Ctrl-C, stops the run first.
        """
        events = iter(self.runtime.events())
        try:
            for event in events:
                self._take(event, watcher)
        except BaseException:
            self.stop()
            for _ in events:
                pass
            raise
        finally:
            if self.temporary:
                shutil.rmtree(self.checkpoint, ignore_errors=True)
        return self.tally

    def _take(self, event: Event, watcher: Watcher | None) -> None:
        if isinstance(event, EpochCommitted):
            self.tally.add(event, time.time())
            self.binding = event.snapshot.binding
            if watcher is not None:
                watcher(self, event)
        elif isinstance(event, CommandRefused):
            self.refused.append(event)
            LOG.warning("a command was refused: %s", event.reason)
        elif isinstance(event, WorkersLost):
            LOG.warning("worker %s is lost: %s", ", ".join(map(str, event.workers)), event.reason)
        elif event.error is not None:
            raise copy(event.error)  # the runtime keeps its own, which must not hold on to the frames it passes here

    @property
    def consumed(self) -> int:
        """Events taken in since the checkpoint began, earlier runs included."""
        return self.runtime.consumed

    def metrics(self) -> list[dict[str, Any]]:
        """What every operator has done so far, under the names that Flink gives to the same things; local runs only."""
        if not isinstance(self.runtime, LocalRuntime):
            raise ConfigError("metrics of operators are kept by the local runtime; Spark's own are in its interface")
        return self.runtime.metrics()

    @property
    def topology(self) -> str:
        """The machines the run has, in the runtime's words."""
        return self.runtime.topology

    @property
    def start_up_s(self) -> float:
        """From the call of `start` to the first event taken in."""
        first = self.tally.first_begun_s
        return 0.0 if first is None else max(0.0, first - self.began_s)


def start(
    job: Job,
    *,
    on: str = "spark",
    workers: int = 2,
    policy: str = "round-robin",
    checkpoint: str | None = None,
    sink: Sink | None = None,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    interval_s: float = 0.0,
    local: LocalSettings | None = None,
) -> Run:
    """Start a job and return at once; `Run.wait` follows it to its end.

    Without a `checkpoint` directory the run is kept in a temporary one and cannot be resumed.
    Without a `sink` the results stay in memory, in `Run.sink`. `spark`, `conf` and `interval_s` are for Spark, `local`
    is for the local runtime.
    """
    began = time.time()
    if on not in RUNTIMES:
        raise ConfigError(f"runtime must be {' or '.join(RUNTIMES)}; got {on!r}")
    if on == "local" and checkpoint is not None:
        raise ConfigError("the local runtime keeps nothing for a restart; leave the checkpoint out")
    if policy not in STATIC:
        raise ConfigError(f"policy must be one of {', '.join(STATIC)}; got {policy!r}")
    if workers < 1:
        raise ConfigError(f"number of workers must be at least 1; got {workers}")
    place = checkpoint or tempfile.mkdtemp(prefix="shoal-")
    if "://" not in place:
        place = str(Path(place).absolute())
    kept = sink if sink is not None else MemorySink()
    if on == "local":
        runtime = _local_runtime(job, kept, local or LocalSettings())
    else:
        runtime = _spark_runtime(job, place, kept, spark, conf, interval_s)
    run = Run(job, runtime, policy, workers, kept, place, began, temporary=checkpoint is None)
    runtime.start(job.graph, STATIC[policy](job.graph, workers))
    return run


def _local_runtime(job: Job, sink: Sink, settings: LocalSettings) -> Runtime:
    return LocalRuntime(
        LocalSetup(
            job.sources,
            sink,
            SCHEDULING[settings.scheduling],
            settings.sizes,
            chained=settings.chained,
            fused=settings.fused,
            queues=None if settings.queues == NO_QUEUES else settings.queues,
            processor_nodes=settings.processor_nodes,
            say=settings.say,
        )
    )


def _spark_runtime(
    job: Job, checkpoint: str, sink: Sink, spark: Any, conf: Mapping[str, str] | None, interval_s: float
) -> Runtime:
    """Spark is imported only when it is used: it takes a while."""
    from shoal.runtimes.spark.cluster import spark_session
    from shoal.runtimes.spark.runtime import SparkRuntime, SparkSetup

    session = spark if spark is not None else spark_session(conf)
    return SparkRuntime(SparkSetup(session, checkpoint, job.sources, sink, interval_s))
