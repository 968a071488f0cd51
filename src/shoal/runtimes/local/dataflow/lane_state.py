"""The state of a lane, or of some of its instances, on one worker: tables, a watermark and rows not merged yet."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.compiler.division import Division
from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.merge_bound import rows_that_may_wait
from shoal.kernels.columns.parts import split_tables
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import NEVER_US, Kernel
from shoal.runtimes.local.dataflow.load import Ints, LaneLoad, per_instance
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.dataflow.parking import LaneGuard
from shoal.runtimes.local.migration.key_slots import Slots

SINGLY = 31
"""After a block whose keys hardly repeat, so many blocks are not grouped before the merge."""


class StateMerge(NamedTuple):
    """A merge of new rows into the state: their number and that of their events, and by instance new and old rows."""

    rows: int
    events: int
    fresh: Ints
    kept: Ints


class LaneState:
    """Tables of state, `fresh` tables that are not merged into them yet, and a watermark.

    Fresh rows are merged when results are due, or when as many wait as the state has or as a few blocks bring. In
    between, the cost of a block does not depend on the size of the state. With a load, rows are counted by instance.
    `merge` is the last merge.
    """

    def __init__(
        self,
        lane: Lane,
        watermark_us: int = NEVER_US,
        load: LaneLoad | None = None,
        slots: Slots | None = None,
        guard: LaneGuard | None = None,
    ) -> None:
        """No state yet; `slots` is set if instances of the lane may be split and merged."""
        if lane.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        self._lane = lane
        self._guard = guard or LaneGuard(lane)
        self.kernel: Kernel = lane.kernel
        self.tables: Tables = {}
        self.fresh: list[Tables] = []
        self.fresh_rows = 0
        self._fresh_events = 0
        self._may_wait = rows_that_may_wait(0)
        self._singly = 0
        self.watermark_us = watermark_us
        self.load = load
        self._slots = slots
        self._size = len(lane.instances) if slots is None else slots.declared.size
        self._counted: tuple[Tables | None, Ints] = (None, self._none())
        self.fresh_counts = self._none()
        self.merge: StateMerge | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the state and of the fresh rows."""
        return sum(table.nbytes for tables in (self.tables, *list(self.fresh)) for table in list(tables.values()))

    @property
    def counts(self) -> Ints:
        """Rows of every instance, fresh ones included."""
        return self.kept_counts() + self.fresh_counts

    def add(self, port: int, block: Block, *, shared: bool) -> Block:
        """Add rows; returns the late ones. `shared`: they lie in memory that will be reused."""
        if self.load is not None:
            self.load.take(block.columns[INSTANCE])
        if self._guard.parked:
            return EMPTY
        late = self.kernel.late(port, block, self.watermark_us)
        refused = EMPTY
        if late.any():
            refused = block.take(np.flatnonzero(late))
            block = block.where(~late)
        try:
            lifted = self._lifted(port, block)
        except Exception as error:  # noqa: BLE001  (raised again unless the queries of the lane are parked)
            self._guard.failed(error, port, block)
            return EMPTY
        if shared:
            lifted = {number: table.owned() for number, table in lifted.items()}
        self.fresh.append(lifted)
        added = _rows(lifted)
        self.fresh_rows += added
        self._may_wait = rows_that_may_wait(added)
        self._fresh_events += block.length
        if self.load is not None:
            per_instance(lifted, self.fresh_counts)
            if self.load.places is not None:
                self.load.places.add(self.kernel, lifted)
        return refused

    def _lifted(self, port: int, block: Block) -> Tables:
        """Lift rows: grouped by key, unless keys have hardly repeated within a block; the merge groups them anyway."""
        if self._singly:
            self._singly -= 1
            return self.kernel.lift_singly(port, block)
        lifted = self.kernel.lift(port, block)
        if 2 * _rows(lifted) > block.length:
            self._singly = SINGLY
        return lifted

    def advance(self, watermark_us: int) -> Block:
        """Advance the watermark; returns the results that are due, without those emitted before."""
        before_us, self.watermark_us = self.watermark_us, max(self.watermark_us, watermark_us)
        if self._guard.parked:
            return self._dropped()
        due = (self.fresh or self.watermark_us > before_us) and self.kernel.due(before_us, self.watermark_us)
        if not due and self.fresh_rows <= max(self._may_wait, _rows(self.tables)):
            return EMPTY
        return self._merge(before_us)

    def settle(self) -> Block:
        """Merge all fresh rows at the present watermark; returns the results that they bring."""
        if self._guard.parked:
            return self._dropped()
        return self._merge(self.watermark_us) if self.fresh else EMPTY

    def _merge(self, before_us: int) -> Block:
        received = self.kernel.concatenated(self.fresh) if self.fresh else {}
        kept, fresh = self.kept_counts(), self.fresh_counts
        self.merge = StateMerge(self.fresh_rows, self._fresh_events, fresh, kept)
        self._fresh_events = 0
        self.fresh, self.fresh_rows, self.fresh_counts = [], 0, self._none()
        declared = self._slots.declared if self._slots is not None and self._slots.divided else None
        try:
            self.tables, results = self._lane.advanced(self.tables, received, before_us, self.watermark_us, declared)
        except Exception as error:  # noqa: BLE001  (raised again unless the queries of the lane are parked)
            self._guard.failed(error)
            return self._dropped()
        if self.load is not None:
            self.load.merge(fresh, kept, results.columns[INSTANCE] if results.length else self._none()[:0])
        if not results.length:
            return EMPTY
        return results if self._slots is None else self._slots.labelled(results)

    def _dropped(self) -> Block:
        """Drop the state of a parked lane; there are no results."""
        self.keep({}, [])
        self.fresh_counts = self._none()
        return EMPTY

    def relabel(self, instances: Iterable[int], division: Division, declared: int) -> None:
        """Relabel the rows of some instances of an operator by a division.

        `declared`: the declared instance of the operator, if it has only one.
        """
        concerned = np.zeros(self._size, bool)
        concerned[list(instances)] = True
        self.tables = division.relabelled(self.kernel, self.tables, concerned, declared)
        self.fresh = [division.relabelled(self.kernel, each, concerned, declared) for each in self.fresh]
        if self.load is not None:
            self.fresh_counts = self._none()
            for each in self.fresh:
                per_instance(each, self.fresh_counts)

    def take_out(self, instances: Iterable[int]) -> "dict[int, LaneState]":
        """Remove some instances; returns the state of each."""
        wanted = list(instances)
        part_of = np.zeros(self._size, np.int64)
        part_of[wanted] = np.arange(1, len(wanted) + 1)
        kept, fresh = self.kept_counts(), self.fresh_counts
        tables = split_tables(self.tables, part_of, len(wanted) + 1)
        received = [split_tables(each, part_of, len(wanted) + 1) for each in self.fresh]
        self.keep(tables[0], [each[0] for each in received])
        self.fresh_counts = np.where(part_of, 0, fresh)
        self._counted = (self.tables, np.where(part_of, 0, kept))
        found = {}
        for part, instance in enumerate(wanted, 1):
            taken = found[instance] = self.emptied()
            taken.keep(tables[part], [each[part] for each in received])
            taken.fresh_counts = np.where(part_of == part, fresh, 0)
        return found

    def copied(self, instances: Iterable[int]) -> "dict[int, LaneState]":
        """Copies of the states of some instances, whose rows no load counts; tables are shared, not copied."""
        wanted = list(instances)
        part_of = np.full(self._size, -1)
        part_of[wanted] = np.arange(len(wanted))
        tables = split_tables(self.tables, part_of, len(wanted))
        received = [split_tables(each, part_of, len(wanted)) for each in self.fresh]
        found = {}
        for part, instance in enumerate(wanted):
            copy = found[instance] = self.emptied()
            copy.load = None
            copy.keep(tables[part], [each[part] for each in received])
        return found

    def emptied(self) -> "LaneState":
        """A state of the same watermark without rows."""
        return LaneState(self._lane, self.watermark_us, self.load, self._slots, self._guard)

    def complete(self, older: "LaneState") -> None:
        """Merge state of the same instances that has not come until now; its watermark may be lower.

        Nothing of it may have been needed by the present watermark.
        """
        kept = older.kept_counts() + self.kept_counts()
        parts = [each for each in (older.tables, self.tables) if each]
        self.tables = self.kernel.merged(parts) if len(parts) > 1 else (parts[0] if parts else {})
        if len(parts) < 2:
            self._counted = (self.tables, kept)
        self.fresh = older.fresh + self.fresh
        self.fresh_rows += older.fresh_rows
        self.fresh_counts = older.fresh_counts + self.fresh_counts

    def absorb(self, others: "Sequence[LaneState]") -> None:
        """Merge the states of other instances, which must have the same watermark."""
        for other in others:
            if other.watermark_us != self.watermark_us:
                raise ValueError(f"states at {other.watermark_us} and {self.watermark_us} cannot be merged")
        parts = [state.tables for state in (self, *others) if state.tables]
        kept = sum((other.kept_counts() for other in others), self.kept_counts())
        self.tables = self.kernel.concatenated(parts) if parts else {}
        self._counted = (self.tables, kept)
        for other in others:
            self.fresh += other.fresh
            self.fresh_rows += other.fresh_rows
            self.fresh_counts = self.fresh_counts + other.fresh_counts

    def keep(self, tables: Tables, fresh: list[Tables]) -> None:
        """Have these tables of state and of fresh rows; counts of fresh rows are the caller's."""
        self.tables = tables
        self.fresh = [each for each in fresh if each]
        self.fresh_rows = sum(_rows(each) for each in self.fresh)

    def kept_counts(self) -> Ints:
        """Rows of every instance in the tables, counted once per version of the tables."""
        if self.load is not None and self._counted[0] is not self.tables:
            self._counted = (self.tables, per_instance(self.tables, self._none()))
        return self._counted[1]

    def _none(self) -> Ints:
        return np.zeros(self._size, np.int64)


def _rows(tables: Tables) -> int:
    return sum(len(table) for table in tables.values())
