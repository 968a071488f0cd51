"""Divisions: splits and merges that the controller asks for, and their measured effect."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.control.journal import Divided, DivisionMeasured
from shoal.control.observation import Observation
from shoal.model.control.messages import Repartition
from shoal.model.control.partitioning import Change, Merge, Partitioning, Split
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.loads import Loads
from shoal.policies.partitioning.splitting import Lasting, Proposed, Splitting

USEFUL = 0.8
"""Largest useful share of the split instance in one part; a part with more is not split again."""

GIVEN_UP_S = 30.0
"""A change that has not been observed after this time is not waited for any longer."""


@dataclass
class _Pending:
    """A change whose effect was not observed yet: the instances that have its keys afterwards, and those that go."""

    entry: Divided
    parts: tuple[InstanceId, ...]
    gone: tuple[InstanceId, ...] = ()


@dataclass(frozen=True)
class _Large:
    """An instance too large for a worker: since when, and its backlog in seconds of work when that was noticed."""

    since_s: float
    noticed_s: float
    backlog_s: float

    def lasting(self, backlog_s: float, now_s: float) -> Lasting:
        """How long that has lasted, and how its backlog has grown since it was noticed."""
        passed_s = now_s - self.noticed_s
        return Lasting(now_s - self.since_s, (backlog_s - self.backlog_s) / passed_s if passed_s > 0 else 0.0)


@dataclass
class Divisions:
    """Remembers the changes under way, and instances that are not worth splitting: one key, or one hot key."""

    policy: Splitting | None
    _pending: list[_Pending] = field(default_factory=list)
    _refused: set[InstanceId] = field(default_factory=set)
    _large: dict[InstanceId, _Large] = field(default_factory=dict)

    def proposed(
        self,
        observation: Observation,
        graph: Graph,
        partitioning: Partitioning,
        names: Mapping[InstanceId, str],
        epoch: int,
        now_s: float,
    ) -> tuple[Repartition, tuple[Divided, ...]] | None:
        """The changes to make now, and their entries; None if there are none."""
        if self.policy is None:
            return None
        loads, topology = observation.loads, observation.topology
        lasting = self._lasting(self.policy.oversized(loads, topology), loads, now_s)
        found = self.policy.propose(loads, observation.binding, topology, graph, partitioning, self._refused, lasting)
        if not found:
            return None
        self._pending = []
        for each in found:
            parts = _parts(each.change, partitioning, graph)
            partitioning = partitioning.after(each.change, graph)
            gone = each.change.instances[1:] if isinstance(each.change, Merge) else ()
            self._pending.append(_Pending(_entry(each, parts, names, epoch, now_s), parts, gone))
        worker_of = {instance: worker for each in found for instance, worker in each.worker_of.items()}
        command = Repartition(tuple(each.change for each in found), worker_of)
        return command, tuple(pending.entry for pending in self._pending)

    def _lasting(self, large: Collection[InstanceId], loads: Loads, now_s: float) -> dict[InstanceId, Lasting]:
        """Notice the instances that are large now, forget the others."""
        backlog_s = dict(zip(loads.instances, (loads.cost_s * loads.backlog).tolist(), strict=True))
        began_s = now_s - loads.period_s
        self._large = {each: self._large.get(each, _Large(began_s, now_s, backlog_s[each])) for each in large}
        return {each: noticed.lasting(backlog_s[each], now_s) for each, noticed in self._large.items()}

    def measured(self, observation: Observation, epoch: int, now_s: float) -> tuple[DivisionMeasured, ...]:
        """The effect of the changes under way, by the first observation in which they are made."""
        pending, self._pending = self._pending, []
        place_of = {instance: place for place, instance in enumerate(observation.loads.instances)}
        share_s = float(observation.work_s.sum()) / observation.binding.workers
        found = []
        for each in pending:
            if not place_of.keys() >= {*each.parts} or not place_of.keys().isdisjoint(each.gone):
                self._pending.append(each)  # a runtime may take a while to make it
                continue
            if share_s <= 0:
                continue
            shares = {part: float(observation.work_s[place_of[part]]) / share_s for part in each.parts}
            largest = max(shares, key=lambda part: shares[part])
            if each.entry.change == "split" and shares[largest] > USEFUL * each.entry.shares:
                self._refused.add(largest)
            found.append(
                DivisionMeasured(
                    at_s=now_s,
                    epoch=epoch,
                    change=each.entry.change,
                    name=each.entry.name,
                    shares_before=each.entry.shares,
                    shares_after=round(shares[largest], 4),
                )
            )
        return tuple(found)

    def under_way(self, now_s: float) -> bool:
        """Whether a change was asked for and is not observed yet; then nothing else is decided."""
        self._pending = [each for each in self._pending if now_s - each.entry.at_s < GIVEN_UP_S]
        return bool(self._pending)

    def refuse(self, command: Repartition) -> None:
        """Remember that the runtime cannot make these changes."""
        self._pending = []
        self._refused.update(change.instance for change in command.changes if isinstance(change, Split))


def _parts(change: Change, partitioning: Partitioning, graph: Graph) -> tuple[InstanceId, ...]:
    """The instances that have the keys of a change once it is made."""
    if isinstance(change, Merge):
        return change.instances[:1]
    after = partitioning.after(change, graph)
    made = tuple(i for i in after.instances(graph) if i not in set(partitioning.instances(graph)))
    return (change.instance, *made) if isinstance(change, Split) else made


def _entry(
    proposed: Proposed, parts: Sequence[InstanceId], names: Mapping[InstanceId, str], epoch: int, now_s: float
) -> Divided:
    change = proposed.change
    instances = change.instances if isinstance(change, Merge) else parts[:1]
    return Divided(
        at_s=now_s,
        epoch=epoch,
        change="merge" if isinstance(change, Merge) else "split",
        instance=str(instances[0]),
        name=names.get(instances[0], str(instances[0])),
        parts=len(instances) if isinstance(change, Merge) else len(parts),
        shares=round(proposed.work_s / proposed.share_s, 4),
    )
