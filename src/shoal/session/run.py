"""Runs: the place where a job, a runtime and the one who watches them meet."""

import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.connectors.sinks import MemorySink, Sink
from shoal.control.controller import Controller
from shoal.control.journal import Begun, Ended
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.model.binding import Binding
from shoal.model.graph import Query
from shoal.model.messages import (
    AddQuery,
    CommandRefused,
    Drain,
    EpochCommitted,
    Event,
    Rebind,
    RemoveQuery,
    ReplaceQuery,
    RunEnded,
    WorkersLost,
)
from shoal.policies.catalog import FIRST
from shoal.policies.static import STATIC
from shoal.runtimes.local.runtime import LocalRuntime
from shoal.session.job import Job
from shoal.session.journal import JournalFile
from shoal.session.local import NO_QUEUES, LocalSettings
from shoal.session.runtime import Runtime, bound_settings, local_runtime, policy_on, spark_runtime
from shoal.session.steering import Steering
from shoal.session.summary import Tally

LOG = logging.getLogger("shoal")
RUNTIMES = ("spark", "local")
Watcher = Callable[["Run", EpochCommitted], None]
"""Called after every epoch, e.g. to rebind."""


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
    lost: list[WorkersLost] = field(default_factory=list)
    temporary: bool = False
    steering: Steering | None = None

    def rebind(self, binding: Binding) -> None:
        """Use another binding from the next epoch on; no result changes."""
        self.runtime.apply(Rebind(binding))

    def scale(self, workers: int) -> None:
        """Have more or fewer workers from one of the next epochs on; no result changes."""
        if workers < 1:
            raise ConfigError(f"number of workers must be at least 1; got {workers}")
        if self.steering is None:
            raise ConfigError("a run that binds no instances cannot change its workers; give it a policy")
        self.steering.scale(workers)

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
        if self.steering is not None:
            self.tally.policy_s += self.steering.take(event)
        if isinstance(event, EpochCommitted):
            if watcher is not None:
                watcher(self, event)
        elif isinstance(event, CommandRefused):
            if self.steering is None or not self.steering.gave(event.command):
                self.refused.append(event)
                LOG.warning("a command was refused: %s", event.reason)
        elif isinstance(event, WorkersLost):
            self.lost.append(event)
            LOG.warning("worker %s is lost: %s", ", ".join(map(str, event.workers)), event.reason)
        else:
            self._note_end(event)
            if event.error is not None:
                raise copy(event.error)  # the runtime keeps its own, which must not hold on to the frames it passes

    def _note_end(self, event: RunEnded) -> None:
        if self.steering is not None:
            tally = self.tally
            error = "" if event.error is None else str(event.error).partition("\n")[0]
            ended = Ended(
                round(time.time(), 3),
                tally.epochs,
                tally.events,
                tally.moves,
                tally.state_bytes_moved,
                tally.cost_share(),
                error,
            )
            self.steering.note([ended])

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


def start(  # noqa: PLR0913  (all but the job by name)
    job: Job,
    *,
    on: str = "spark",
    workers: int = 2,
    policy: str | None = None,
    checkpoint: str | None = None,
    sink: Sink | None = None,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    interval_s: float = 0.0,
    local: LocalSettings | None = None,
    control: ControlSettings | None = None,
    journal: str | None = None,
    mechanism: str | None = None,
) -> Run:
    """Start a job and return at once; `Run.wait` follows it to its end, and steers it by its policy meanwhile.

    Without a `checkpoint` directory the run is kept in a temporary one and cannot be resumed.
    Without a `sink` the results stay in memory, in `Run.sink`. `spark`, `conf` and `interval_s` are for Spark, `local`
    is for the local runtime. Without a `policy` Spark binds round-robin, and the local runtime does not bind at all.
    The journal is kept in the directory `journal`, or with the checkpoint. `mechanism` is how moved state gets to its
    new worker on Spark: `lazy` or `pre-copy`.
    """
    began = time.time()
    if on not in RUNTIMES:
        raise ConfigError(f"runtime must be {' or '.join(RUNTIMES)}; got {on!r}")
    if on == "local" and checkpoint is not None:
        raise ConfigError("the local runtime keeps nothing for a restart; leave the checkpoint out")
    if on == "local" and mechanism is not None:
        raise ConfigError("a mechanism is for Spark; on the local runtime set rebinding")
    if workers < 1:
        raise ConfigError(f"number of workers must be at least 1; got {workers}")
    place = checkpoint or tempfile.mkdtemp(prefix="shoal-")
    if "://" not in place:
        place = str(Path(place).absolute())
    kept = sink if sink is not None else MemorySink()
    chosen = policy_on(on, policy)
    steered = control or ControlSettings()
    if on == "local":
        settings = bound_settings(local or LocalSettings(), policy, steered)
        runtime = local_runtime(job, kept, settings)
        bound = settings.queues != NO_QUEUES
    else:
        runtime = spark_runtime(job, place, kept, spark, conf, interval_s, mechanism)
        bound = True
    run = Run(job, runtime, chosen, workers, kept, place, began, temporary=checkpoint is None)
    if bound:
        where = journal or (place if checkpoint is not None and "://" not in place else None)
        file = JournalFile(where) if where is not None else None
        run.steering = Steering(Controller(job.graph, chosen, steered), runtime.apply, file)
        run.steering.note([_begun(job, on, chosen, workers, began, steered)])
    first = chosen if chosen in STATIC else FIRST.get(chosen, "round-robin")
    runtime.start(job.graph, STATIC[first](job.graph, workers))
    return run


def _begun(job: Job, on: str, policy: str, workers: int, began_s: float, control: ControlSettings) -> Begun:
    changed = {name: value for name, value in vars(control).items() if value != getattr(ControlSettings, name)}
    instances = len(job.graph.stateful_instances)
    return Begun(round(began_s, 3), job.name, on, policy, workers, instances, changed)
