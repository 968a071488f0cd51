"""The state of a lane, or of some of its instances, on one worker: how far it is, and what has come since."""

from collections.abc import Iterable, Sequence

import numpy as np

from shoal.compiler.division import Division
from shoal.compiler.lane import Lane
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.parts import parted
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import NEVER_US, Kernel
from shoal.runtimes.local.dataflow.load import Ints, Load, per_instance
from shoal.runtimes.local.dataflow.node import EMPTY
from shoal.runtimes.local.migration.key_slots import Slots

FEW_ROWS = 1 << 16
"""Rows that may wait before they are brought to the state, though no answer is due; or as many as the state has."""


class LaneState:
    """Tables of state and tables that have come; `mark_us` is how far event time is closed.

    What has come is brought to the state when answers are due, or when as much waits as the state has: in between,
    a block costs what it holds, however large the state is. With a load, rows are counted by instance.
    """

    def __init__(
        self, lane: Lane, mark_us: int = NEVER_US, load: Load | None = None, slots: Slots | None = None
    ) -> None:
        """No state yet; `slots` are those of a lane whose instances may be split and merged."""
        if lane.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        self._lane = lane
        self.kernel: Kernel = lane.kernel
        self.tables: Tables = {}
        self.fresh: list[Tables] = []
        self.fresh_rows = 0
        self.mark_us = mark_us
        self.load = load
        self._slots = slots
        self._size = len(lane.instances) if load is None else load.size
        self._counted: tuple[Tables | None, Ints] = (None, self._none())
        self.fresh_counts = self._none()

    @property
    def nbytes(self) -> int:
        """Memory of the state and of what waits to be brought to it."""
        return sum(table.nbytes for tables in (self.tables, *list(self.fresh)) for table in list(tables.values()))

    @property
    def counts(self) -> Ints:
        """Rows of every instance, also of those that wait to be brought to the state."""
        return self.kept_counts() + self.fresh_counts

    def add(self, port: int, block: Block, *, shared: bool) -> Block:
        """Take rows in; returns those that come too late. `shared`: they lie in memory that will be used again."""
        if self.load is not None:
            self.load.take(block.columns[INSTANCE])
        late = self.kernel.late(port, block, self.mark_us)
        refused = EMPTY
        if late.any():
            refused = block.take(np.flatnonzero(late))
            block = block.where(~late)
        lifted = self.kernel.lift(port, block)
        if shared:
            lifted = {number: table.owned() for number, table in lifted.items()}
        self.fresh.append(lifted)
        self.fresh_rows += _rows(lifted)
        if self.load is not None:
            per_instance(lifted, self.fresh_counts)
        return refused

    def go_on(self, mark_us: int) -> Block:
        """Close event time up to a mark; what has become certain, if anything is due."""
        before_us, self.mark_us = self.mark_us, max(self.mark_us, mark_us)
        due = (self.fresh or self.mark_us > before_us) and self.kernel.due(before_us, self.mark_us)
        if not due and self.fresh_rows <= max(FEW_ROWS, _rows(self.tables)):
            return EMPTY
        come = self.kernel.concatenated(self.fresh) if self.fresh else {}
        kept, fresh = self.kept_counts(), self.fresh_counts
        self.fresh, self.fresh_rows, self.fresh_counts = [], 0, self._none()
        declared = self._slots.declared if self._slots is not None and self._slots.divided else None
        self.tables, answers = self._lane.advanced(self.tables, come, before_us, self.mark_us, declared)
        if self.load is not None:
            self.load.bring(fresh, kept, answers.columns[INSTANCE] if answers.length else self._none()[:0])
        if not answers.length:
            return EMPTY
        return answers if self._slots is None else self._slots.labelled(answers)

    def relabel(self, instances: Iterable[int], division: Division, declared: int) -> None:
        """Give the rows of some instances of an operator to those that have their slots under a division.

        `declared`: the declared instance of the operator, where that has only one.
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
        """The state of each of some instances, which are then no longer here."""
        wanted = list(instances)
        part_of = np.zeros(self._size, np.int64)
        part_of[wanted] = np.arange(1, len(wanted) + 1)
        kept, fresh = self.kept_counts(), self.fresh_counts
        tables = parted(self.tables, part_of, len(wanted) + 1)
        come = [parted(each, part_of, len(wanted) + 1) for each in self.fresh]
        self._keep(tables[0], [each[0] for each in come])
        self.fresh_counts = np.where(part_of, 0, fresh)
        self._counted = (self.tables, np.where(part_of, 0, kept))
        found = {}
        for part, instance in enumerate(wanted, 1):
            taken = found[instance] = LaneState(self._lane, self.mark_us, self.load, self._slots)
            taken._keep(tables[part], [each[part] for each in come])
            taken.fresh_counts = np.where(part_of == part, fresh, 0)
        return found

    def absorb(self, others: "Sequence[LaneState]") -> None:
        """Take over the states of other instances, which are just as far."""
        for other in others:
            if other.mark_us != self.mark_us:
                raise ValueError(f"states at {other.mark_us} and {self.mark_us} cannot be brought together")
        parts = [state.tables for state in (self, *others) if state.tables]
        kept = sum((other.kept_counts() for other in others), self.kept_counts())
        self.tables = self.kernel.concatenated(parts) if parts else {}
        self._counted = (self.tables, kept)
        for other in others:
            self.fresh += other.fresh
            self.fresh_rows += other.fresh_rows
            self.fresh_counts = self.fresh_counts + other.fresh_counts

    def _keep(self, tables: Tables, fresh: list[Tables]) -> None:
        self.tables = tables
        self.fresh = [each for each in fresh if each]
        self.fresh_rows = sum(_rows(each) for each in self.fresh)

    def kept_counts(self) -> Ints:
        """Rows of every instance in the state, counted once for every state."""
        if self.load is not None and self._counted[0] is not self.tables:
            self._counted = (self.tables, per_instance(self.tables, self._none()))
        return self._counted[1]

    def _none(self) -> Ints:
        return np.zeros(self._size, np.int64)


def _rows(tables: Tables) -> int:
    return sum(len(table) for table in tables.values())
