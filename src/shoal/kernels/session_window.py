"""The session kernel: aggregates over windows that end when a key has no row for the length of the gap.

An open session is a row with its first and last time; two sessions of a key less than the gap apart are merged.
Sessions of some of the rows merge like single rows, so reading tasks send sessions, not rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.aggregate.slots import FilledCells, Slot, merged_values, partial_values, result_columns, slots_of
from shoal.kernels.aggregate.windowed import WINDOW_END
from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.order import group_numbers
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.compiled import compiled
from shoal.kernels.error_bounds import NONE_LOST, ErrorBound, ErrorBounds
from shoal.kernels.kernel import NO_RESULTS, State, kept
from shoal.kernels.row_kernel import RowKernel
from shoal.kernels.worth import Learned, expected, present_us
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.schema import TIME

WINDOW_START = "window_start"
_FIRST, _LAST = "#first", "#last"


@dataclass(frozen=True)
class SessionKernel(RowKernel):
    """Aggregates per key and session; `nullable`: the aggregated columns that may be null."""

    key_names: tuple[str, ...]
    gap_us: int
    aggregates: tuple[tuple[str, Aggregate], ...]
    types: tuple[tuple[str, str], ...]
    time: str
    nullable: tuple[str, ...] = ()

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The running values kept per session."""
        return slots_of([aggregate for _, aggregate in self.aggregates], dict(self.types), self.nullable)

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys of sessions."""
        return self.key_names

    def reads(self, port: int) -> frozenset[str]:  # noqa: ARG002
        """Keys, time and the aggregates' columns."""
        return frozenset({self.time, *self.key_names, *(slot.column for slot in self.slots if slot.column)})

    @cached_property
    def times(self) -> Sequence[str]:  # type: ignore[override]
        """The column of event time."""
        return (self.time,)

    def lift(self, port: int, block: Block) -> Tables:
        """Sessions of a block's rows."""
        if not block.length:
            return {}
        times = self.row_times(port, block)
        rows = RowTable.of(block, self.key_names)
        cells, size = _sessions(group_numbers([rows], self.key_names)[0], times, times, self.gap_us)
        filled = FilledCells.of(cells, size)
        used, sample = filled.numbers, filled.sample
        values = partial_values(self.slots, filled, block)
        first, last = _bounds(cells, times, times, size)
        keys = {key: take(block.columns[key], sample) for key in self.key_names}
        return {0: self._table(block.columns[INSTANCE][sample], keys, first[used], last[used], values)}

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Merge sessions of a key that are less than the gap apart."""
        table = concat_rows([each[0] for each in tables if 0 in each])
        if table is None:
            return {}
        first, last = table[_FIRST], table[_LAST]
        cells, size = _sessions(group_numbers([table], self.key_names)[0], first, last, self.gap_us)
        if size == len(table):
            return {0: table}
        partials = [table[f"#slot{i}"] for i in range(len(self.slots))]
        values = merged_values(self.slots, partials, np.arange(len(table)), cells, size)
        sample = np.zeros(size, np.int64)
        sample[cells] = np.arange(len(table))
        first, last = _bounds(cells, first, last, size)
        keys = {key: take(table[key], sample) for key in self.key_names}
        return {0: self._table(table.instance[sample], keys, first, last, values)}

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Merge sessions, and emit those that the watermark has closed."""
        table = self.merged([state, fresh]).get(0)
        if table is None:
            return {}, NO_RESULTS
        over = table[_LAST] + self.gap_us <= after_us
        done = table.where(over)
        return kept({0: table.where(~over)}), self._results(done) if len(done) else NO_RESULTS

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """Key and first time of a session."""
        return [*self.table_keys(number, table), table[_FIRST]]

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """The number of events that are expected until a session ends, at the rate that it had so far."""
        table: RowTable = state.tables[number]
        now_us = present_us(state.watermark_us, int(table[_LAST].max()))
        ends_us = table[_LAST] + self.gap_us
        return expected(table["#slot0"], ends_us - table[_FIRST], ends_us - now_us)

    def input_rows(self, number: int, table: RowTable) -> int:  # noqa: ARG002
        """The events of all sessions."""
        return int(table["#slot0"].sum())

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """Every lost session belongs to one result, which is then missing, smaller, or in several parts."""
        if 0 not in lost:
            return NONE_LOST
        reason = "a session that lost its middle is several sessions"
        columns = {name: ErrorBound(None, reason) for name, _ in self.aggregates}
        return ErrorBounds(ErrorBound(float(len(lost[0]))), columns)

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:  # noqa: ARG002
        """When each session ends, unless a further row extends it."""
        ends: Ints = table[_LAST] + self.gap_us
        return ends

    def needed_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:  # noqa: ARG002
        """When a session of further rows that this one would be part of could end, or this one does.

        Further rows are not before the watermark, so what they make alone ends a gap later or later still; and it is
        part of this session only if that is not before its first row.
        """
        alone: Ints = np.maximum(table[_FIRST], watermark_us + self.gap_us)
        return np.minimum(table[_LAST] + self.gap_us, alone)

    def _results(self, done: RowTable) -> Block:
        ends = done[_LAST] + self.gap_us
        values = [done[f"#slot{i}"] for i in range(len(self.slots))]
        columns = {
            INSTANCE: done.instance,
            **{key: done[key] for key in self.key_names},
            WINDOW_START: done[_FIRST],
            WINDOW_END: ends,
            **result_columns(self.aggregates, dict(self.types), self.slots, values),
            TIME: ends - 1,
        }
        return Block(columns, len(done))

    def _table(
        self, instance: Ints, keys: dict[str, object], first: Ints, last: Ints, values: Sequence[NDArray[np.generic]]
    ) -> RowTable:
        slots = {f"#slot{i}": value for i, value in enumerate(values)}
        return RowTable({INSTANCE: instance, **keys, _FIRST: first, _LAST: last, **slots})


def _sessions(groups: Ints, first: Ints, last: Ints, gap_us: int) -> tuple[Ints, int]:
    """The number of the session that each piece belongs to, and the number of sessions."""
    order = np.lexsort((first, groups))
    cells = np.empty(order.size, np.int64)
    size = _sweep(order, groups, first, last, gap_us, cells)
    return cells, size


@compiled
def _sweep(order: Ints, groups: Ints, first: Ints, last: Ints, gap_us: int, cells: Ints) -> int:
    """Number the sessions in the order of groups and first times."""
    number = -1
    end = 0
    for i in range(order.size):
        at = order[i]
        if i == 0 or groups[at] != groups[order[i - 1]] or first[at] >= end + gap_us:
            number += 1
            end = last[at]
        end = max(end, last[at])
        cells[at] = number
    return number + 1


def _bounds(cells: Ints, first: Ints, last: Ints, size: int) -> tuple[Ints, Ints]:
    earliest, latest = np.full(size, np.iinfo(np.int64).max), np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(earliest, cells, first)
    np.maximum.at(latest, cells, last)
    return earliest, latest
