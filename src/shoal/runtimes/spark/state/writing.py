"""State writing: which state a worker writes at the end of a round, and for which workers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.lane import Lane
from shoal.kernels.columns.table import Ints, Tables
from shoal.model.query.graph import InstanceId
from shoal.runtimes.spark.state.segment import SegmentPart, parts_of
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.tasks.reports import SegmentWritten

OLDEST_EPOCHS = 32
"""The age in epochs at which unchanged state is written again, so that few segments stay alive."""
REWRITE_BYTES = 8 << 20
"""The most unchanged state that a worker writes again in a round, so that no epoch pays for all of it."""
Mask = NDArray[np.bool_]


@dataclass
class StateWriter:
    """Writes changed state at once, and unchanged state in old segments gradually.

    `parts`: what to write, by the worker that has the instances in the next epoch.
    """

    epoch: int
    left_bytes: int = REWRITE_BYTES
    parts: dict[int, list[SegmentPart]] = field(default_factory=lambda: defaultdict(list))
    gone: list[InstanceId] = field(default_factory=list)

    def keep(
        self,
        lane: Lane,
        tables: Tables,
        state_bytes: Ints,
        touched: Mask,
        origins: Mapping[InstanceId, int],
        next_worker: Sequence[int],
    ) -> Mask:
        """Collect a lane's state for writing; returns which instances are included. Those without state are `gone`."""
        held = state_bytes > 0
        written = held & touched
        written[self._rewritten(lane, state_bytes, held & ~touched, origins)] = True
        owners = np.asarray(next_worker, np.int64)
        for owner in np.unique(owners[written]).tolist():
            self.parts[owner] += parts_of(lane.instances, tables, np.flatnonzero(written & (owners == owner)))
        self.gone += [lane.instances[n] for n in np.flatnonzero(~held).tolist() if lane.instances[n] in origins]
        return written

    def _rewritten(self, lane: Lane, state_bytes: Ints, quiet: Mask, origins: Mapping[InstanceId, int]) -> list[int]:
        """Unchanged instances to write again, oldest first; the last one may exceed the budget."""
        too_old = self.epoch - OLDEST_EPOCHS
        ages = {n: origins.get(lane.instances[n], self.epoch) for n in np.flatnonzero(quiet).tolist()}
        chosen: list[int] = []
        for number in sorted((n for n, written in ages.items() if written < too_old), key=ages.__getitem__):
            if self.left_bytes <= 0:
                break
            self.left_bytes -= int(state_bytes[number])
            chosen.append(number)
        return chosen

    def write(self, store: StateStore) -> tuple[SegmentWritten, ...]:
        """Write one segment per worker."""
        done = []
        for owner, parts in self.parts.items():
            name, size = store.write(self.epoch, owner, parts)
            instances = dict.fromkeys(instance for part in parts for instance in part.instances)
            done.append(SegmentWritten(name, size, tuple(instances)))
        return tuple(done)
