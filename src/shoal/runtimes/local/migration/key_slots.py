"""Slots: which instance of a lane has which keys, in a form that can change while the run goes on.

Rows arrive at a split labelled with declared instances. A division maps each slot of each declared instance to an
instance; it is published with the owners. Instances are numbers here: those of the declared instances of a lane, and
some more, which are used for new instances and become free when instances are merged.
"""

from dataclasses import dataclass

import numpy as np

from shoal.compiler.division import Division, Ints, declared_cells, partition_positions
from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.model.control.partitioning import SLOTS

ROOM = 64
"""Instances that a lane may have beside the declared ones, or a quarter of their number if that is more."""


@dataclass(eq=False)
class Slots:
    """The numbers of a lane that has `groups` declared instances.

    `declared[n]` is the declared instance whose number results of instance n carry; it is written before number n is
    used. `partition` is that of a `Division`. `divided` says whether anything was ever split or merged.
    """

    declared: Ints
    groups: int
    partition: tuple[int, ...] = ()
    divided: bool = False
    cells: Ints | None = None
    """The declared instance of every cell, if the lane goes by cells."""

    @classmethod
    def of(cls, lane: Lane) -> "Slots":
        """The slots of a lane as declared, with unused numbers."""
        size = len(lane.instances)
        declared = np.zeros(size + max(ROOM, size // 4), np.int64)
        declared[:size] = np.arange(size)
        return cls(declared, size, partition_positions(lane), cells=declared_cells(lane))

    def table(self, division: Division | None) -> Ints:
        """The instance of every slot of every declared instance; read-only."""
        if division is not None:
            return division.numbers
        if self.cells is not None:
            return self.cells.reshape(1, -1)
        return np.repeat(np.arange(self.groups), SLOTS).reshape(self.groups, SLOTS)

    def after(self, division: Division | None, cells: Ints, numbers: Ints) -> Division:
        """A division with other numbers in some cells of its table, which are counted row by row."""
        changed = self.table(division).copy()
        changed.reshape(-1)[cells] = numbers
        return Division(changed, self.declared, self.partition, by_cell=self.cells is not None)

    def labelled(self, rows: Block) -> Block:
        """Rows labelled with declared instances, as everything downstream expects them."""
        if not self.divided or not rows.length:
            return rows
        return Block({**rows.columns, INSTANCE: self.declared[rows.columns[INSTANCE]]}, rows.length)
