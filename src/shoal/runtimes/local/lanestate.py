"""The state of a lane, or of some of its instances, on one worker: how far it is, and what has come since."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.block import Block
from shoal.kernels.kernel import NEVER_US, Kernel
from shoal.kernels.table import RowTable, Tables
from shoal.query.lane import Lane
from shoal.runtimes.local.node import EMPTY

FEW_ROWS = 1 << 16
"""Rows that may wait before they are brought to the state, though no answer is due; or as many as the state has."""


class LaneState:
    """Tables of state and tables that have come; `mark_us` is how far event time is closed.

    What has come is brought to the state when answers are due, or when as much waits as the state has: in between,
    a block costs what it holds, however large the state is.
    """

    def __init__(self, lane: Lane, mark_us: int = NEVER_US) -> None:
        """No state yet."""
        if lane.kernel is None:
            raise TypeError("a lane without a kernel has no state")
        self._lane = lane
        self._kernel: Kernel = lane.kernel
        self.tables: Tables = {}
        self.fresh: list[Tables] = []
        self.fresh_rows = 0
        self.mark_us = mark_us

    @property
    def nbytes(self) -> int:
        """Memory of the state and of what waits to be brought to it."""
        return sum(table.nbytes for tables in (self.tables, *list(self.fresh)) for table in list(tables.values()))

    def add(self, port: int, block: Block, *, shared: bool) -> Block:
        """Take rows in; returns those that come too late. `shared`: they lie in memory that will be used again."""
        late = self._kernel.late(port, block, self.mark_us)
        refused = EMPTY
        if late.any():
            refused = block.take(np.flatnonzero(late))
            block = block.where(~late)
        lifted = self._kernel.lift(port, block)
        if shared:
            lifted = {number: _owned(table) for number, table in lifted.items()}
        self.fresh.append(lifted)
        self.fresh_rows += _rows(lifted)
        return refused

    def go_on(self, mark_us: int) -> Block:
        """Close event time up to a mark; what has become certain, if anything is due."""
        before_us, self.mark_us = self.mark_us, max(self.mark_us, mark_us)
        due = (self.fresh or self.mark_us > before_us) and self._kernel.due(before_us, self.mark_us)
        if not due and self.fresh_rows <= max(FEW_ROWS, _rows(self.tables)):
            return EMPTY
        come = self._kernel.together(self.fresh) if self.fresh else {}
        self.fresh, self.fresh_rows = [], 0
        self.tables, answers = self._lane.advanced(self.tables, come, before_us, self.mark_us)
        return answers if answers.length else EMPTY

    def take_out(self, instance: int) -> "LaneState":
        """The state of one instance, which is then no longer here."""
        taken = LaneState(self._lane, self.mark_us)
        taken.tables = _where(self.tables, lambda owners: owners == instance)
        taken.fresh = [_where(tables, lambda owners: owners == instance) for tables in self.fresh]
        self.tables = _where(self.tables, lambda owners: owners != instance)
        self.fresh = [_where(tables, lambda owners: owners != instance) for tables in self.fresh]
        for state in (taken, self):
            state.fresh_rows = sum(_rows(tables) for tables in state.fresh)
        return taken

    def absorb(self, other: "LaneState") -> None:
        """Take over the state of other instances, which is just as far."""
        if other.mark_us != self.mark_us:
            raise ValueError(f"states at {other.mark_us} and {self.mark_us} cannot be brought together")
        parts = [tables for tables in (self.tables, other.tables) if tables]
        self.tables = self._kernel.together(parts) if parts else {}
        self.fresh += other.fresh
        self.fresh_rows += other.fresh_rows


def _rows(tables: Tables) -> int:
    return sum(len(table) for table in tables.values())


def _where(tables: Tables, wanted: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> Tables:
    """The rows whose instances are wanted; tables without any are left out."""
    chosen = {number: table.where(wanted(table.instance)) for number, table in tables.items()}
    return {number: table for number, table in chosen.items() if len(table)}


def _owned(table: object) -> object:
    """A table that does not look into memory that will be used again; partial aggregates never do."""
    if not isinstance(table, RowTable):
        return table
    columns = {n: c.copy() if isinstance(c, np.ndarray) and c.base is not None else c for n, c in table.columns.items()}
    return RowTable(columns)
