"""Splitting: which instances are too large for any worker, and which parts of one are idle and merged again."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.partitioning import Change, Merge, Partitioning, Split, instance_id, number_of, operator_of
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.loads import Loads, summed


@dataclass(frozen=True)
class Proposed:
    """A change, the work of its instances, and a worker's share of all work, both until the horizon."""

    change: Change
    work_s: float
    share_s: float
    worker_of: Mapping[InstanceId, int]
    """The workers of the instances that the change creates."""


@dataclass(frozen=True)
class Lasting:
    """How long an instance has been too large, and the seconds of work per second by which its backlog has grown."""

    seconds: float
    growth: float = 0.0


@dataclass(frozen=True)
class Splitting:
    """Splits instances that exceed a worker's share, and merges the parts of one group when they are idle.

    A worker's share is the mean work until the horizon. An instance with more than `over` shares is split into parts of
    at most `part` shares each, within its slots and `most_parts`, if that saves more time than moving its state takes.
    Parts of one declared group that have less than `under` shares in total are merged. `over` is much larger than
    `under`, so that splits and merges do not alternate.

    If the runtime `stops` for a change, all results wait until the backlog has been processed. Splits are then proposed
    only if they save more. Until the horizon, the queue of an instance grows to its work above a share. Its results
    wait for half of that on average, and count by their share of all work. An instance is expected to stay large for as
    long as it has been large, up to the horizon. Merges save next to nothing, so they wait until there is no backlog.
    An instance with more work per second than a worker does never gets done by itself. Its results wait for its backlog
    in any case, so only those of others are delayed by the stop.
    """

    horizon_s: float = 10.0
    over: float = 1.1
    part: float = 0.5
    under: float = 0.1
    most_parts: int = 8
    stops: bool = False

    def __post_init__(self) -> None:
        """Reject shares out of order and fewer than two parts."""
        if not 0 <= self.under < self.part <= self.over:
            raise ConfigError(
                f"shares must be 0 <= under < part <= over; got {self.under}, {self.part} and {self.over}"
            )
        if self.most_parts < 2:
            raise ConfigError(f"most_parts must be at least 2; got {self.most_parts}")

    def propose(
        self,
        loads: Loads,
        binding: Binding,
        topology: Topology,
        graph: Graph,
        partitioning: Partitioning,
        refused: Collection[InstanceId] = (),
        lasting: Mapping[InstanceId, Lasting] | None = None,
    ) -> Sequence[Proposed]:
        """Splits of large instances, the largest first; merges only if there are no splits.

        Instances in `refused` are not split: they have one key, or a split did not help. `lasting`: how long instances
        have been too large; those without an entry since before the horizon.
        """
        work_s = loads.work_s(self.horizon_s)
        share_s = float(work_s.sum()) / topology.workers
        if share_s <= 0:
            return ()
        found: list[Proposed] = []
        lasted: list[Lasting] = []
        worker_s = summed(work_s, loads.placed(binding, topology), topology.workers).tolist()
        for place in sorted(range(len(work_s)), key=lambda place: -work_s[place]):
            if work_s[place] <= self.over * share_s:
                break
            instance = loads.instances[place]
            saved_s = float(work_s[place]) - share_s
            cost_s = loads.costs.seconds(float(loads.state_bytes[place]), 0, 0)
            if instance in refused or saved_s <= cost_s:
                continue
            parts = self._parts(instance, float(work_s[place]) / share_s, graph, partitioning)
            if parts > 1:
                split = Split(instance, parts)
                worker = int(binding.worker_of[instance])
                placed = _placed(split, worker, float(work_s[place]), worker_s, graph, partitioning)
                found.append(Proposed(split, float(work_s[place]), share_s, placed))
                lasted.append((lasting or {}).get(instance, Lasting(self.horizon_s)))
                partitioning = partitioning.after(split, graph)
        stop_s = self._stop_s(loads, topology.workers)
        if found:
            total_s = share_s * topology.workers
            saved_s = sum(
                (each.work_s - share_s) / 2 * each.work_s / total_s * min(1.0, so_long.seconds / self.horizon_s)
                for each, so_long in zip(found, lasted, strict=True)
            )
            overdue = self._overdue(loads, found[0].work_s / total_s, lasted[0], stop_s)
            return found if saved_s > stop_s or overdue else ()
        return self._merges(loads, share_s, partitioning) if stop_s <= loads.costs.hand_over_s else ()

    def oversized(self, loads: Loads, topology: Topology) -> frozenset[InstanceId]:
        """The instances that are too large for a worker."""
        work_s = loads.work_s(self.horizon_s)
        large = np.flatnonzero(work_s * topology.workers > self.over * work_s.sum())
        return frozenset(loads.instances[place] for place in large.tolist())

    def _stop_s(self, loads: Loads, workers: int) -> float:
        """How long the run stops for a change: until the backlog is done, and that of the slowest instance."""
        waiting_s = loads.cost_s * loads.backlog
        return float(max(waiting_s.max(initial=0.0), waiting_s.sum() / workers)) if self.stops else 0.0

    def _overdue(self, loads: Loads, share: float, lasting: Lasting, stop_s: float) -> bool:
        """Whether the largest instance falls behind, and its results, a share of all, wait for longer than others stop.

        1. If its backlog does not grow, it gets done by itself.
        2. For as long as it stays so large, its results wait for its backlog and for half of what is added.
        3. The results of others in the time of the stop wait for half of it.
        """
        waits_s = float((loads.cost_s * loads.backlog).max())
        stays_s = min(lasting.seconds, self.horizon_s)
        gained = share * stays_s * (waits_s + lasting.growth * stays_s / 2)
        return lasting.growth > 0 and gained > (1.0 - share) * stop_s**2 / 2

    def _parts(self, instance: InstanceId, shares: float, graph: Graph, partitioning: Partitioning) -> int:
        """The number of parts to split an instance into; 1 if it cannot be split."""
        operator = graph.operators[operator_of(instance)]
        if not operator.parameters.get("keys"):
            return 1
        slots = partitioning.table(operator).count(number_of(instance))
        return min(math.ceil(shares / self.part), self.most_parts, slots)

    def _merges(self, loads: Loads, share_s: float, partitioning: Partitioning) -> list[Proposed]:
        """Declared groups whose parts are idle."""
        work_s = dict(zip(loads.instances, loads.work_s(self.horizon_s).tolist(), strict=True))
        found = []
        for group, numbers in partitioning.entries:
            operator = operator_of(group)
            parts = tuple(instance_id(operator, number) for number in sorted(set(numbers)))
            total_s = sum(work_s.get(part, 0.0) for part in parts)
            if len(parts) > 1 and total_s < self.under * share_s and not _shared(parts, group, partitioning):
                found.append(Proposed(Merge(parts), total_s, share_s, {}))
        return found


def _shared(parts: Sequence[InstanceId], group: InstanceId, partitioning: Partitioning) -> bool:
    """Whether one of the parts has slots of another group, too."""
    numbers = {number_of(part) for part in parts}
    others = (
        entry for entry in partitioning.entries if entry[0] != group and operator_of(entry[0]) == operator_of(group)
    )
    return any(numbers & set(entry[1]) for entry in others)


def _placed(
    split: Split, worker: int, work_s: float, worker_s: list[float], graph: Graph, partitioning: Partitioning
) -> dict[InstanceId, int]:
    """The workers of the new parts: the least loaded ones in turn; the first part stays where it is."""
    operator = graph.operators[operator_of(split.instance)]
    before = set(partitioning.instances_of(operator))
    made = [i for i in partitioning.after(split, graph).instances_of(operator) if i not in before]
    each_s = work_s / split.parts
    worker_s[worker] -= each_s * len(made)
    found: dict[InstanceId, int] = {}
    load_of: dict[int, float] = defaultdict(float, enumerate(worker_s))
    for instance in made:
        target = min(load_of, key=lambda each: (load_of[each], each))
        load_of[target] += each_s
        found[instance] = target
    worker_s[:] = [load_of[each] for each in range(len(worker_s))]
    return found
