"""Runs: a job on a runtime, followed and changed by its user."""

import logging
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from shoal.compiler.query_failure import failure_text
from shoal.compiler.shedding.shed_rules import begun
from shoal.connectors.sinks import MemorySink, OpenedSink, Sink
from shoal.control.journal import Begun, Migrated
from shoal.control.settings import ControlSettings
from shoal.control.twin.adviser import AUTO
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import (
    AddQuery,
    Command,
    CommandRefused,
    Drain,
    EpochCommitted,
    Event,
    MoveLimit,
    MovesFinished,
    QueriesParked,
    Rebind,
    RemoveQuery,
    Repartition,
    ReplaceQuery,
    RunEnded,
    ShedInput,
    WorkersLost,
)
from shoal.model.control.parked import parks
from shoal.model.control.partitioning import DECLARED, Merge, Partitioning, Regroup, Split
from shoal.model.control.shedding import Shedding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph, InstanceId, OperatorId, Query
from shoal.policies.binding.static import STATIC
from shoal.policies.catalog import FIRST, graph_for
from shoal.runtimes.protocol import Capabilities, Launch, Runtime
from shoal.runtimes.registry import runtime_kind, runtimes_that
from shoal.session.job import Job
from shoal.session.partitions import operator_named
from shoal.session.preflight import check, settings_of
from shoal.session.results import opened, opening_of, written_results
from shoal.session.shedding.companions import with_companions
from shoal.session.shedding.load_shedding import LoadShedding
from shoal.session.shedding.shed_report import ShedReport
from shoal.session.steering import Steering
from shoal.session.summary import Tally

LOG = logging.getLogger("shoal")
KEPT_FINISHED = 100
"""Rebindings whose reports a run keeps, and attempts whose refusal it expects."""
Watcher = Callable[["Run", EpochCommitted], object]
"""Called after every epoch, e.g. to rebind."""


