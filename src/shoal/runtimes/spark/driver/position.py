"""Positions: where a run stands between two epochs, and how commands change that."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from shoal.compiler.program import Program
from shoal.mechanisms.catalog import mechanism_named
from shoal.model.control.binding import Binding
from shoal.model.control.messages import AddQuery, Command, Rebind, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.spark.rebinding.rebinding import RESTARTED, SUPERSEDED, Rebinding
from shoal.runtimes.spark.state.checkpoint import Goal, StateRef

MECHANISMS = ("megaphone", "all-at-once", "rhino")
"""The mechanisms whose plans can be executed between epochs; the first is the default."""


@dataclass(frozen=True)
class Position:
    """All that the next epoch depends on.

    `declared`, `added` and `removed` tell apart what the job says and what was changed while it ran: `removed` are
    names whose declaration does not count any more, `added` those whose query came from outside. `coming`: a binding
    that has been announced and is that of the epoch after the next. `held`: the partitioning that the state was
    written under, which the next epoch divides again if `partitioning` is another. `rebinding` is the one that is under
    way, `closed` are those that the next epoch is the last of: what they had not moved has been given up.
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
    streams: tuple[str, ...] = ()
    coming: Binding | None = None
    partitioning: Partitioning = DECLARED
    held: Partitioning = DECLARED
    rebinding: Rebinding | None = None
    closed: tuple[Rebinding, ...] = ()

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """The instances that hold state."""
        return self.partitioning.instances(self.graph)

    @cached_property
    def heirs(self) -> Mapping[InstanceId, tuple[InstanceId, ...]]:
        """The instances whose state is divided again, and those that have it then."""
        return self.held.heirs(self.partitioning, self.graph)

    def states(self) -> tuple[StateRef, ...]:
        """The segments that hold the newest state."""
        members: dict[str, list[InstanceId]] = defaultdict(list)
        for instance, segment in self.homes.items():
            members[segment].append(instance)
        now, then = self.binding.worker_of, (self.coming or self.binding).worker_of
        refs = []
        for segment, instances in members.items():
            whole = len(instances) == self.segment_sizes[segment]
            after = [heir for i in instances for heir in self.heirs.get(i, (i,))]
            workers = sorted({int(now[i]) for i in after if i in now})
            coming = sorted({int(then[i]) for i in after if i in then and then[i] != now.get(i)})
            named = None if whole else tuple(instances)
            refs.append(StateRef(segment, self.segment_bytes[segment], named, tuple(workers), tuple(coming)))
        return tuple(refs)

    def arrived(self) -> "Position":
        """The position once the announced binding is the binding."""
        if self.coming is None:
            return self
        rebinding = self.rebinding and self.rebinding.moving(self.binding.diff(self.coming))
        return replace(self, binding=self.coming, coming=None, rebinding=rebinding)

    @property
    def arrangement(self) -> Arrangement:
        """The part that commands change."""
        return Arrangement(self.graph, self.binding, self.partitioning)

    def with_graph(self, graph: Graph, binding: Binding) -> "Position":
        """Another graph: instances stay where they are unless the number of workers is another.

        A rebinding that is under way goes on; also where that number is the one it leads to.
        """
        partitioning = self.partitioning.fitted(graph)
        instances = partitioning.instances(graph)
        position = replace(self, graph=graph, partitioning=partitioning)
        goal = self.binding if self.rebinding is None else self.rebinding.goal
        if binding.workers not in (self.binding.workers, goal.workers):
            given_up = position.without_rebinding(RESTARTED)
            return replace(given_up, binding=binding.fitted(instances), coming=None)
        return position.fitted(self.binding, instances)

    def repartitioned(self, command: Repartition) -> "Position":
        """The position after instances are split and merged; raises where a change makes no sense."""
        after = self.arrangement.after(command, set())
        rebinding = self.rebinding and self.rebinding.with_workers(command.worker_of)
        position = replace(self, partitioning=after.partitioning, rebinding=rebinding)
        return position.fitted(after.binding, after.instances)

    def fitted(self, binding: Binding, instances: tuple[InstanceId, ...]) -> "Position":
        """The position under a binding for instances of which some are new, and some are gone."""
        kept = binding.fitted(instances)
        coming = self.coming and self.coming.fitted(instances)
        rebinding = self.rebinding and self.rebinding.fitted(self.binding, kept)
        return replace(self, binding=kept, coming=coming, rebinding=rebinding)

    def without_rebinding(self, reason: str) -> "Position":
        """The position if what is under way is given up."""
        rebinding = self.rebinding
        if rebinding is None:
            return self
        return replace(self, rebinding=None, closed=(*self.closed, rebinding.aborted(self.binding, reason)))


def changed(position: Position, command: Command, streams: set[str], mechanism: str = MECHANISMS[0]) -> Position:
    """The position after a command, of which a rebinding is only begun; raises where it makes no sense.

    `mechanism` is that of rebindings that name none.
    """
    if isinstance(command, Rebind):
        return _rebound(position, command, mechanism)
    if isinstance(command, Repartition):
        return position.repartitioned(command)
    after = position.with_graph(position.arrangement.after(command, streams).graph, position.binding)
    if isinstance(command, AddQuery | ReplaceQuery):
        return _from_outside(after, command.query.name)
    if isinstance(command, RemoveQuery):
        return _removed(after, command.name)
    return position


def _rebound(position: Position, command: Rebind, usual: str) -> Position:
    """Begin a rebinding; instances that it does not name go where the one before it would have brought them."""
    mechanism = mechanism_named(command.mechanism or usual, MECHANISMS, "Spark")
    known = position.rebinding.goal if position.rebinding else position.binding
    goal = replace(position.arrangement, binding=known).after(command, set()).binding
    begun = Rebinding(command.id, mechanism.name, goal)
    return replace(position.without_rebinding(SUPERSEDED), rebinding=begun)


def numbers(binding: Binding, compiled: Program) -> tuple[int, ...]:
    """A binding in the program's order of instances; those without slots stand with worker 0."""
    return tuple(int(binding.worker_of.get(instance, 0)) for instance in compiled.instances)


def goal_of(rebinding: Rebinding | None, compiled: Program) -> Goal | None:
    """A rebinding as plans and manifests have it."""
    if rebinding is None:
        return None
    goal = rebinding.goal
    return Goal(rebinding.id, rebinding.mechanism, goal.workers, numbers(goal, compiled))


def _from_outside(position: Position, name: str) -> Position:
    """A query is no longer, or not, the one that the job declares under its name."""
    added = tuple(dict.fromkeys((*position.added, name)))
    removed = tuple(other for other in position.removed if other != name)
    if name in position.declared:
        removed = (*removed, name)
    return replace(position, added=added, removed=removed)


def _removed(position: Position, name: str) -> Position:
    added = tuple(other for other in position.added if other != name)
    return replace(position, added=added, removed=tuple(dict.fromkeys((*position.removed, name))))
