"""Anchors: what keeps a worker on its executor from epoch to epoch.

Spark runs the tasks of a stage on any free slot, in random order of executors. One preference is available to a
DataFrame: a task that reads a cached partition goes to the executor that holds it. So every worker has an anchor, a
cached partition with one row, and the worker's input is joined with it. Results do not depend on where an anchor is;
Spark recomputes a lost one on another executor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shoal.runtimes.spark.cluster.executors import here
from shoal.runtimes.spark.tasks.wire import SCHEMA

KEY, EXECUTOR = "anchor", "executor"
_HELD = f"{KEY} int, {EXECUTOR} string"
_SEED, _BITS = 42, 0xFFFFFFFF


@dataclass(frozen=True)
class Anchors:
    """A cached partition for each worker, and the executor that holds it."""

    frame: DataFrame
    executor_of: tuple[str, ...]

    @classmethod
    def made(cls, spark: SparkSession, workers: int, slots: int) -> "Anchors":
        """Make anchors for `workers` workers on executors with `slots` slots in total; Spark decides where.

        They are made in waves of one per slot. Spark gives the tasks of a wave to all free slots in one round, so each
        slot makes one. In a single job, a slot that finishes first would also make the next.
        """
        keys = partition_keys(workers)
        rows = spark.createDataFrame([(key,) for key in keys], f"{KEY} int")
        frame = rows.repartition(workers, KEY).persist()
        made, found = frame.mapInArrow(_held, _HELD).rdd, {}
        for first in range(0, workers, slots):
            held = spark.sparkContext.runJob(made, list, range(first, min(workers, first + slots)))
            found.update({row[KEY]: row[EXECUTOR] for row in held})
        return cls(frame, tuple(found[key] for key in keys))

    def remove(self) -> None:
        """Remove the cached partitions."""
        self.frame.unpersist()

    def exchanged(self, rows: DataFrame, partition_of: Sequence[int]) -> DataFrame:
        """Wire rows at their workers' anchors, with a column for the anchor's key."""
        keys = partition_keys(len(self.executor_of))
        anchor_keys = ", ".join(str(keys[partition]) for partition in partition_of)
        placed = rows.selectExpr(*SCHEMA.names, f"element_at(array({anchor_keys}), worker + 1) {KEY}")
        return placed.repartition(len(keys), KEY).join(self._hinted, KEY, "left_semi")

    @cached_property
    def _hinted(self) -> DataFrame:
        """The anchors as the hashed side of a join, which avoids a sort and a broadcast."""
        return self.frame.hint("shuffle_hash")


@lru_cache
def partition_keys(partitions: int) -> tuple[int, ...]:
    """For each partition the smallest number that Spark's hash partitioning assigns to it."""
    found: dict[int, int] = {}
    for key in count():
        found.setdefault(spark_hash(key) % partitions, key)
        if len(found) == partitions:
            return tuple(found[partition] for partition in range(partitions))
    raise AssertionError


def spark_hash(value: int) -> int:
    """Spark's `hash` of an integer: Murmur3 of its four bytes.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    mixed = _rotated(value * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _BITS) ^ 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _BITS
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _BITS
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _BITS


def _held(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the executor on which an anchor is made."""
    for batch in rows:
        yield pa.RecordBatch.from_arrays([batch.column(0), pa.array([here()] * batch.num_rows)], [KEY, EXECUTOR])
