"""Placement: which executor each worker runs on, and which partition of the exchange is whose.

On one executor there is nothing to decide. On several, workers are anchored (`anchor.py`), and
whenever anchors are made anew each one goes to the worker most of whose state lies on its executor.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from shoal.model.control.messages import WorkersLost
from shoal.model.control.topology import Topology
from shoal.runtimes.spark.cluster.anchor import Anchors
from shoal.runtimes.spark.cluster.executors import Roster

LOG = logging.getLogger("shoal")
ATTEMPTS = 3
"""How often anchors are made until every executor has its share."""
PREFERENCE = "spark.shuffle.reduceLocality.enabled"
"""Setting that sends tasks to the hosts their input comes from, wherever their anchor is."""
Affinity = Mapping[tuple[int, int], float]
"""Bytes of state that a worker has from a worker of the epoch before."""


class ExecutorPlacement(Protocol):
    """What an epoch needs to know of places."""

    @property
    def worker_of(self) -> tuple[int, ...] | None:
        """The worker of each partition; None where the numbers are the same."""

    def settle(self, workers: int, affinity: Callable[[], Affinity]) -> None:
        """Make ready for an epoch with so many workers."""

    def exchanged(self, rows: DataFrame, workers: int) -> DataFrame:
        """Wire rows at the partitions of their workers."""

    def observe(self, executors: Mapping[int, str]) -> None:
        """Hear where the workers of an epoch have run."""

    def topology(self, workers: int) -> Topology:
        """The nodes that the workers of the last epoch ran on."""

    def lost(self) -> list[WorkersLost]:
        """The workers whose executors have gone since this was last asked."""

    def close(self) -> None:
        """Leave nothing behind."""


class OneNode:
    """All workers on one executor, where the number of a partition is that of a worker."""

    worker_of: tuple[int, ...] | None = None

    def settle(self, workers: int, affinity: Callable[[], Affinity]) -> None:
        """Nothing to make ready."""

    def exchanged(self, rows: DataFrame, workers: int) -> DataFrame:
        """Wire rows at the partitions of their workers."""
        return rows.repartitionById(workers, "worker")

    def observe(self, executors: Mapping[int, str]) -> None:
        """Nothing to learn."""

    def topology(self, workers: int) -> Topology:
        """One node."""
        return Topology.of(1, workers)

    def lost(self) -> list[WorkersLost]:
        """Nobody: without this executor there is no run."""
        return []

    def close(self) -> None:
        """Nothing is left."""


class ManyNodes:
    """Workers on the executors of a cluster, which come and go."""

    def __init__(self, spark: SparkSession, roster: Roster) -> None:
        """Nobody is anywhere yet."""
        self._spark, self._roster = spark, roster
        self._ids: tuple[str, ...] = ()
        self._ever: set[str] = set()
        self._anchors: Anchors | None = None
        self._executor_of: dict[int, str] = {}
        self._lost: list[WorkersLost] = []
        self.worker_of: tuple[int, ...] | None = None
        self._can_anchor = spark.sparkContext.getConf().get(PREFERENCE, "true") == "false"
        if not self._can_anchor:
            LOG.warning("workers change executors from epoch to epoch; start Spark with %s=false", PREFERENCE)

    def settle(self, workers: int, affinity: Callable[[], Affinity]) -> None:
        """Anchor the workers anew where their number or the executors are others than before."""
        ids = self._alive_ids()
        if self._anchors is not None and len(self._anchors.executor_of) == workers and ids == self._ids:
            return
        self.close()
        self._ids = ids
        if self._can_anchor and len(ids) > 1:
            self._anchors = self._made(workers)
            self.worker_of = claimed(self._anchors.executor_of, self._nearness(affinity()))

    def _nearness(self, affinity: Affinity) -> dict[tuple[int, str], float]:
        """Bytes of each worker's state that lie on each executor."""
        found: dict[tuple[int, str], float] = defaultdict(float)
        for (worker, before), size in affinity.items():
            if before in self._executor_of:
                found[worker, self._executor_of[before]] += size
        return found

    def _made(self, workers: int) -> Anchors:
        """Anchors that lie as evenly as they can be had in a few attempts."""
        executors = self._roster.read()
        shares = {each.id: share for each, share in zip(executors.alive, executors.shares(workers), strict=True)}
        slots = max(1, sum(each.slots for each in executors.alive))
        best: tuple[int, Anchors] | None = None
        for _ in range(ATTEMPTS):
            anchors = Anchors.made(self._spark, workers, slots)
            there = anchors.executor_of
            too_many = sum(max(0, there.count(executor) - shares.get(executor, 0)) for executor in set(there))
            if best is not None and best[0] <= too_many:
                anchors.remove()
                continue
            if best is not None:
                best[1].remove()
            best = (too_many, anchors)
            if not too_many:
                break
        if best is None:
            raise AssertionError("at least one attempt is made")
        return best[1]

    def exchanged(self, rows: DataFrame, workers: int) -> DataFrame:
        """Wire rows at the anchors of their workers."""
        if self._anchors is None or self.worker_of is None:
            return rows.repartitionById(workers, "worker")
        partition_of = sorted(range(workers), key=self.worker_of.__getitem__)
        return self._anchors.exchanged(rows, partition_of)

    def observe(self, executors: Mapping[int, str]) -> None:
        """Take note of where workers ran; those that were lost meanwhile are told by where they ran before."""
        self._alive_ids()
        self._executor_of = dict(executors)

    def topology(self, workers: int) -> Topology:
        """A node for every executor that some worker ran on."""
        places = [self._executor_of.get(worker, "") for worker in range(workers)]
        nodes = {place: node for node, place in enumerate(sorted(set(places)))}
        return Topology(tuple(nodes[place] for place in places))

    def lost(self) -> list[WorkersLost]:
        """The workers whose executors have gone since this was last asked."""
        lost, self._lost = self._lost, []
        return lost

    def close(self) -> None:
        """Let go of the anchors."""
        if self._anchors is not None:
            self._anchors.remove()
            self._anchors, self.worker_of = None, None

    def _alive_ids(self) -> tuple[str, ...]:
        """The executors that are there; workers of those that are not any more are lost."""
        ids = self._roster.ids()
        self._ever.update(ids)
        workers_at: dict[str, list[int]] = defaultdict(list)
        for worker, executor in self._executor_of.items():
            workers_at[executor].append(worker)
        for executor in [each for each in workers_at if each in self._ever and each not in ids]:
            reason = f"executor {executor} is gone: {self._roster.why_gone(executor)}"
            self._lost.append(WorkersLost(tuple(sorted(workers_at[executor])), reason, at_s=time.time()))
            self._executor_of = {w: place for w, place in self._executor_of.items() if place != executor}
        return ids


