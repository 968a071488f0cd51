"""Samples: instances that are worked on alone for once, so that their time can be told from that of the others.

A lane works on all of its instances together, which is fast and says nothing about each. What an instance costs does
not follow from its rows alone: a join looks at pairs, a pattern at runs. So where a lane takes long enough for it not
to matter, a few of its instances, the heavy and the long unmeasured first, are taken out and advanced one by one.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.parts import parted
from shoal.kernels.columns.table import Ints, Tables
from shoal.kernels.kernel import concat_blocks

LEAST_S = 0.02
"""A lane that takes less is not worth taking apart."""
ALONE_S = 0.00025
"""What an instance costs more when it is advanced alone."""
SHARE = 0.05
"""Part of a lane's time that taking it apart may cost."""
MOST = 64
"""Instances that are taken out of a lane at a time."""
NEVER = -(1 << 30)


@dataclass(frozen=True)
class Advanced:
    """A lane's new state and answers, the time it took, and the times of the instances that were alone."""

    tables: Tables
    answers: Block
    together_s: float
    alone_s: dict[int, float]


@dataclass
class Sampler:
    """Remembers how fast each lane was in this process, and when each of its instances was alone."""

    clock: Callable[[], float] = time.perf_counter
    _pace_s: dict[tuple[str, int], float] = field(default_factory=dict)
    _alone_at: dict[tuple[str, int], Ints] = field(default_factory=dict)

    def chosen(self, graph: str, lane: Lane, work: Ints, epoch: int) -> list[int]:
        """The instances to advance alone, given the rows that each has: none where the lane is quick or unknown."""
        key = (graph, lane.number)
        expected_s = self._pace_s.get(key, 0.0) * float(work.sum())
        busy = np.flatnonzero(work)
        if expected_s < LEAST_S or busy.size < 2:
            return []
        number = min(MOST, int(expected_s * SHARE / ALONE_S), int(busy.size))
        seen = self._alone_at.get(key)
        if seen is None or seen.size != work.size:  # instances have been split or merged since
            seen = self._alone_at[key] = np.full(work.size, NEVER, np.int64)
        urgency = work[busy].astype(float) * (epoch - seen[busy])
        first = busy[np.argsort(-urgency, kind="stable")[:number]]
        seen[first] = epoch
        return [int(place) for place in first]

    def learn(self, graph: str, lane: Lane, work: Ints, spent_s: float) -> None:
        """Take note of a lane's time."""
        self._pace_s[graph, lane.number] = spent_s / max(1, int(work.sum()))

    def advanced(
        self, lane: Lane, state: Tables, fresh: Tables, marks_us: tuple[int, int], alone: Sequence[int]
    ) -> Advanced:
        """Advance some instances alone and the others together; the outcome is the same as for all together."""
        group_of = np.zeros(len(lane.instances), np.int16)
        group_of[list(alone)] = np.arange(1, len(alone) + 1)
        groups = len(alone) + 1
        parts = [(state, fresh)]
        if alone:
            parts = list(zip(*(parted(tables, group_of, groups) for tables in (state, fresh)), strict=True))
        found, spent_s = [], []
        for before, new in parts:
            began = self.clock()
            found.append(lane.advanced(before, new, *marks_us))
            spent_s.append(self.clock() - began)
        tables, answers = found[0]
        if alone and lane.kernel is not None:
            tables = lane.kernel.concatenated([each for each, _ in found])
            given = [block for _, block in found if block.length]
            answers = concat_blocks(given) if given else answers
        return Advanced(tables, answers, spent_s[0], dict(zip(alone, spent_s[1:], strict=True)))


@lru_cache(maxsize=4)
def open_sampler(checkpoint: str) -> Sampler:  # noqa: ARG001  (one for each run)
    """The process's sampler for a run."""
    return Sampler()
