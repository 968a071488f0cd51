"""The rank kernel: the first k rows among the rows of one key and time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.nullable import valid_of
from shoal.kernels.columns.order import due, group_numbers, sortable
from shoal.kernels.columns.table import Ints, RowTable, Tables
from shoal.kernels.compiled import compiled
from shoal.kernels.error_bounds import NONE_LOST, ErrorBound, ErrorBounds, unbounded
from shoal.kernels.kernel import NO_RESULTS, State, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned
from shoal.model.query.schema import TIME


@dataclass(frozen=True)
class RankKernel(WholeRowKernel):
    """The first k rows per key among the rows of one time, emitted once the watermark has passed that time.

    Nulls come last in either direction; NaN is the largest number.
    """

    key_names: tuple[str, ...]
    by: tuple[tuple[str, bool], ...]
    k: int
    ties: bool
    column: str
    names: tuple[str, ...]
    time: str

    results_per = "key"
    bounded = True

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Rank the rows before the watermark."""
        ready, waiting = due(concatenated_rows([state, fresh]).get(0), after_us)
        if ready is None:
            return kept({0: waiting}), NO_RESULTS
        order, rank = self._ranked(ready)
        chosen = np.flatnonzero(rank <= self.k)
        results = ready.take(order[chosen]).with_columns(**{self.column: rank[chosen]})
        return kept({0: waiting}), results.block

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for a row among the first k so far; 0 for one that better rows have excluded from the results."""
        table: RowTable = state.tables[number]
        order, rank = self._ranked(table)
        utility = np.zeros(len(table))
        utility[order] = rank <= self.k
        return utility

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """A lost row changes the ranks of its key and time only: k results, unless equal rows share a rank."""
        if 0 not in lost:
            return NONE_LOST
        if self.ties:
            return unbounded("any number of equal rows may share the ranks of one key and time")
        groups = int(group_numbers([lost[0]], (*self.key_names, TIME))[0].max()) + 1
        return ErrorBounds(ErrorBound(float(groups * self.k)))

    def _ranked(self, ready: RowTable) -> tuple[Ints, Ints]:
        """Rows in the order of their key, time and rank, and their ranks."""
        group = group_numbers([ready], (*self.key_names, TIME))[0]
        values = [_directed(ready[name], descending) for name, descending in self.by]
        ties = [sortable(ready[name]) for name in reversed(self.names)]
        order = np.lexsort((*ties, *reversed(values), group))
        rank = np.empty(order.size, np.int64)
        _ranks(group[order], _changes([value[order] for value in values]), self.ties, rank)
        return order, rank

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:  # noqa: ARG002
        """A row is needed once the watermark passes it."""
        times: Ints = table[TIME]
        return times + 1

    def needed_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:  # noqa: ARG002
        """When the watermark passes the row: it is ranked among the rows of its time only."""
        times: Ints = table[TIME]
        return np.maximum(times, watermark_us) + 1


def _directed(column: Column, descending: bool) -> NDArray[np.generic]:
    """A column in a form that sorts in the given direction, nulls last."""
    values = sortable(column)
    if values.dtype == np.float64:  # numbered, so that NaN is the largest value and equal to itself
        values = np.unique(values, return_inverse=True)[1]
    directed = ~values.astype(np.int64) if descending else values
    valid = valid_of(column)
    return directed if valid is None else np.where(valid, directed, np.iinfo(np.int64).max)


def _changes(values: Sequence[NDArray[np.generic]]) -> NDArray[np.bool_]:
    """Whether each row differs from the previous row."""
    changed = np.zeros(len(values[0]), bool)
    changed[:1] = True
    for value in values:
        changed[1:] |= value[1:] != value[:-1]
    return changed


@compiled
def _ranks(groups: Ints, changed: NDArray[np.bool_], ties: bool, rank: Ints) -> None:
    """Rank rows within their groups; with ties, equal rows share the rank of the first of them."""
    position = 0
    for i in range(groups.size):
        new = i == 0 or groups[i] != groups[i - 1]
        position = 1 if new else position + 1
        rank[i] = rank[i - 1] if ties and not new and not changed[i] else position