@dataclass
class Run:
    """A job that has been started."""

    job: Job
    runtime: Runtime
    policy: str
    workers: int
    sink: Sink
    checkpoint: str | None
    began_s: float
    tally: Tally = field(default_factory=Tally)
    binding: Binding | None = None
    refused: list[CommandRefused] = field(default_factory=list)
    lost: list[WorkersLost] = field(default_factory=list)
    finished: deque[MovesFinished] = field(default_factory=lambda: deque(maxlen=KEPT_FINISHED))
    """Reports of the newest rebindings."""
    parked: list[QueriesParked] = field(default_factory=list)
    """Failures that parked queries, with the queries, the reason and a row; see `on_query_error`."""
    temporary: bool = False
    steering: Steering | None = None
    asked_mechanism: str | None = None
    partitioning: Partitioning = DECLARED
    load_shedding: LoadShedding | None = None
    """When input was shed, and why; None if none may be."""
    _graph: Graph | None = None
    _attempts: deque[Command] = field(default_factory=lambda: deque(maxlen=KEPT_FINISHED))
    _requests: Iterator[int] = field(default_factory=lambda: count(1))

    def __repr__(self) -> str:
        """Job, runtime, and how far it has come."""
        on, tally = self.runtime.capabilities.name, self.tally
        return f"Run({self.job.name!r} on {on}, {self.workers} workers, {tally.epochs} epochs, {tally.events} events)"

    def rebind(
        self,
        binding: Binding,
        mechanism: str | None = None,
        within_s: float | None = None,
        most_bytes: int | None = None,
    ) -> str:
        """Use another binding from the next epoch on, by another mechanism if one is given; no result changes.

        With a limit, state that comes after `within_s`, or is more than `most_bytes`, is lost, and with it results.
        Returns the id of its report in `finished`.
        """
        limit = MoveLimit.of(within_s, most_bytes, self.runtime.now_s())
        self._apply(rebind := Rebind(binding, mechanism, f"request {next(self._requests)}", limit))
        return rebind.id

    def _apply(self, command: Command) -> None:
        (self.runtime if self.steering is None else self.steering).apply(command)

    @property
    def migrations(self) -> tuple[Migrated, ...]:
        """What the newest rebindings have cost, those whose moves have ended."""
        return () if self.steering is None else tuple(self.steering.migrations.measured)

    def attempt(self, command: Command) -> None:
        """Apply a command that may be refused: its refusal is kept in `refused`, and not logged."""
        self._attempts.append(command)
        self._apply(command)

    def split(self, instance: InstanceId | str, parts: int = 2) -> None:
        """Divide the keys of an instance, and their state, among several; no result changes.

        The new instances go to the workers with the fewest. An impossible split is refused, see `refused`.
        """
        self.runtime.apply(Repartition((Split(InstanceId(instance), parts),)))

    def merge(self, *instances: InstanceId | str) -> None:
        """Give the keys of several instances of one operator, and their state, to the first of them."""
        self.runtime.apply(Repartition((Merge(tuple(InstanceId(each) for each in instances)),)))

    def repartition(self, operator: OperatorId | str, *, groups: int) -> None:
        """Divide the keys of an operator evenly among `groups` instances; no result changes.

        The name of a query stands for its last stateful operator.
        """
        self.runtime.apply(Repartition((Regroup(operator_named(self.graph, operator), groups),)))

    @property
    def graph(self) -> Graph:
        """The queries of the last epoch."""
        return self._graph or self.job.graph

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """The stateful instances of the last epoch."""
        return self.partitioning.instances(self.graph)

    def scale(self, workers: int) -> None:
        """Change the number of workers with one of the next epochs; no result changes."""
        if workers < 1:
            raise ConfigError(f"number of workers must be at least 1; got {workers}")
        if self.steering is None:
            raise ConfigError("a run that binds no instances cannot change its workers; give it a policy")
        self.steering.scale(workers)

    def add(self, query: Query) -> None:
        """Run one more query from the next epoch on; the others keep their state."""
        self._check_changes("add a query")
        self.runtime.apply(AddQuery(query))

    def replace(self, query: Query) -> None:
        """Run another query under the name of one that runs; operators that both have keep their state."""
        self._check_changes("replace a query")
        self.runtime.apply(ReplaceQuery(query))

    def remove(self, name: str) -> None:
        """Stop a query with the next epoch."""
        self._check_changes("remove a query")
        self.runtime.apply(RemoveQuery(name))

    def _check_changes(self, what: str) -> None:
        """Reject a change of queries on a runtime that cannot make it."""
        if not self.capabilities.changes_queries:
            able = runtimes_that(lambda can: can.changes_queries)
            raise ConfigError(f"the {self.capabilities.name} runtime cannot {what} while it runs; use runtime {able}")

    def drain(self) -> None:
        """Stop reading input, emit every open window, and end."""
        self.runtime.apply(Drain())

    def stop(self) -> None:
        """End after the running epoch; a job started with the same checkpoint resumes from there."""
        self.runtime.stop()

    def wait(self, watcher: Watcher | None = None) -> Tally:
        """Follow the run to its end; raises the error that ended it, if there was one.

        Any other exception in here, from the watcher or Ctrl-C, stops the run first.
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
            self._forget()
        return self.tally

    def _forget(self) -> None:
        """Remove a temporary checkpoint."""
        if self.temporary and self.checkpoint is not None:
            shutil.rmtree(self.checkpoint, ignore_errors=True)

    def _take(self, event: Event, watcher: Watcher | None) -> None:
        if isinstance(event, EpochCommitted):
            self.tally.add(event)
            snapshot = event.snapshot
            self.binding, self.partitioning, self._graph = snapshot.binding, snapshot.partitioning, snapshot.graph
        if self.steering is not None:
            self.tally.policy_s += self.steering.take(event)
        if self.load_shedding is not None and isinstance(event, EpochCommitted | RunEnded):
            self.load_shedding.take(event)
        if isinstance(event, EpochCommitted):
            if watcher is not None:
                watcher(self, event)
        elif isinstance(event, CommandRefused):
            self._refuse(event)
        elif isinstance(event, MovesFinished):
            self.finished.append(event)
        elif isinstance(event, WorkersLost):
            self.lost.append(event)
            LOG.warning("lost worker %s: %s", ", ".join(map(str, event.workers)), event.reason)
        elif isinstance(event, QueriesParked):
            self.parked.append(event)
            LOG.warning("%s; parked, the others go on", failure_text(event.queries, event.reason, event.row))
        elif isinstance(event, RunEnded):
            self.tally.measure_memory()
            self._note_end(event)
            if event.error is not None:
                # a copy: the runtime keeps its own error, which must not keep these frames alive
                raise copy(event.error) from event.error.__cause__

    def _refuse(self, event: CommandRefused) -> None:
        """Keep and log the refusal of a command; one of the controller's commands is only for the journal."""
        if isinstance(event.command, ShedInput) or (self.steering and self.steering.gave(event.command)):
            return
        self.refused.append(event)
        if not any(event.command is attempt for attempt in self._attempts):
            LOG.warning("a command was refused: %s", event.reason)

    def _note_end(self, event: RunEnded) -> None:
        if self.steering is not None:
            self.steering.note([self.tally.ended(event)])

    def shed_report(self) -> ShedReport:
        """What was shed so far, and what that does to the results of every query; an error if nothing may be shed."""
        return ShedReport.of(self.tally, self.graph, self.load_shedding, written_results(self.sink, self.graph))

    @property
    def consumed(self) -> int:
        """Events read since the checkpoint began, by earlier runs as well."""
        return self.runtime.consumed

    def metrics(self) -> list[dict[str, Any]]:
        """Metrics of every operator, under Flink's names; an error if the runtime has none."""
        if not self.capabilities.operator_metrics:
            keepers = runtimes_that(lambda can: can.operator_metrics)
            raise ConfigError(f"metrics of operators are kept by runtime {keepers}; got {self.capabilities.name}")
        return self.runtime.metrics()

    @property
    def capabilities(self) -> Capabilities:
        """What the runtime can do."""
        return self.runtime.capabilities

    @property
    def mechanism(self) -> str:
        """The mechanism that moves state; `none` if the runtime has none."""
        return self.asked_mechanism or next(iter(self.capabilities.mechanisms), "none")

    @property
    def topology(self) -> Topology:
        """The workers of the run, and their nodes."""
        return self.runtime.topology

    @property
    def start_up_s(self) -> float:
        """Time from the call of `start` to the first event read."""
        first = self.tally.first_begun_s
        return 0.0 if first is None else max(0.0, first - self.began_s)


