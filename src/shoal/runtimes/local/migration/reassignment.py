"""Reassignments: one part of a lane gives the keys of some of its instances to others, while everything goes on.

1. All instances concerned are with one worker, settled there, so that they are equally far in event time. The part
   asks for those that are elsewhere and keeps those that it has.
2. In one of its turns the part relabels their state by key and publishes the new table of slots together with itself
   as the owner of the new instances. Splits go by the old or by the new table; the rows of both come to this part.
3. Rows that were on their way carry old labels and are relabelled by key when they arrive. Every split says in its
   channel when it goes by the new table. When all have, no row has an old label any more: the reassignment is
   settled, its instances may move, and numbers that it did not use again are free.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.compiler.division import Division, Ints
from shoal.kernels.columns.block import Block, take
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import Kernel
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.dataflow.load import Load
from shoal.runtimes.local.migration.ownership import Ownership


@dataclass(eq=False)
class Reassignment:
    """The keys of some instances of one operator are to be those of others.

    `cells` are the places in the table of slots that hold `before`, counted row by row, and `numbers` what they are to
    hold, all of which are in `after`. `declared` is the first declared instance of the operator. `given` is written by
    who gives it to a part, `settled` by the part when no row carries an old label any more.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    cells: Ints
    numbers: Ints
    declared: int
    given: bool = False
    settled: bool = False


@dataclass
class Unsettled:
    """A reassignment that was carried out with a change of owners that some splits may not have seen."""

    order: Reassignment
    division: Division
    version: int
    old: "Ints" = field(init=False)

    def __post_init__(self) -> None:
        """The labels that rows on their way may carry."""
        self.old = np.array(self.order.before, np.int64)


class Reassigner:
    """The reassignments of one part: who runs the part calls everything but `asked.append`, which anybody may."""

    def __init__(self, kernel: Kernel, ownership: Ownership, home: int, unused: Collection[int]) -> None:
        """Nothing was asked for; `unused` are the numbers of this part that no instance has."""
        self._kernel = kernel
        self._ownership = ownership
        self._home = home
        self.asked: deque[Reassignment] = deque()
        self.unused = set(unused)
        self._pending: list[Reassignment] = []
        self._unsettled: list[Unsettled] = []

    @property
    def busy(self) -> bool:
        """Whether anything is not yet settled."""
        return bool(self.asked or self._pending or self._unsettled)

    @property
    def kept(self) -> set[int]:
        """The instances that may not be given away now."""
        pending = (number for order in self._pending for number in order.before)
        unsettled = (number for each in self._unsettled for number in (*each.order.before, *each.order.after))
        return {*pending, *unsettled}

    def go_on(self, state: LaneState, own: set[int], seen: Sequence[int]) -> list[int]:
        """Settle and carry out what can be; returns instances that are to be asked for.

        `own`: those that are settled here. `seen`: the change of owners that the split of every input has seen.
        """
        while self.asked:
            self._pending.append(self.asked.popleft())
        self._settle(min(seen))
        self._carry_out([order for order in self._pending if own.issuperset(order.before)], state, own)
        waiting = [number for order in self._pending for number in order.before]
        return [number for number in waiting if self._ownership.owner[number] != self._home]

    def _settle(self, version: int) -> None:
        """Splits go by a table that is as new as a version."""
        for each in self._unsettled:
            each.order.settled = version >= each.version
        self._unsettled = [each for each in self._unsettled if version < each.version]

    def _carry_out(self, ready: Sequence[Reassignment], state: LaneState, own: set[int]) -> None:
        ownership = self._ownership
        for order in ready:
            self._pending.remove(order)
            division = ownership.slots.after(ownership.now.division, order.cells, order.numbers)
            state.relabel(order.before, division, order.declared)
            own.difference_update(order.before)
            own.update(order.after)
            self.unused.update(order.before)
            self.unused.difference_update(order.after)
            version = ownership.reassign(self._home, order.cells, order.numbers)
            self._unsettled.append(Unsettled(order, division, version))

    def arriving(self, port: int, block: Block, load: Load) -> Block:
        """A block under the instances that have its rows now."""
        for each in self._unsettled:
            labels = block.columns[INSTANCE]
            rows = np.flatnonzero(np.isin(labels, each.old))
            if rows.size:
                keys = [take(block.columns[name], rows) for name in self._kernel.keys(port)]
                numbers = labels.copy()
                numbers[rows] = each.division.by_keys(keys, rows.size, each.order.declared)
                load.relabel(labels[rows], numbers[rows])
                block = Block({**block.columns, INSTANCE: numbers}, block.length)
        return block
