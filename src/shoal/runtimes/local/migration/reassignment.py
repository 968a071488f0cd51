"""Reassignments: a part of a lane gives the keys of some of its instances to others while the run goes on.

1. Gather. All instances concerned settle at one worker, so that they have the same watermark. Its part requests those
   that are elsewhere and keeps those that it has.
2. Relabel. In one turn the part relabels their state by key and publishes the new table of slots, with itself as the
   owner of the new instances. Splits use the old or the new table; either way the rows come to this part.
3. Settle. Rows in flight carry old labels; the part relabels them by key when they arrive. Every split acknowledges the
   new table in its channels. After the last acknowledgement no row has an old label: the reassignment is settled, its
   instances may move, and the numbers it no longer uses are free.
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
from shoal.runtimes.local.dataflow.load import LaneLoad
from shoal.runtimes.local.migration.ownership import Ownership


@dataclass(eq=False)
class Reassignment:
    """Give the keys of some instances of an operator to others.

    `cells` are the positions in the table of slots, row by row, that hold an instance of `before`; `numbers` are the
    instances of `after` that they are to hold. `declared` is the first declared instance of the operator. `assigned` is
    set by the caller of `MovingLane.reassign`, `settled` by the part when no row carries an old label.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    cells: Ints
    numbers: Ints
    declared: int
    assigned: bool = False
    settled: bool = False


@dataclass
class Unsettled:
    """A reassignment whose version of the ownership some splits may not have read."""

    order: Reassignment
    division: Division
    version: int
    old: "Ints" = field(init=False)

    def __post_init__(self) -> None:
        """Collect the labels that rows in flight may carry."""
        self.old = np.array(self.order.before, np.int64)


class Reassigner:
    """The reassignments of one part; called by the worker that runs it, but any thread may append to `queue`."""

    def __init__(self, kernel: Kernel, ownership: Ownership, home: int, unused: Collection[int]) -> None:
        """Nothing is queued; `unused` are the numbers of this part that no instance has."""
        self._kernel = kernel
        self._ownership = ownership
        self._home = home
        self.queue: deque[Reassignment] = deque()
        self.unused = set(unused)
        self._pending: list[Reassignment] = []
        self._unsettled: list[Unsettled] = []

    @property
    def busy(self) -> bool:
        """Whether a reassignment is not settled."""
        return bool(self.queue or self._pending or self._unsettled)

    def received(self) -> set[int]:
        """Receive what is queued; returns the instances that wait to be reassigned. Called before `advance`."""
        while self.queue:
            self._pending.append(self.queue.popleft())
        return {number for order in self._pending for number in order.before}

    @property
    def kept(self) -> set[int]:
        """The instances that must not be given away now."""
        pending = (number for order in self._pending for number in order.before)
        unsettled = (number for each in self._unsettled for number in (*each.order.before, *each.order.after))
        return {*pending, *unsettled}

    def advance(self, state: LaneState, own: set[int], observed: Sequence[int]) -> list[int]:
        """Settle and apply what was received; returns the instances to request. Called in every turn while `busy`.

        `own` are the instances settled here; it is updated. `observed` is the version read from every input.
        """
        self._settle(min(observed))
        self._carry_out([order for order in self._pending if own.issuperset(order.before)], state, own)
        waiting = [number for order in self._pending for number in order.before]
        return [number for number in waiting if self._ownership.owner[number] != self._home]

    def _settle(self, version: int) -> None:
        """Settle what every split has acknowledged."""
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

    def relabel(self, port: int, block: Block, load: LaneLoad) -> Block:
        """A block of an input with its rows labelled by the instances that have them now."""
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
