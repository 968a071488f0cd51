"""Records the rows that instances get: from which worker, in which order, and whether two workers overlap.

The rows carry a number `n`, which increases in each stream.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.runtimes.local.dataflow.lane_state import LaneState

SCHEMA = {"ts": "timestamp", "k": "int64", "n": "int64"}
KEYS = 5
Instance = tuple[int, int]
"""Numbers of a lane and of an instance in it."""


def numbered(rows: int) -> dict[str, list[dict[str, int]]]:
    """Two streams of numbered rows, a millisecond of event time apart."""
    return {s: [{"ts": n * 1000, "k": n * 7 % KEYS, "n": n} for n in range(rows)] for s in ("left", "right")}


def graph() -> Graph:
    """A window downstream of a join of two streams, and one over one of them."""
    left, right = (Stream(name, SCHEMA, time="ts") for name in ("left", "right"))
    others = right.select("ts", "k", m=col("n"))
    pairs = left.join(others, on="k", within_s=(-0.006, 0.006), groups=KEYS).select("k", "n", "m")
    met = (
        pairs.partition_by("k", groups=KEYS)
        .window(tumbling(0.005))
        .aggregate(met=count(), total=sum_("m"), ours=sum_("n"))
    )
    alone = left.partition_by("k", groups=KEYS).window(tumbling(0.005)).aggregate(rows=count(), total=sum_("n"))
    return Graph.of([met.sink("met"), alone.sink("alone")])


class Witness:
    """Observes every row that is added to a state."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.of_keys: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.overlaps: list[Instance] = []
        self.workers: dict[Instance, set[str]] = defaultdict(set)
        self._inside: dict[Instance, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe everything that runs inside."""
        add, advance = LaneState.add, LaneState.advance

        def observed_add(state: LaneState, port: int, block: Block, *, shared: bool) -> Block:
            if state.load is None:  # a replica, of which nothing is emitted
                return add(state, port, block, shared=shared)
            lane, name = state._lane.number, "n" if "n" in block.columns else "m"
            instances = block.columns[INSTANCE]
            with self._alone(lane, np.unique(instances).tolist()):
                for instance, number in zip(instances.tolist(), block.columns[name].tolist(), strict=True):
                    self.rows[lane, port, instance].append(number)
                    self.of_keys[lane, port, number * 7 % KEYS].append(number)
                return add(state, port, block, shared=shared)

        def observed_advance(state: LaneState, watermark_us: int) -> Block:
            if state.load is None:
                return advance(state, watermark_us)
            with self._alone(state._lane.number, np.flatnonzero(state.counts).tolist()):
                return advance(state, watermark_us)

        with patch.object(LaneState, "add", observed_add), patch.object(LaneState, "advance", observed_advance):
            yield

    @contextmanager
    def _alone(self, lane: int, instances: Sequence[int]) -> Iterator[None]:
        """Record an overlap if another worker uses these instances meanwhile."""
        with ExitStack() as stack:
            for instance in instances:
                self.workers[lane, instance].add(threading.current_thread().name)
                if self._inside[lane, instance].acquire(blocking=False):
                    stack.callback(self._inside[lane, instance].release)
                else:
                    self.overlaps.append((lane, instance))
            yield

    def assert_in_order(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Every row of a stream arrived once and in order at each lane that reads it."""
        self._assert_in_order(self.rows, len(rows["left"]))

    def assert_in_order_by_key(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """The same with splits and merges: in order within every key."""
        self._assert_in_order(self.of_keys, len(rows["left"]))

    def _assert_in_order(self, observed: Mapping[tuple[int, int, int], list[int]], rows: int) -> None:
        assert self.overlaps == []
        of_streams = [numbers for numbers in _by_input(observed).values() if _is_whole(numbers, rows)]
        assert len(of_streams) == 3  # both inputs of the join, and the window beside it
        for instances in of_streams:
            assert all(numbers == sorted(numbers) for numbers in instances.values())


def _by_input(observed: Mapping[tuple[int, int, int], list[int]]) -> dict[tuple[int, int], dict[int, list[int]]]:
    found: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    for (lane, port, instance), numbers in observed.items():
        found[lane, port][instance] = numbers
    return found


def _is_whole(instances: Mapping[int, list[int]], rows: int) -> bool:
    """Whether all rows of a stream arrived, each once."""
    return sorted(number for numbers in instances.values() for number in numbers) == list(range(rows))
