"""Slots: which instance of a lane has which keys, in a form that changes while everything goes on.

Rows come to a split labelled with declared instances, whatever was split or merged. A division says which instance has
each slot of each declared one; it is published with the owners. Instances are numbers here: those of a lane's declared
instances, and some more that are given to instances when they are split off and come free when they are merged.
"""

from dataclasses import dataclass

import numpy as np

from shoal.compiler.division import Division, Ints, partition_positions
from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.model.control.partitioning import SLOTS

ROOM = 64
"""Instances that a lane may have beside the declared ones; a quarter of these, where that is more."""


@dataclass(eq=False)
class Slots:
    """What is known of the numbers of a lane with so many declared instances.

    `declared[n]` is the declared instance whose number results of instance n carry; it is written before number n is
    given to an instance. `partition` is that of a `Division`. `divided` says whether anything was ever split or
    merged.
    """

    declared: Ints
    groups: int
    partition: tuple[int, ...] = ()
    divided: bool = False

    @classmethod
    def of(cls, lane: Lane) -> "Slots":
        """The slots of a lane as declared, with room for more instances."""
        size = len(lane.instances)
        declared = np.zeros(size + max(ROOM, size // 4), np.int64)
        declared[:size] = np.arange(size)
        return cls(declared, size, partition_positions(lane))

    def table(self, division: Division | None) -> Ints:
        """The instance of every slot of every declared instance; only to be read."""
        if division is not None:
            return division.numbers
        return np.repeat(np.arange(self.groups), SLOTS).reshape(self.groups, SLOTS)

    def after(self, division: Division | None, cells: Ints, numbers: Ints) -> Division:
        """A division once some cells of its table, counted row by row, have other numbers."""
        changed = self.table(division).copy()
        changed.reshape(-1)[cells] = numbers
        return Division(changed, self.declared, self.partition)

    def labelled(self, rows: Block) -> Block:
        """Rows under the numbers of declared instances, by which everything outside of the lane knows them."""
        if not self.divided or not rows.length:
            return rows
        return Block({**rows.columns, INSTANCE: self.declared[rows.columns[INSTANCE]]}, rows.length)
