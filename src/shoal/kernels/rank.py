"""The rank and deduplicate kernels: choosing among the rows of one time, and among the rows of one key."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.order import due, group_numbers, in_order, sortable
from shoal.kernels.columns.table import Ints, RowTable, Tables, concat_rows
from shoal.kernels.compiled import compiled
from shoal.kernels.kernel import NOTHING, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.model.query.schema import TIME


@dataclass(frozen=True)
class RankKernel(WholeRowKernel):
    """The first k rows per key among the rows of one time, once all of them are there."""

    key_names: tuple[str, ...]
    by: tuple[tuple[str, bool], ...]
    k: int
    ties: bool
    column: str
    names: tuple[str, ...]
    time: str

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Rank the rows before the watermark."""
        ready, waiting = due(concatenated_rows([state, fresh]).get(0), after_us)
        if ready is None:
            return kept({0: waiting}), NOTHING
        group = group_numbers([ready], (*self.key_names, TIME))[0]
        values = [_directed(ready[name], descending) for name, descending in self.by]
        ties = [sortable(ready[name]) for name in reversed(self.names)]
        order = np.lexsort((*ties, *reversed(values), group))
        rank = np.empty(order.size, np.int64)
        _ranks(group[order], _changes([value[order] for value in values]), self.ties, rank)
        chosen = np.flatnonzero(rank <= self.k)
        answers = ready.take(order[chosen]).with_columns(**{self.column: rank[chosen]})
        return kept({0: waiting}), answers.block

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:  # noqa: ARG002
        """Rows are needed once the watermark passes them."""
        times: Ints = table[TIME]
        return times + 1


@dataclass(frozen=True)
class DeduplicateKernel(WholeRowKernel):
    """Drops rows whose keys were kept a short time before."""

    key_names: tuple[str, ...]
    within_us: int
    names: tuple[str, ...]
    time: str

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Go through the rows before the watermark in order; table 1 holds when each key was kept last."""
        together = concatenated_rows([{n: t for n, t in state.items() if n == 0}, fresh])
        ready, waiting = due(together.get(0), after_us)
        known: RowTable | None = state.get(1)
        answers = NOTHING
        if ready is not None:
            tables = [ready] if known is None else [ready, known]
            groups = group_numbers(tables, self.key_names)
            size = max(int(numbers.max()) for numbers in groups) + 1
            last = np.full(size, -(1 << 62), np.int64)
            if known is not None:
                last[groups[1]] = known[_KEPT]
            order = in_order(groups[0], ready, self.names)
            keep = np.empty(order.size, bool)
            _keep(groups[0][order], ready[TIME][order], self.within_us, last, keep)
            chosen = ready.take(order[keep])
            answers = chosen.block
            newest = np.flatnonzero(np.diff(groups[0][order[keep]], append=-1))
            kept_now = chosen.take(newest)
            told = RowTable.of(kept_now.block, self.key_names).with_columns(**{_KEPT: kept_now[TIME]})
            if known is not None:
                known = known.where(~np.isin(groups[1], groups[0][order[keep]]))
            known = concat_rows([told] if known is None else [known, told])
        if known is not None:
            known = known.where(known[_KEPT] + self.within_us > after_us)
        return kept({0: waiting, 1: known}), answers

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """Waiting rows are needed once the watermark passes them, kept keys until they are forgotten."""
        times: Ints = table[TIME] + 1 if number == 0 else table[_KEPT] + self.within_us
        return times


_KEPT = "#kept"


def _directed(column: object, descending: bool) -> NDArray[np.generic]:
    values = sortable(column)
    if values.dtype == np.float64:  # numbered, so that NaN is the largest value and equal to itself
        values = np.unique(values, return_inverse=True)[1]
    return ~values.astype(np.int64) if descending else values


def _changes(values: Sequence[NDArray[np.generic]]) -> NDArray[np.bool_]:
    """Whether a row differs from the one before it."""
    changed = np.zeros(len(values[0]), bool)
    changed[:1] = True
    for value in values:
        changed[1:] |= value[1:] != value[:-1]
    return changed


@compiled
def _ranks(groups: Ints, changed: NDArray[np.bool_], ties: bool, rank: Ints) -> None:
    """Rank rows within their groups; with ties, rows that do not differ share the rank of the first of them."""
    place = 0
    for i in range(groups.size):
        new = i == 0 or groups[i] != groups[i - 1]
        place = 1 if new else place + 1
        rank[i] = rank[i - 1] if ties and not new and not changed[i] else place


@compiled
def _keep(groups: Ints, times: Ints, within_us: int, last: Ints, keep: NDArray[np.bool_]) -> None:
    """Keep a row if none of its group was kept shortly before."""
    for i in range(groups.size):
        group = groups[i]
        keep[i] = times[i] - last[group] >= within_us
        if keep[i]:
            last[group] = times[i]
