"""Executors: the processes of a Spark application that run tasks, and their numbers of slots."""

import re
import socket
from dataclasses import dataclass
from functools import cache
from typing import Any

import psutil
from pyspark.sql import SparkSession

from shoal.model.control.topology import Topology

ID_OPTION = "--executor-id"
"""The option with which every cluster manager passes its id to an executor."""


@dataclass(frozen=True)
class Executor:
    """One executor: its id in the application, its host, and how many tasks it runs at a time."""

    id: str
    host: str
    slots: int


@dataclass(frozen=True)
class Executors:
    """The live executors, in the order of their ids."""

    alive: tuple[Executor, ...]

    def dealt(self, workers: int) -> Topology:
        """The nodes of workers if each executor gets a number in proportion to its slots.

        >>> large, small = Executor("0", "a", 4), Executor("1", "b", 2)
        >>> Executors((large, small)).dealt(6).node_of
        (0, 0, 0, 0, 1, 1)
        >>> Executors((large, small)).dealt(1).node_of
        (0,)
        """
        shares = self.shares(workers)
        used = [number for number in shares if number]
        return Topology(tuple(node for node, number in enumerate(used or [workers]) for _ in range(number)))

    def shares(self, workers: int) -> tuple[int, ...]:
        """The number of workers of each executor."""
        shares = [0] * len(self.alive)
        for _ in range(workers if self.alive else 0):
            shares[min(range(len(shares)), key=lambda at: ((shares[at] + 1) / self.alive[at].slots, at))] += 1
        return tuple(shares)


class Roster:
    """The executors of a session, read through its JVM."""

    def __init__(self, spark: SparkSession) -> None:
        """Remember the session; nothing is read yet."""
        self._context = spark.sparkContext
        self._scala: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001  (PySpark has no API for executors)
        self.is_local = bool(self._scala.isLocal())

    def ids(self) -> tuple[str, ...]:
        """The ids of the live executors; cheap enough for every epoch."""
        if self.is_local:
            return ("driver",)
        return tuple(sorted(filter(None, self._scala.getExecutorIds().mkString(",").split(",")), key=_in_order))

    def read(self) -> Executors:
        """All live executors."""
        if self.is_local:
            return Executors((Executor("driver", "localhost", self._context.defaultParallelism),))
        alive = set(self.ids())
        found = [
            Executor(str(reported.id()), str(reported.hostPort()).rpartition(":")[0], max(1, int(reported.maxTasks())))
            for reported in self._reported()
            if str(reported.id()) in alive
        ]
        return Executors(tuple(sorted(found, key=lambda executor: _in_order(executor.id))))

    def why_gone(self, executor: str) -> str:
        """Spark's reason for the loss of an executor."""
        for reported in self._reported():
            if str(reported.id()) == executor and reported.removeReason().isDefined():
                return " ".join(str(reported.removeReason().get()).split())
        return "Spark gives no reason"

    def _reported(self) -> list[Any]:
        reported = self._scala.statusStore().executorList(False)
        return [reported.apply(number) for number in range(reported.size())]


def dealt(spark: SparkSession, workers: int) -> Topology:
    """The expected nodes of workers before any has run: one per executor, a single one in local mode."""
    return Roster(spark).read().dealt(workers)


@cache
def here() -> str:
    """The id of the executor of this process; in local mode, without executors, the host's name."""
    for ancestor in psutil.Process().parents():
        try:
            command = ancestor.cmdline()
        except psutil.Error:  # a parent may belong to another user, or have exited
            continue
        if ID_OPTION in command[:-1]:
            return command[command.index(ID_OPTION) + 1]
    return socket.gethostname()


def _in_order(executor: str) -> tuple[int, str]:
    """Sort key of an id; ids are usually numbers."""
    return (int(executor) if re.fullmatch(r"\d+", executor) else -1, executor)
