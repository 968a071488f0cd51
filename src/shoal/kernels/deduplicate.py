"""The deduplicate kernel: of the rows of one key, one is kept per interval of time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.order import due, group_numbers, in_order
from shoal.kernels.columns.table import Ints, RowTable, Tables, concat_rows
from shoal.kernels.compiled import compiled
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.kernel import NO_RESULTS, State, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned, expected, present_us
from shoal.model.query.schema import TIME

_KEPT = "#kept"


@dataclass(frozen=True)
class DeduplicateKernel(WholeRowKernel):
    """Drops a row if a row of its key was kept less than `within_us` before it."""

    key_names: tuple[str, ...]
    within_us: int
    names: tuple[str, ...]
    time: str

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Process the rows before the watermark in order; table 1 holds the time of each key's last kept row."""
        rows = concatenated_rows([{n: t for n, t in state.items() if n == 0}, fresh])
        ready, waiting = due(rows.get(0), after_us)
        known: RowTable | None = state.get(1)
        results = NO_RESULTS
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
            results = chosen.block
            newest = np.flatnonzero(np.diff(groups[0][order[keep]], append=-1))
            kept_now = chosen.take(newest)
            updated = RowTable.of(kept_now.block, self.key_names).with_columns(**{_KEPT: kept_now[TIME]})
            if known is not None:
                known = known.where(~np.isin(groups[1], groups[0][order[keep]]))
            known = concat_rows([updated] if known is None else [known, updated])
        if known is not None:
            known = known.where(known[_KEPT] + self.within_us > after_us)
        return kept({0: waiting, 1: known}), results

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """A waiting row is needed once the watermark passes it; a kept key until it is dropped."""
        times: Ints = table[TIME] + 1 if number == 0 else table[_KEPT] + self.within_us
        return times

    def due_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When the watermark passes a row that waits; a kept key alone gives no result."""
        times: Ints = table[TIME] + 1 if number == 0 else table[_KEPT] + self.within_us
        return np.maximum(times, watermark_us + 1)

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for a row that waits; for a key, the share of the interval in which it still suppresses rows."""
        table: RowTable = state.tables[number]
        if number == 0:
            return np.ones(len(table))
        now_us = present_us(state.watermark_us, int(table[_KEPT].max()))
        ones = np.ones(len(table), np.int64)
        return expected(ones, self.within_us, table[_KEPT] + self.within_us - now_us)

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound."""
        if not lost:
            return NONE_LOST
        return unbounded("which rows of a key are kept depends on the row that was kept before, without end")


@compiled
def _keep(groups: Ints, times: Ints, within_us: int, last: Ints, keep: NDArray[np.bool_]) -> None:
    """Keep a row if the last kept row of its group is at least `within_us` older."""
    for i in range(groups.size):
        group = groups[i]
        keep[i] = times[i] - last[group] >= within_us
        if keep[i]:
            last[group] = times[i]