def claimed(executor_of: Sequence[str], nearness: Mapping[tuple[int, str], float]) -> tuple[int, ...]:
    """The worker of each partition: most bytes first, workers get partitions where their state lies.

    >>> claimed(["a", "b", "a", "b"], {(0, "b"): 10, (2, "b"): 20, (3, "b"): 30, (1, "a"): 5})
    (1, 3, 0, 2)
    """
    free: dict[str, list[int]] = defaultdict(list)
    for partition, executor in enumerate(executor_of):
        free[executor].append(partition)
    partition_of: dict[int, int] = {}
    for (worker, executor), _ in sorted(nearness.items(), key=lambda item: (-item[1], item[0])):
        if worker < len(executor_of) and worker not in partition_of and free[executor]:
            partition_of[worker] = free[executor].pop(0)
    left = [partition for executor in dict.fromkeys(executor_of) for partition in free[executor]]
    for worker in range(len(executor_of)):
        if worker not in partition_of:
            partition_of[worker] = left.pop(0)
    workers = {partition: worker for worker, partition in partition_of.items()}
    return tuple(workers[partition] for partition in range(len(executor_of)))


def executor_placement(spark: SparkSession) -> ExecutorPlacement:
    """The placement that a session needs."""
    roster = Roster(spark)
    return OneNode() if roster.is_local else ManyNodes(spark, roster)
