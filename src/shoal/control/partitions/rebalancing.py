"""Rebalancing: the partitions of the plane under a spatial policy, round by round.

1. At first, a spatial operator gets one partition for each worker, unless it was divided before.
2. Arrivals of every epoch are collected in the statistics of the tiles. With `uniform-grid` nothing else happens.
3. With `history-grid`, the arrivals of the first `profile_s` are a sample: the cost model makes partitions of it, once.
4. With `swarm`, a round is closed every `round_s`, and the policy may move, split or merge partitions. Until that is
   done, the next round is not closed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.control.partitions.rebalance_entries import Rebalanced, RebalanceMeasured
from shoal.control.partitions.remembered import Remembered, RememberedTile
from shoal.control.partitions.tile_statistics import TileStatistics
from shoal.control.settings import ControlSettings
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import Change, Merge, Partitioning, Regroup, instance_id
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.catalog import SPATIAL_POLICIES
from shoal.policies.partitioning.replication import REPLICATED
from shoal.policies.partitioning.swarm.plane import Plane
from shoal.policies.partitioning.swarm.reduction import Reduction, reduced
from shoal.policies.partitioning.swarm.rounds import SwarmMemory, laid_out

GIVEN_UP_S = 30.0
"""A change that has not been observed after this time is not waited for any longer."""


@dataclass(frozen=True)
class RunNow:
    """What a decision is about: the queries, their partitions and names, and whether anything may change now."""

    graph: Graph
    partitioning: Partitioning
    names: Mapping[InstanceId, str]
    ready: bool


@dataclass(frozen=True)
class Rebalance:
    """What to do: changes of the partitioning, or another binding; and entries for the journal."""

    entries: tuple[Rebalanced | RebalanceMeasured, ...]
    changes: Repartition | None = None
    binding: Binding | None = None


@dataclass
class Rebalancing:
    """Remembers the statistics of the tiles, when the round began, and the change that is under way."""

    policy: str
    settings: ControlSettings
    _statistics: TileStatistics = field(default_factory=TileStatistics)
    _memory: SwarmMemory = field(default_factory=SwarmMemory)
    _began_s: float | None = None
    _passed_s: float | None = None
    _divided: bool = False
    _sampled: bool = False
    _asked: tuple[Partitioning, float] | None = None
    _last: tuple[Rebalanced, ...] = ()

    @classmethod
    def of(cls, policy: str, graph: Graph, settings: ControlSettings) -> "Rebalancing | None":
        """The rebalancing of a policy; None if it leaves the partitions alone."""
        if policy not in SPATIAL_POLICIES:
            return None
        if not graph.spatial_operators:
            raise ConfigError(f"policy {policy} needs an operator that goes by place, such as match_ranges; got none")
        return None if policy == REPLICATED else cls(policy, settings)

    def take(self, event: EpochCommitted, now: RunNow) -> Rebalance | None:
        """Take the arrivals of an epoch; returns what is to be done, if anything. Called for every epoch."""
        snapshot, now_s = event.snapshot, event.at_s
        self._statistics.fit(now.graph, now.partitioning)
        self._statistics.add(snapshot.arrivals)
        self._statistics.add_costs(now.graph, now.partitioning, snapshot.loads)
        if self._began_s is None:  # of a run that goes on, the time before its first epoch does not count
            self._began_s = now_s if self._passed_s is None else now_s - event.duration_s - self._passed_s
        if not now.ready or self._waits(now.partitioning, now_s):
            return None
        if not self._divided:
            self._divided = True
            return self._first(event, now)
        if self.policy == "swarm" and now_s - self._began_s >= self.settings.round_s:
            return self._round(event, now)
        if self.policy == "history-grid" and not self._sampled and now_s - self._began_s >= self.settings.profile_s:
            self._sampled = True
            return self._by_history(event, now)
        return None

    def remembered(self, epoch: int, now_s: float) -> Remembered | None:
        """What a run that goes on after an epoch must know; None if nothing is decided later."""
        if self.policy == "uniform-grid":
            return None
        stages = self._memory.stages
        return Remembered(
            epoch,
            self.policy,
            {id_: tuple(map(RememberedTile.of, several)) for id_, several in self._statistics.known.items()},
            round_s=0.0 if self._began_s is None else now_s - self._began_s,
            pointer=stages.pointer,
            rebalances=stages.rebalances,
            taken=stages.taken,
            throughput=stages.throughput,
            rounds=self._memory.rounds,
            divided=self._divided,
            sampled=self._sampled,
        )

    def resume(self, remembered: Remembered) -> None:
        """Go on with what an earlier run has remembered; called before the first epoch.

        Another policy than that of the earlier run makes its own decisions from the statistics.
        """
        known = {id_: [each.statistics() for each in several] for id_, several in remembered.tiles.items()}
        self._statistics = TileStatistics(known)
        if remembered.policy == self.policy:
            self._memory, self._passed_s = remembered.memory, remembered.round_s
            self._divided, self._sampled = remembered.divided, remembered.sampled

    def refuse(self) -> None:
        """Note that the runtime has refused the last change."""
        self._asked, self._last = None, ()

    def _waits(self, partitioning: Partitioning, now_s: float) -> bool:
        """Whether a change was asked for and is not there yet."""
        if self._asked is None:
            return False
        before, asked_s = self._asked
        if partitioning != before or now_s - asked_s > GIVEN_UP_S:
            self._asked = None
        return self._asked is not None

    def _first(self, event: EpochCommitted, now: RunNow) -> Rebalance | None:
        """One partition for each worker, for operators that are as declared."""
        workers = event.snapshot.binding.workers
        changes, worker_of = list[Change](), dict[InstanceId, int]()
        for operator in now.graph.spatial_operators:
            columns, rows = operator.grid or (0, 0)
            parts = min(workers, columns * rows)
            if operator.id not in now.partitioning.changed_operators and operator.groups != parts:
                changes.append(Regroup(operator.id, parts))
                worker_of |= {instance_id(operator.id, number): number for number in range(parts)}
        if not changes:
            return None
        entry = self._entry(event, "grid", "", instances=tuple(map(str, worker_of)))
        return self._repartitioned(event, now, Repartition(tuple(changes), worker_of), (entry,))

    def _round(self, event: EpochCommitted, now: RunNow) -> Rebalance | None:
        """Close a round and carry out what the policy decides."""
        period_s, self._began_s = event.at_s - (self._began_s or 0.0), event.at_s
        plane = self._closed(event, now)
        measured = self._measured(event, plane)
        self._memory, found = self.settings.swarm.decided(self._memory, plane, period_s)
        merged = tuple(each for each in found if isinstance(each, Merge))
        if merged:
            return self._merged(event, now, merged, measured)
        reductions = tuple(each for each in found if isinstance(each, Reduction))
        if reductions:
            return self._reduced(event, now, plane, reductions, measured)
        return Rebalance(measured) if measured else None

    def _reduced(
        self,
        event: EpochCommitted,
        now: RunNow,
        plane: Plane,
        found: tuple[Reduction, ...],
        measured: tuple[RebalanceMeasured, ...],
    ) -> Rebalance:
        """All reductions of a round at once; an instance that moves more than once goes to the last of its workers."""
        entries, worker_of = list[Rebalanced](), dict[InstanceId, int]()
        for each in found:
            entries.append(self._reduction_entry(event, now.names, each))
            plane, moved = reduced(plane, each)
            worker_of |= dict.fromkeys(moved, each.target)
        self._last = tuple(entries)
        changes = tuple(each.cut for each in found if each.cut is not None)
        return self._repartitioned(event, now, Repartition(changes, worker_of), (*measured, *entries))

    def _closed(self, event: EpochCommitted, now: RunNow) -> Plane:
        self._statistics.close()
        measured = self.settings.cost == "measured"
        return self._statistics.plane(now.graph, now.partitioning, event.snapshot.binding, measured=measured)

    def _merged(
        self,
        event: EpochCommitted,
        now: RunNow,
        merges: tuple[Merge, ...],
        measured: tuple[RebalanceMeasured, ...],
    ) -> Rebalance:
        names = tuple(now.names.get(each, str(each)) for merge in merges for each in merge.instances)
        entry = self._entry(event, "merge", "", instances=names)
        return self._repartitioned(event, now, Repartition(merges), (*measured, entry))

    def _by_history(self, event: EpochCommitted, now: RunNow) -> Rebalance | None:
        """Partitions by the sample; they stay as they are."""
        plane = self._closed(event, now)
        layout = laid_out(plane)
        before = event.snapshot.binding.worker_of
        worker_of = {each: worker for each, worker in layout.worker_of.items() if before.get(each) != worker}
        if not layout.changes and not worker_of:
            return None
        costs = max(layout.before), min(layout.before), max(layout.after), min(layout.after)
        entry = self._entry(event, "history", "", instances=tuple(map(str, worker_of)), costs=costs)
        return self._repartitioned(event, now, Repartition(layout.changes, worker_of), (entry,))

    def _repartitioned(
        self,
        event: EpochCommitted,
        now: RunNow,
        command: Repartition,
        entries: tuple[Rebalanced | RebalanceMeasured, ...],
    ) -> Rebalance:
        if command.changes:
            self._asked = now.partitioning, event.at_s
            return Rebalance(entries, changes=command)
        binding = event.snapshot.binding
        moved = {instance: WorkerId(worker) for instance, worker in command.worker_of.items()}
        return Rebalance(entries, binding=Binding({**binding.worker_of, **moved}, binding.workers))

    def _reduction_entry(self, event: EpochCommitted, names: Mapping[InstanceId, str], found: Reduction) -> Rebalanced:
        where = "" if found.cut is None else f"before {found.cut.axis} {found.cut.at}"
        named = tuple(names.get(each, str(each)) for each in found.instances)
        workers, costs = (found.source, found.target), (*found.before, *found.after)
        return self._entry(event, found.kind, where, workers, named, costs)

    def _entry(
        self,
        event: EpochCommitted,
        change: str,
        where: str,
        workers: tuple[int, int] = (0, 0),
        instances: tuple[str, ...] = (),
        costs: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
    ) -> Rebalanced:
        rounded = [float(f"{cost:.4g}") for cost in costs]
        return Rebalanced(event.at_s, event.epoch, self.policy, change, *workers, instances, where, *rounded)

    def _measured(self, event: EpochCommitted, plane: Plane) -> tuple[RebalanceMeasured, ...]:
        """What the last changes have brought, by the first round after them."""
        last, self._last = self._last, ()
        return tuple(_measurement(event, each, plane) for each in last if max(each.source, each.target) < plane.workers)


def _measurement(event: EpochCommitted, last: Rebalanced, plane: Plane) -> RebalanceMeasured:
    source, target = (float(f"{plane.costs[worker]:.4g}") for worker in (last.source, last.target))
    before = last.cost_source, last.cost_target
    return RebalanceMeasured(event.at_s, event.epoch, last.change, last.source, last.target, *before, source, target)