def start(  # noqa: PLR0913  (all but the job by name)
    job: Job,
    *,
    on: str = "spark",
    workers: int | None = None,
    policy: str | None = None,
    checkpoint: str | None = None,
    sink: Sink | None = None,
    spark: Any = None,
    conf: Mapping[str, str] | None = None,
    interval_s: float = 0.0,
    local: object | None = None,
    control: ControlSettings | None = None,
    journal: str | None = None,
    mechanism: str | None = None,
    must_bind: bool = False,
    on_query_error: str = "fail",
    say: Callable[[str], None] | None = None,
    allow_pickle: bool = False,
    topology: str | None = None,
    seed: int = 0,
    shed: Shedding | None = None,
) -> Run:
    """Start a job and return immediately; `Run.wait` follows it to its end, and steers it by its policy.

    `on` names the runtime: `spark`, `local`, `reference` or `simulated`. Each rejects the parameters of others: `spark`
    (a session) and `interval_s` are for Spark, `local` (a `LocalSettings`) is for the local runtime, `topology` is the
    machine of the simulated runtime, and `conf` has settings of any by name. Without `workers` there are two, or all
    cores of the topology. `seed` is for what a runtime draws at random. Without a `checkpoint` directory a run cannot
    be resumed; Spark then uses a temporary one. Without a `sink` the results stay in memory, in `Run.sink`. Without a
    `policy` instances are bound round-robin; the local runtime then binds none, which is an error with `must_bind`. The
    journal is in the directory `journal`, or with the checkpoint. `mechanism` moves state to its new worker: see `shoal
    mechanisms`; `megaphone` by default, `auto` lets the twin choose. If a query fails, `on_query_error` decides: `fail`
    ends the run with the error; `park` stops that query, and all others that need what failed, until they are replaced,
    see `Run.parked`. `say` is called with the reason whenever the start takes a while. `allow_pickle` accepts functions
    in the checkpoint that are not signed with your key, see docs/security.md. `shed`: which input may be shed if the
    run is overloaded, or always; see `Run.load_shedding` and docs/how-to/shed-load.md.
    """
    kind = runtime_kind(on)
    began_s = kind.clock()
    settings = settings_of(kind, conf or {}, topology)
    workers = kind.workers(settings) if workers is None else workers
    check(kind.capabilities, workers, policy, mechanism)
    parks(on_query_error)
    if shed is not None and shed.intervals:
        job = replace(job, graph=with_companions(shed, job.graph))
    job = replace(job, graph=graph_for(policy, job.graph, workers))
    shedding = begun(shed, job.graph)
    steered = control or ControlSettings()
    temporary = checkpoint is None and kind.capabilities.keeps_checkpoint
    directory = tempfile.mkdtemp(prefix="shoal-") if temporary else checkpoint
    if directory is not None and "://" not in directory:
        directory = str(Path(directory).absolute())
    for source in job.sources.values():
        if callable(check_source := getattr(source, "check", None)):
            check_source()
    opening = opening_of(job.graph, kind, None if temporary else directory)
    launch = Launch(
        sources=job.sources,
        sink=opened(MemorySink() if sink is None else sink, opening),
        checkpoint=directory,
        policy=policy,
        most_workers=0 if steered.scaling is None else steered.scaling.most,
        must_bind=must_bind or journal is not None,
        mechanism=None if mechanism == AUTO else mechanism,
        conf=settings,
        local=local,
        spark=spark,
        interval_s=interval_s,
        on_query_error=on_query_error,
        say=say,
        allow_pickle=allow_pickle,
        seed=seed,
        shedding=shedding,
    )
    try:
        runtime = kind.make(launch)
        chosen = policy or runtime.capabilities.default_policy
        run = Run(job, runtime, chosen, workers, launch.sink, directory, began_s, temporary=temporary)
        run.asked_mechanism = mechanism
        kept = directory if checkpoint is not None and "://" not in checkpoint else None
        _steer(run, steered, journal or kept)
        if shed is not None:
            note = None if run.steering is None else run.steering.note
            run.load_shedding = LoadShedding(shed, job.graph, runtime.apply, note)
        if isinstance(launch.sink, OpenedSink):
            launch.sink.begin(opening)
        first = chosen if chosen in STATIC else FIRST.get(chosen, "round-robin")
        runtime.start(job.graph, STATIC[first](job.graph, workers))
    except BaseException:
        if temporary and directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    return run


def _steer(run: Run, control: ControlSettings, journal: str | None) -> None:
    """Attach controller and journal to a run that binds instances."""
    can, kept = run.capabilities, None if run.temporary else run.checkpoint
    if can.binds != "always":
        return
    run.steering = Steering.of(run.job.graph, run.policy, control, run.runtime, journal, run.mechanism, kept)
    numbers = run.workers, len(run.job.graph.stateful_instances), control.changed, can.simulates_time
    begun = Begun(round(run.began_s, 3), run.job.name, can.name, run.policy, *numbers)
    run.steering.note([begun])
