"""Samples: instances that are advanced alone once in a while, to measure their time.

A lane advances all of its instances at once, which is fast but does not show what each of them costs. That does not
follow from its rows alone: a join tests pairs, a pattern runs of rows. So if a lane takes long enough that sampling is
cheap, a few of its instances are advanced one by one: those with many rows and those not measured for long come first.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.parts import split_tables
from shoal.kernels.columns.table import Ints, Tables
from shoal.kernels.kernel import concat_blocks

LEAST_S = 0.02
"""Lanes that take less are not sampled."""
ALONE_S = 0.00025
"""The extra time of advancing an instance alone."""
SHARE = 0.05
"""The share of a lane's time that sampling may cost."""
MOST = 64
"""The most instances that are sampled at a time."""
NEVER = -(1 << 30)


@dataclass(frozen=True)
class Advanced:
    """A lane's new state and results, the time of the merged instances, and the times of those that were alone."""

    tables: Tables
    results: Block
    merged_s: float
    alone_s: dict[int, float]


@dataclass
class Sampler:
    """Remembers the time per row of each lane in this process, and when each instance was last sampled."""

    clock: Callable[[], float] = time.perf_counter
    _row_s: dict[tuple[str, int], float] = field(default_factory=dict)
    _alone_at: dict[tuple[str, int], Ints] = field(default_factory=dict)

    def chosen(self, graph: str, lane: Lane, work: Ints, epoch: int) -> list[int]:
        """The instances to advance alone, given the rows of each; none if the lane is fast or not measured yet."""
        key = (graph, lane.number)
        expected_s = self._row_s.get(key, 0.0) * float(work.sum())
        busy = np.flatnonzero(work)
        if expected_s < LEAST_S or busy.size < 2:
            return []
        number = min(MOST, int(expected_s * SHARE / ALONE_S), int(busy.size))
        alone_at = self._alone_at.get(key)
        if alone_at is None or alone_at.size != work.size:  # instances have been split or merged since
            alone_at = self._alone_at[key] = np.full(work.size, NEVER, np.int64)
        urgency = work[busy].astype(float) * (epoch - alone_at[busy])
        first = busy[np.argsort(-urgency, kind="stable")[:number]]
        alone_at[first] = epoch
        return [int(number) for number in first]

    def learn(self, graph: str, lane: Lane, work: Ints, spent_s: float) -> None:
        """Record the time of a lane."""
        self._row_s[graph, lane.number] = spent_s / max(1, int(work.sum()))

    def advanced(
        self, lane: Lane, state: Tables, fresh: Tables, marks_us: tuple[int, int], alone: Sequence[int]
    ) -> Advanced:
        """Advance some instances alone and the others merged; state and results are the same as for all merged."""
        group_of = np.zeros(len(lane.instances), np.int16)
        group_of[list(alone)] = np.arange(1, len(alone) + 1)
        groups = len(alone) + 1
        parts = [(state, fresh)]
        if alone:
            parts = list(zip(*(split_tables(tables, group_of, groups) for tables in (state, fresh)), strict=True))
        found, spent_s = [], []
        for before, new in parts:
            began = self.clock()
            found.append(lane.advanced(before, new, *marks_us))
            spent_s.append(self.clock() - began)
        tables, results = found[0]
        if alone and lane.kernel is not None:
            tables = lane.kernel.concatenated([each for each, _ in found])
            given = [block for _, block in found if block.length]
            results = concat_blocks(given) if given else results
        return Advanced(tables, results, spent_s[0], dict(zip(alone, spent_s[1:], strict=True)))


@lru_cache(maxsize=4)
def open_sampler(checkpoint: str) -> Sampler:  # noqa: ARG001  (one for each run)
    """The sampler of a run in this process."""
    return Sampler()
