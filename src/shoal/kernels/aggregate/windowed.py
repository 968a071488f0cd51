"""The kernel of windowed aggregates, over panes that windows share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.aggregate.cells import Cells, cells_of_numbers, codes_of
from shoal.kernels.aggregate.closing import closed_windows
from shoal.kernels.aggregate.lost_panes import pane_bounds
from shoal.kernels.aggregate.panes import (
    Grouped,
    Ints,
    PaneShape,
    PaneTable,
    RowPanes,
    concat_tables,
    grouping,
    key_codes,
    merged_panes,
    partial,
)
from shoal.kernels.aggregate.row_groups import load_loops
from shoal.kernels.aggregate.slots import single_values
from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.shared_values import Shared
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds
from shoal.kernels.kernel import ResultsPer, State
from shoal.kernels.stateful_kernel import StatefulKernel
from shoal.kernels.worth import Learned, counts_of, expected, present_us
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME
from shoal.model.query.window import Window

WINDOW_END = "window_end"
"""Column of every result that holds the end of the window."""
NEVER_CLOSED = np.iinfo(np.int64).max
"""A pane behind all others."""


@dataclass(frozen=True)
class AggregateKernel(StatefulKernel):
    """Aggregates per key and window, over panes; `having` selects windows by their aggregates."""

    shape: PaneShape
    time: str
    having: Expression | None = None

    late_reason = "has closed all windows of this row"
    bounded = True

    @property
    def results_per(self) -> ResultsPer:  # type: ignore[override]
        """Every key of a window has a result, unless a condition selects some."""
        return "key" if self.having is None else ""

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys of aggregation."""
        return self.shape.keys

    def table_keys(self, number: int, table: PaneTable) -> list[Column]:  # noqa: ARG002
        """The keys of every pane."""
        return list(table.keys)

    def reads(self, port: int) -> frozenset[str]:  # noqa: ARG002
        """Columns of the input that the kernel reads."""
        columns = {slot.column for slot in self.shape.slots if slot.column}
        return frozenset(columns | {*self.shape.keys} | ({self.time} if self.window.clock == "event" else set()))

    @property
    def window(self) -> Window:
        """The windows aggregated over."""
        return self.shape.window

    def pane_us(self, port: int, time: str) -> int:  # noqa: ARG002
        """That of the windows, if the column is not a key or aggregated, too."""
        used = {*self.shape.keys, *(slot.column for slot in self.shape.slots)}
        return self.window.slide_us if self.window.clock == "event" and time == self.time and time not in used else 0

    def row_times(self, port: int, block: Block) -> Ints:  # noqa: ARG002
        """Times of the input; by the clock, times of arrival."""
        times: Ints = block.columns[TIME] if TIME in block.columns else block.columns[self.time]
        return times

    def load(self) -> None:
        """The loops that group rows of panes, which a merge of one row does not need."""
        load_loops(len(self.shape.keys) + 2)

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Which rows belong to closed windows only."""
        slide_us, times = self.window.slide_us, self.row_times(port, block)
        open_us = (watermark_us // slide_us - self.window.panes + 1) * slide_us
        if times.size and loops.range_of(times)[0] >= open_us:
            return np.zeros(times.size, bool)
        late: NDArray[np.bool_] = times < open_us
        return late

    def lift(self, port: int, block: Block) -> Tables:  # noqa: ARG002
        """Partial aggregates of a block."""
        return {0: self.partial(block, self.panes(block))} if block.length else {}

    def lift_singly(self, port: int, block: Block) -> Tables:
        """Partial aggregates of every event by itself, if all its running values are numbers; keys are not copied."""
        slots = single_values(self.shape.slots, block) if block.length else None
        if slots is None:
            return self.lift(port, block)
        keys = tuple(block.columns[name] for name in self.shape.keys)
        return {0: PaneTable(block.columns[INSTANCE], self.panes(block), keys, tuple(slots))}

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Merge partial aggregates."""
        return {0: merged_panes(self.shape, [each[0] for each in tables if 0 in each])}

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """Concatenate partial aggregates."""
        return {0: concat_tables(self.shape, [each[0] for each in tables if 0 in each])}

    def due(self, before_us: int, after_us: int) -> bool:
        """Whether the watermark reaches the end of a window."""
        first, last = self.window_range(before_us, after_us)
        return first <= last

    def closings(self, tables: Sequence[Tables], before_us: int, after_us: int) -> int:
        """The windows that the watermark closes, from the first with a row to the last."""
        first, last = self.window_range(before_us, after_us)
        panes = [each[0].pane for each in tables if 0 in each and len(each[0])]
        if first > last or not panes:
            return 0
        first = max(first, 1 + min(int(each.min()) for each in panes))
        last = min(last, self.window.panes + max(int(each.max()) for each in panes))
        return max(0, last - first + 1)

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """Merge partial aggregates into state, and emit the windows that the watermark closes."""
        table: PaneTable = self.merged([state, fresh])[0]
        first, last = self.window_range(before_us, after_us)
        closed = closed_windows(self.shape, table, first, last, self.having)
        ends = closed.window * self.window.slide_us
        columns = {INSTANCE: closed.instance, **closed.columns, WINDOW_END: ends, TIME: ends - 1}
        kept = table.of_panes(last - self.window.panes + 1, NEVER_CLOSED)
        return {0: kept if kept is table else kept.owned()}, Block(columns, ends.size)

    def lift_timely(self, port: int, block: Block, watermark_us: int, shared: Shared) -> tuple[Tables, Block]:  # noqa: ARG002
        """Partial aggregates of the rows that are not late; kernels share panes and cells where they agree."""
        if not block.length:
            return {}, block
        shape, slide_us = self.shape, self.window.slide_us
        times = self.row_times(0, block)
        panes = shared.once_of(times, ("panes", slide_us), lambda: RowPanes.of(times, slide_us))
        if panes.first <= self._newest_closed(watermark_us):
            late = self.late_panes(panes.of_row, watermark_us)
            on_time = panes.of_row[~late]
            return {0: self.partial(block.where(~late), on_time)}, block.take(np.flatnonzero(late))
        group = (self.time, slide_us, shape.keys, shape.by_instance)
        cells = shared.once(("cells", *group), lambda: self.cells(block, panes, shared.instances))
        fitting = cells.fitting(shape.width)
        if fitting is not cells:
            return {0: partial(shape, block, Grouped.of(shape, block, panes.of_row, fitting))}, Block({}, 0)
        grouped = shared.once(("grouped", *group), lambda: Grouped.of(shape, block, panes.of_row, cells))
        return {0: partial(shape, block, grouped)}, Block({}, 0)

    def with_condition(self, condition: Expression) -> "AggregateKernel":
        """The kernel with a condition on its aggregates; unchanged if the condition reads other columns."""
        known = {name for name, _ in self.shape.aggregates}
        return replace(self, having=condition) if set(condition.columns()) <= known else self

    def identity(self, number: int, table: PaneTable) -> list[Column]:  # noqa: ARG002
        """Pane and keys."""
        return [table.pane, *table.keys]

    def deadlines_us(self, number: int, table: PaneTable) -> Ints:  # noqa: ARG002
        """When the last window of each pane closes."""
        return (table.pane + self.window.panes) * self.window.slide_us

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """The number of events of its key that are expected until the last window of a pane closes.

        The rate of a key is that of its events in all panes, since the oldest pane of the state began.
        """
        table: PaneTable = state.tables[number]
        now_us = present_us(state.watermark_us, int(table.pane.max()) * self.window.slide_us)
        elapsed_us = now_us - int(table.pane.min()) * self.window.slide_us or self.window.slide_us
        keys = key_codes(self.shape, table).codes
        return expected(counts_of(keys, table.slots[0])[keys], elapsed_us, self.deadlines_us(number, table) - now_us)

    def input_rows(self, number: int, table: PaneTable) -> int:  # noqa: ARG002
        """The events of all panes."""
        return int(table.slots[0].sum())

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """Windows lack the events of the lost panes of their key."""
        return pane_bounds(self.shape, lost[0]) if 0 in lost else NONE_LOST

    def needed_us(self, number: int, table: PaneTable, watermark_us: int) -> Ints:  # noqa: ARG002
        """When the next window of each pane closes."""
        slide_us = self.window.slide_us
        return np.maximum(table.pane + 1, watermark_us // slide_us + 1) * slide_us

    def panes(self, block: Block) -> Ints:
        """The pane of every row."""
        panes = np.empty(block.length, np.int64)
        loops.panes_of(self.row_times(0, block), self.shape.window.slide_us, panes)
        return panes

    def late_panes(self, panes: Ints, watermark_us: int) -> NDArray[np.bool_]:
        """Which panes belong to closed windows only."""
        newest_closed = self._newest_closed(watermark_us)
        if panes.size and loops.range_of(panes)[0] > newest_closed:
            return np.zeros(panes.size, bool)
        return panes <= newest_closed

    def _newest_closed(self, watermark_us: int) -> int:
        """The last pane that belongs to closed windows only."""
        return watermark_us // self.window.slide_us - self.window.panes

    def cells(self, block: Block, panes: RowPanes, instances: int) -> Cells:
        """Group the rows of a block by instance, key and pane."""
        keys, instance = [block.columns[key] for key in self.shape.keys], block.columns[INSTANCE]
        numbers = [*([instance] if self.shape.by_instance else []), *keys, panes.of_row]
        cells = cells_of_numbers(numbers, block.length)
        return cells or grouping(self.shape, instance, instances, [codes_of(key) for key in keys], panes.codes)

    def partial(self, block: Block, panes: Ints) -> PaneTable:
        """Aggregate a block without state, before it leaves the machine that read it."""
        instances = int(block.columns[INSTANCE].max(initial=0)) + 1
        cells = self.cells(block, RowPanes(panes), instances).fitting(self.shape.width)
        return partial(self.shape, block, Grouped.of(self.shape, block, panes, cells))

    def window_range(self, before_us: int, after_us: int) -> tuple[int, int]:
        """Numbers of the windows that close when the watermark goes from one time to another."""
        slide = self.shape.window.slide_us
        return before_us // slide + 1, after_us // slide
