"""The work of an epoch, before anything is said about time: what every reading task and every instance does."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.program import Program
from shoal.connectors.sources.source import Slice, Source
from shoal.kernels.columns.effort import Effort
from shoal.model.control.shedding import NO_SHEDDING, StreamShedding
from shoal.runtimes.simulated.input.merges import EffortEpoch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SliceWork:
    """One reading task: rows of a stream, and the bytes that it sends to every instance."""

    stream: str
    rows: int
    sent_bytes: Floats


@dataclass(frozen=True, eq=False)
class EpochWork:
    """All tasks of an epoch. Arrays have an entry for every instance, in the order of `Program.instances`.

    `onward_bytes`: what instances get from other instances in the epoch. `state_bytes`: the size of their state
    afterwards. `results`: the rows that they emit, also to other operators; `written`: those of every result table.
    `due_s`: when the first and the last of the rows were due. `effort`: what instances do beside, where it is counted.
    """

    slices: tuple[SliceWork, ...]
    onward_bytes: Floats
    events: Ints
    results: Ints
    state_bytes: Floats
    written: Mapping[str, int] = field(default_factory=dict)
    written_bytes: int = 0
    due_s: tuple[float, float] = (0.0, 0.0)
    effort: Effort | None = None

    @property
    def rows(self) -> int:
        """All rows that are read."""
        return sum(each.rows for each in self.slices)

    @property
    def received_bytes(self) -> Floats:
        """What every instance receives, from reading tasks and from other instances."""
        found: Floats = self.onward_bytes + sum(each.sent_bytes for each in self.slices)
        return found

    @property
    def carried_bytes(self) -> Floats:
        """What workers unpack and write for every instance: what it receives, and its state if it has changed."""
        changed = (self.events > 0) | (self.results > 0)
        return self.received_bytes + np.where(changed, self.state_bytes, 0.0)


class SlicedEpoch(EffortEpoch):
    """An interpreted epoch that is read in as many slices as Spark would, and that counts the bytes of each."""

    def __init__(
        self,
        program: Program,
        marks: Mapping[str, int],
        now_us: int,
        wall_us: int,
        parallelism: int = 1,
        shedding: Mapping[str, StreamShedding] = NO_SHEDDING,
    ) -> None:
        """Nothing read yet."""
        super().__init__(program, marks, now_us, wall_us, shedding)
        self.parallelism = parallelism
        self.slices: list[SliceWork] = []

    def work(self, due_s: tuple[float, float], counts: tuple[Ints, Ints, Floats]) -> EpochWork:
        """The work, once it was computed; `counts` are events, results and bytes of state of every instance."""
        everything = self._arrived({})
        onward = everything - sum((each.sent_bytes for each in self.slices), np.zeros(len(everything)))
        written = {table: sum(batch.num_rows for batch in batches) for table, batches in self.results.items()}
        size = sum(batch.nbytes for batches in self.results.values() for batch in batches)
        return EpochWork(tuple(self.slices), np.maximum(onward, 0.0), *counts, written, size, due_s, self.effort)

    def _slice(self, stream: str, source: Source, piece: Slice) -> int:
        before, rows = {lane: len(tables) for lane, tables in self._fresh.items()}, self.rows
        newest_us = super()._slice(stream, source, piece)
        self.slices.append(SliceWork(stream, self.rows - rows, self._arrived(before)))
        return newest_us

    def _arrived(self, before: Mapping[int, int]) -> Floats:
        """Bytes for every instance in what has arrived at lanes since they had so many tables."""
        found = np.zeros(len(self._program.instances))
        for number, arrived in self._fresh.items():
            size = len(self._program.lanes[number].instances)
            first = self._program.first_instances[number]
            for tables in arrived[before.get(number, 0) :]:
                for table in tables.values():
                    rows = np.bincount(table.instance, minlength=size)
                    found[first : first + size] += rows * (table.nbytes / max(1, len(table)))
        return found
