"""Partitions of the plane with their costs, and what a change makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from shoal.kernels.spatial.statistics import Amounts, PartitionStatistics
from shoal.model.control.partitioning import Cut, instance_id, number_of, operator_of
from shoal.model.query.graph import InstanceId
from shoal.model.spatial.tiles import Axis


@dataclass(frozen=True, eq=False)
class PlanePartition:
    """An instance of a spatial operator: its worker and its statistics."""

    instance: InstanceId
    worker: int
    statistics: PartitionStatistics


@dataclass(frozen=True, eq=False)
class Plane:
    """All partitions and the number of workers.

    The cost of a partition is N * Q * R / R(S), or, if it is `measured`, the seconds that it took.
    """

    partitions: Sequence[PlanePartition]
    workers: int
    measured: bool = False

    @cached_property
    def received(self) -> float:
        """R(S): points and ranges received by all partitions in the last round."""
        return sum(each.statistics.total.r for each in self.partitions)

    def cost(self, amounts: Amounts) -> float:
        """C = N * Q * R / R(S)."""
        return amounts.work / self.received if self.received else 0.0

    def cost_of(self, partition: PlanePartition) -> float:
        """The cost of a partition."""
        return partition.statistics.busy_s if self.measured else self.cost(partition.statistics.total)

    def costs_of_parts(self, partition: PlanePartition, axis: Axis, at: int) -> tuple[float, float]:
        """The costs of both parts of a partition, of which the second begins with its row or column `at`."""
        along = partition.statistics.of(axis)
        if self.measured:
            first = partition.statistics.busy_s * along.share_before(at)
            return first, partition.statistics.busy_s - first
        return self.cost(along.before(at)), self.cost(along.behind(at))

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """The cost of every worker."""
        found = [0.0] * self.workers
        for each in self.partitions:
            found[each.worker] += self.cost_of(each)
        return tuple(found)

    def of_worker(self, worker: int) -> list[PlanePartition]:
        """The partitions of a worker, the costliest first."""
        mine = [each for each in self.partitions if each.worker == worker]
        return sorted(mine, key=lambda each: (-self.cost_of(each), each.instance))

    def moved(self, instances: Sequence[InstanceId], target: int) -> "Plane":
        """The plane after some instances have gone to another worker."""
        moving = {*instances}
        moved = [replace(each, worker=target) if each.instance in moving else each for each in self.partitions]
        return self._with(moved)

    def cut(self, change: Cut, target: int) -> "tuple[Plane, InstanceId]":
        """The plane after a cut, and the new instance, which is at the target."""
        cut = next(each for each in self.partitions if each.instance == change.instance)
        kept, given = cut.statistics.cut(change.axis, change.at)
        if change.keeps_last:
            kept, given = given, kept
        new = self._free(change.instance)
        others = [each for each in self.partitions if each is not cut]
        return self._with([*others, replace(cut, statistics=kept), PlanePartition(new, target, given)]), new

    def _free(self, instance: InstanceId) -> InstanceId:
        """The first instance of the operator that does not exist, which is the one that a cut makes."""
        operator = operator_of(instance)
        used = {number_of(each.instance) for each in self.partitions if operator_of(each.instance) == operator}
        return instance_id(operator, next(number for number in count() if number not in used))

    def _with(self, partitions: Sequence[PlanePartition]) -> "Plane":
        """Other partitions of what was received."""
        plane = Plane(tuple(partitions), self.workers, self.measured)
        plane.__dict__["received"] = self.received  # costs before and after a change are compared
        return plane
