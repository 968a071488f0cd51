"""Positions: the state of a run between two epochs, and how commands change it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from shoal.compiler.program import Program
from shoal.compiler.shedding.shed_rules import check_windows
from shoal.errors import PartitioningError
from shoal.kernels.kernel import NEVER_US
from shoal.mechanisms.catalog import mechanism_named, refuse_limit
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import AddQuery, Command, Rebind, RemoveQuery, Repartition, ReplaceQuery, ShedInput
from shoal.model.control.parked import ParkedQuery
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.control.shedding import BEGINNING_US, StreamShedding
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.shedder import switched
from shoal.runtimes.spark.rebinding.rebinding import RESTARTED, SUPERSEDED, Rebinding
from shoal.runtimes.spark.state.checkpoint import Goal, StateRef
from shoal.runtimes.spark.state.postponed import Dropped, Postponed, Rest

MECHANISMS = ("megaphone", "all-at-once", "rhino", "meces", "lazy-latency", "drop")
"""The mechanisms whose plans can be executed between epochs; the first is the default."""


@dataclass(frozen=True)
class Position:
    """All that the next epoch depends on.

    `declared`, `added` and `removed` separate the queries of the job from changes while it ran: `removed` are names
    whose declaration is no longer valid, `added` those whose query came with a command. `parked` are queries that
    failed, which are not in the graph. `coming`: an announced binding,
    which takes effect in the epoch after the next. `held`: the partitioning that the state was written under; the next
    epoch partitions the state again if `partitioning` differs. `rebinding` is the one in progress. `closed` are those
    that finish with the next epoch; their remaining moves are aborted. `shedding`: which rows are shed, by stream.
    `postponed`: the state of instances whose workers have not read it. `on_demand`: whether the announced binding
    postpones the state of what it moves; `rests`: how long that state can be left alone, as its workers have said.
    `announced_us`: when the moves of this epoch were announced; 0 if they were not. `dropped`: the state that the next
    epoch discards.
    """

    graph: Graph
    binding: Binding
    watermarks_us: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[InstanceId, str] = field(default_factory=dict)
    segment_bytes: Mapping[str, int] = field(default_factory=dict)
    segment_sizes: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    declared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    parked: tuple[ParkedQuery, ...] = ()
    streams: tuple[str, ...] = ()
    coming: Binding | None = None
    partitioning: Partitioning = DECLARED
    held: Partitioning = DECLARED
    rebinding: Rebinding | None = None
    closed: tuple[Rebinding, ...] = ()
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    postponed: Mapping[InstanceId, Postponed] = field(default_factory=dict)
    on_demand: bool = False
    rests: Mapping[InstanceId, Rest] = field(default_factory=dict)
    announced_us: int = 0
    dropped: Mapping[InstanceId, Dropped] = field(default_factory=dict)

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """The instances that hold state."""
        return self.partitioning.instances(self.graph)

    @cached_property
    def heirs(self) -> Mapping[InstanceId, tuple[InstanceId, ...]]:
        """The instances whose state is partitioned again, and those that take it over."""
        return self.held.heirs(self.partitioning, self.graph)

    def states(self) -> tuple[StateRef, ...]:
        """The segments that hold the newest state."""
        members: dict[str, list[InstanceId]] = defaultdict(list)
        for instance, segment in self.homes.items():
            members[segment].append(instance)
        now, then = self.binding.worker_of, (self.coming or self.binding).worker_of
        refs, unread = [], {*self.postponed, *self.dropped}
        for segment, instances in members.items():
            whole = len(instances) == self.segment_sizes[segment]
            after = [heir for i in instances for heir in self.heirs.get(i, (i,))]
            workers = sorted({int(now[i]) for i in after if i in now and i not in unread})
            moving = [] if self.on_demand else [i for i in after if i in then and then[i] != now.get(i)]
            coming = sorted({int(then[i]) for i in moving})
            named = None if whole else tuple(instances)
            refs.append(StateRef(segment, self.segment_bytes[segment], named, tuple(workers), tuple(coming)))
        return tuple(refs)

    def arrived(self) -> "Position":
        """The position after the announced binding has taken effect, and background reading of state has ended."""
        position = replace(self, postponed={i: each.read_ahead() for i, each in self.postponed.items()})
        if self.coming is None:
            return position
        moves = tuple(self.binding.diff(self.coming))
        position = position.with_postponed(moves)
        rebinding = self.rebinding and self.rebinding.moving(moves)
        return replace(position, binding=self.coming, coming=None, rebinding=rebinding, on_demand=False, rests={})

    def with_postponed(self, moves: Iterable[Move]) -> "Position":
        """The position in which the state of instances that move on demand is postponed, or stays so."""
        postponed = dict(self.postponed)
        mechanism = self.rebinding.mechanism if self.rebinding else MECHANISMS[0]
        for move in moves:
            known, rest, home = (
                postponed.get(move.instance),
                self.rests.get(move.instance),
                self.homes.get(move.instance),
            )
            if rest is not None and home is not None:
                postponed[move.instance] = Postponed(
                    move.instance, home, int(move.source), mechanism, rest, self.announced_us
                )
            elif known is not None:
                postponed[move.instance] = replace(known, source=int(move.source), ahead=False)
        return replace(self, postponed=postponed)

    def without_state(self, moves: Iterable[Move]) -> "Position":
        """The position in which the state of instances that move is discarded."""
        dropped, postponed = dict(self.dropped), dict(self.postponed)
        for move in moves:
            if move.instance in self.homes:
                known = postponed.pop(move.instance, None)
                watermark_us = None if known is None else known.rest.watermark_us
                dropped[move.instance] = Dropped(move.instance, "", int(move.source), watermark_us)
        return replace(self, dropped=dropped, postponed=postponed)

    def dropped_now(self) -> tuple[Dropped, ...]:
        """What is discarded, as plans have it: with its segment."""
        return tuple(replace(each, segment=self.homes[i]) for i, each in self.dropped.items() if i in self.homes)

    def postponed_now(self, now_us: int) -> tuple[Postponed, ...]:
        """What is postponed, as plans and manifests have it: with its segment, and since when."""
        return tuple(
            replace(each, segment=self.homes[instance], begun_us=each.begun_us or now_us)
            for instance, each in self.postponed.items()
            if instance in self.homes
        )

    @property
    def arrangement(self) -> Arrangement:
        """The part that commands change."""
        return Arrangement(self.graph, self.binding, self.partitioning, {each.name: each for each in self.parked})

    def arranged(self, arrangement: Arrangement) -> "Position":
        """The position with the queries of an arrangement."""
        position = self.with_graph(arrangement.graph, self.binding)
        return replace(position, parked=tuple(arrangement.parked.values()))

    def with_graph(self, graph: Graph, binding: Binding) -> "Position":
        """The position with another graph; instances keep their workers unless the number of workers changes.

        A rebinding in progress continues if that number is the current one or that of its goal; else it is aborted.
        """
        partitioning = self.partitioning.fitted(graph)
        instances = partitioning.instances(graph)
        position = replace(self, graph=graph, partitioning=partitioning)
        goal = self.binding if self.rebinding is None else self.rebinding.goal
        if binding.workers not in (self.binding.workers, goal.workers):
            unread = {i: replace(each, ahead=False, load=True) for i, each in self.postponed.items()}
            given_up = replace(position.without_rebinding(RESTARTED), postponed=unread)
            return replace(given_up, coming=None, on_demand=False, rests={}).fitted(binding, instances)
        return position.fitted(self.binding, instances)

    def repartitioned(self, command: Repartition) -> "Position":
        """The position after instances are split and merged; raises if a change is invalid."""
        after = self.arrangement.after(command, set())
        unread = set(self.postponed).intersection(self.held.heirs(after.partitioning, self.graph))
        if unread:
            raise PartitioningError(
                f"instance {min(unread)!r} cannot be split or merged yet: its worker has not read its state; "
                "wait until the rebinding has finished"
            )
        rebinding = self.rebinding and self.rebinding.with_workers(command.worker_of)
        position = replace(self, partitioning=after.partitioning, rebinding=rebinding)
        return position.fitted(after.binding, after.instances)

    def fitted(self, binding: Binding, instances: tuple[InstanceId, ...]) -> "Position":
        """The position under a binding, fitted to instances of which some are new and some are gone."""
        kept = binding.fitted(instances)
        coming = self.coming and self.coming.fitted(instances)
        rebinding = self.rebinding and self.rebinding.fitted(self.binding, kept)
        postponed = {i: each for i, each in self.postponed.items() if i in kept.worker_of}
        dropped = {i: each for i, each in self.dropped.items() if i in kept.worker_of}
        return replace(self, binding=kept, coming=coming, rebinding=rebinding, postponed=postponed, dropped=dropped)

    def without_rebinding(self, reason: str) -> "Position":
        """The position with the rebinding in progress aborted."""
        rebinding = self.rebinding
        if rebinding is None:
            return self
        return replace(self, rebinding=None, closed=(*self.closed, rebinding.aborted(self.binding, reason)))


def changed(position: Position, command: Command, streams: set[str], mechanism: str = MECHANISMS[0]) -> Position:
    """The position after a command; raises if it is invalid. A rebinding is only begun here.

    `mechanism` is used for rebindings that name none.
    """
    if isinstance(command, Rebind):
        return _rebound(position, command, mechanism)
    if isinstance(command, Repartition):
        return position.repartitioned(command)
    if isinstance(command, ShedInput):
        return replace(position, shedding=switched(position.shedding, active=command.active))
    after = position.arranged(position.arrangement.after(command, streams))
    check_windows(position.shedding, after.graph)
    if isinstance(command, AddQuery | ReplaceQuery):
        return _from_outside(after, command.query.name)
    if isinstance(command, RemoveQuery):
        return _removed(after, command.name)
    return position


def asked_shedding(position: Position, asked: Mapping[str, StreamShedding]) -> Position:
    """The position of a run that asks for some shedding; what an earlier run has asked for ends.

    The newest event times are known of all streams, so that a later run can ask for it.
    """
    found = {}
    for stream in position.streams:
        wanted = asked.get(stream, StreamShedding())
        before = position.shedding.get(stream) or StreamShedding(newest_us=_newest_us(position, stream))
        found[stream] = before.asked(wanted.rule, always=wanted.active)
    return replace(position, shedding=found)


def _newest_us(position: Position, stream: str) -> int:
    """The newest event time of a stream by its watermark, if an earlier version of Shoal has read it."""
    mark_us, source = position.watermarks_us.get(stream, NEVER_US), position.graph.streams.get(stream)
    return BEGINNING_US if mark_us == NEVER_US or source is None else mark_us + int(source.parameters["lateness_us"])


def _rebound(position: Position, command: Rebind, usual: str) -> Position:
    """Begin a rebinding; instances that it does not name keep the goal of the rebinding before."""
    mechanism = mechanism_named(command.mechanism or usual, MECHANISMS, "Spark")
    refuse_limit(command.limit, "Spark")
    known = position.rebinding.goal if position.rebinding else position.binding
    goal = replace(position.arrangement, binding=known).after(command, set()).binding
    begun = Rebinding(command.id, mechanism.name, goal)
    return replace(position.without_rebinding(SUPERSEDED), rebinding=begun)


def numbers(binding: Binding, compiled: Program) -> tuple[int, ...]:
    """A binding in the program's order of instances; instances without slots have worker 0."""
    return tuple(int(binding.worker_of.get(instance, 0)) for instance in compiled.instances)


def goal_of(rebinding: Rebinding | None, compiled: Program) -> Goal | None:
    """A rebinding in the form of plans and manifests."""
    if rebinding is None:
        return None
    goal = rebinding.goal
    return Goal(rebinding.id, rebinding.mechanism, goal.workers, numbers(goal, compiled))


def _from_outside(position: Position, name: str) -> Position:
    """Note that a query now differs from the job's declaration of that name."""
    added = tuple(dict.fromkeys((*position.added, name)))
    removed = tuple(other for other in position.removed if other != name)
    if name in position.declared:
        removed = (*removed, name)
    return replace(position, added=added, removed=removed)


def _removed(position: Position, name: str) -> Position:
    added = tuple(other for other in position.added if other != name)
    return replace(position, added=added, removed=tuple(dict.fromkeys((*position.removed, name))))
