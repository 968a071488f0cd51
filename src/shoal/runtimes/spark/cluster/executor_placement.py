"""Executor placement: the executor of each worker, and the worker of each partition of the exchange.

With one executor there is nothing to decide. With several, workers are anchored (`anchor.py`). Whenever anchors are
made again, each goes to the worker with the most state on its executor.
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
"""The most attempts to make anchors such that every executor has its share."""
PREFERENCE = "spark.shuffle.reduceLocality.enabled"
"""The setting that sends tasks to the hosts of their input; if true, it overrides anchors."""
Affinity = Mapping[tuple[int, int], float]
"""Bytes of state that a worker takes from a worker of the epoch before."""


class ExecutorPlacement(Protocol):
    """Assigns the workers of an epoch to executors; `is_local`: all of them are on the machine of the driver."""

    is_local: bool

    @property
    def worker_of(self) -> tuple[int, ...] | None:
        """The worker of each partition; None if their numbers are equal."""

    def settle(self, workers: int, affinity: Callable[[], Affinity]) -> None:
        """Called before every epoch, with its number of workers; afterwards `worker_of` and `exchanged` are valid."""

    def exchanged(self, rows: DataFrame, workers: int) -> DataFrame:
        """Wire rows at the partitions of their workers; called for every round of an epoch."""

    def observe(self, executors: Mapping[int, str]) -> None:
        """Called after every epoch with the executor of each worker."""

    def topology(self, workers: int) -> Topology:
        """The nodes that the workers of the last epoch ran on."""

    def lost(self) -> list[WorkersLost]:
        """The workers whose executors were lost since the last call."""

    def close(self) -> None:
        """Called once at the end; must release everything in Spark."""


class OneNode:
    """All workers on one executor; partition numbers equal worker numbers."""

    is_local = True
    worker_of: tuple[int, ...] | None = None

    def settle(self, workers: int, affinity: Callable[[], Affinity]) -> None:
        """Nothing to prepare."""

    def exchanged(self, rows: DataFrame, workers: int) -> DataFrame:
        """Wire rows at the partitions of their workers."""
        return rows.repartitionById(workers, "worker")

    def observe(self, executors: Mapping[int, str]) -> None:
        """Nothing to learn."""

    def topology(self, workers: int) -> Topology:
        """One node."""
        return Topology.of(1, workers)

    def lost(self) -> list[WorkersLost]:
        """None: a run does not outlive its only executor."""
        return []

    def close(self) -> None:
        """Nothing to release."""


class ManyNodes:
    """Workers on the executors of a cluster, which may join and leave."""

    is_local = False

    def __init__(self, spark: SparkSession, roster: Roster) -> None:
        """Begin without anchors."""
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
        """Anchor the workers again if their number or the executors have changed."""
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
        """The most evenly spread anchors of a few attempts."""
        executors = self._roster.read()
        shares = {each.id: share for each, share in zip(executors.alive, executors.shares(workers), strict=True)}
        slots = max(1, sum(each.slots for each in executors.alive))
        best: tuple[int, Anchors] | None = None
        for _ in range(ATTEMPTS):
            anchors = Anchors.made(self._spark, workers, slots)
            executor_of = anchors.executor_of
            too_many = sum(max(0, executor_of.count(each) - shares.get(each, 0)) for each in set(executor_of))
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
        """Record where workers ran; workers lost in the meantime are found by where they ran before."""
        self._alive_ids()
        self._executor_of = dict(executors)

    def topology(self, workers: int) -> Topology:
        """One node for every executor that a worker ran on."""
        executors = [self._executor_of.get(worker, "") for worker in range(workers)]
        nodes = {executor: node for node, executor in enumerate(sorted(set(executors)))}
        return Topology(tuple(nodes[executor] for executor in executors))

    def lost(self) -> list[WorkersLost]:
        """The workers whose executors were lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def close(self) -> None:
        """Remove the anchors."""
        if self._anchors is not None:
            self._anchors.remove()
            self._anchors, self.worker_of = None, None

    def _alive_ids(self) -> tuple[str, ...]:
        """The ids of the live executors; records the workers of others as lost."""
        ids = self._roster.ids()
        self._ever.update(ids)
        workers_at: dict[str, list[int]] = defaultdict(list)
        for worker, executor in self._executor_of.items():
            workers_at[executor].append(worker)
        for executor in [each for each in workers_at if each in self._ever and each not in ids]:
            reason = f"executor {executor} is gone: {self._roster.why_gone(executor)}"
            self._lost.append(WorkersLost(tuple(sorted(workers_at[executor])), reason, at_s=time.time()))
            self._executor_of = {w: other for w, other in self._executor_of.items() if other != executor}
        return ids


def claimed(executor_of: Sequence[str], nearness: Mapping[tuple[int, str], float]) -> tuple[int, ...]:
    """The worker of each partition: in order of bytes, workers get partitions on the executors of their state.

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
    """The executor placement for a session."""
    roster = Roster(spark)
    return OneNode() if roster.is_local else ManyNodes(spark, roster)
