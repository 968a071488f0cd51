"""The windowed-aggregate kernel: constant logic, its state an argument, its fragments movable at any time."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.block import Block, Column
from shoal.kernels.cells import Cells, codes_of
from shoal.kernels.kernel import NEVER_US
from shoal.kernels.panes import Ints, PaneShape, PaneTable, closed_windows, concat_tables, grouping, merged, partial
from shoal.kernels.table import INSTANCE, Tables
from shoal.model.expression import Expression
from shoal.model.fragment import Fragment, FragmentId
from shoal.model.schema import TIME
from shoal.model.window import Window

WINDOW_END = "window_end"
"""Column of every answer that holds the end of the window."""
WINDOW = "#window"
"""Block column that tells the number of the window an answer belongs to: its end divided by the slide."""


@dataclass
class PaneState:
    """The state of one or many instances: their panes, and how far event time has been closed."""

    table: PaneTable
    watermark_us: int = NEVER_US


@dataclass(frozen=True)
class AggregateKernel:
    """Aggregates per key and window, over panes; with `having`, only of windows whose aggregates fulfil it."""

    shape: PaneShape
    time: str
    having: Expression | None = None

    @property
    def hold_us(self) -> int:
        """Answers lie just before the end of their window, which the watermark has only just reached."""
        return 0

    def keys(self, port: int) -> tuple[str, ...]:  # noqa: ARG002
        """The keys aggregated by."""
        return self.shape.keys

    def table_keys(self, number: int, table: PaneTable) -> list[Column]:  # noqa: ARG002
        """The keys of every pane."""
        return list(table.keys)

    def reads(self, port: int) -> frozenset[str]:  # noqa: ARG002
        """Columns of the input that the kernel looks at."""
        columns = {slot.column for slot in self.shape.slots if slot.column}
        return frozenset(columns | {*self.shape.keys} | ({self.time} if self.window.clock == "event" else set()))

    @property
    def window(self) -> Window:
        """The windows aggregated over."""
        return self.shape.window

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:  # noqa: ARG002
        """Which rows belong to closed windows only."""
        return self.late_panes(self.panes(block), watermark_us)

    def lift(self, port: int, block: Block) -> Tables:  # noqa: ARG002
        """Partial aggregates of a block."""
        return {0: self.partial(block, self.panes(block))} if block.length else {}

    def gathered(self, tables: Sequence[Tables]) -> Tables:
        """Partial aggregates merged."""
        return {0: merged(self.shape, [each[0] for each in tables if 0 in each])}

    def together(self, tables: Sequence[Tables]) -> Tables:
        """Partial aggregates one under another."""
        return {0: concat_tables(self.shape, [each[0] for each in tables if 0 in each])}

    def due(self, before_us: int, after_us: int) -> bool:
        """Whether the watermark reaches the end of a window on its way."""
        first, last = self.window_range(before_us, after_us)
        return first <= last

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """State and partial aggregates merged, and the answers of the windows that the watermark closes on its way."""
        known = PaneState(self.gathered([state, fresh])[0], before_us)
        answers = self.close_until(known, after_us)
        columns = dict(answers.columns)
        columns[WINDOW_END] = columns.pop(WINDOW) * self.window.slide_us
        columns[TIME] = columns[WINDOW_END] - 1
        return {0: known.table}, Block(columns, answers.length)

    def open(self) -> PaneState:
        """The state before any event."""
        return PaneState(self.shape.empty())

    def process(self, state: PaneState, block: Block) -> Block:
        """Take events in; returns those that came too late for every window they belong to."""
        panes = self.panes(block)
        late = self.late_panes(panes, state.watermark_us)
        timely = block.where(~late)
        if timely.length:
            panes = panes[~late] if timely is not block else panes
            state.table = merged(self.shape, [state.table, self.partial(timely, panes)])
        return block.take(np.flatnonzero(late))

    def close_until(self, state: PaneState, watermark_us: int) -> Block:
        """The answers of all windows that end at or before the watermark, each given once.

        The block has the columns `INSTANCE` and `WINDOW`, the keys, and the aggregates under their names.
        """
        first, last = self.window_range(state.watermark_us, watermark_us)
        closed = closed_windows(self.shape, state.table, first, last, self.having)
        answers = Block({INSTANCE: closed.instance, WINDOW: closed.window, **closed.columns}, closed.window.size)
        state.table = state.table.where(state.table.pane + self.shape.window.panes > last)
        state.watermark_us = max(state.watermark_us, watermark_us)
        return answers

    def fragments(self, state: PaneState) -> list[Fragment]:
        """One fragment per row: due when its last window closes, worth as much as it has seen events."""
        window, table = self.shape.window, state.table
        row_bytes = table.nbytes // max(1, len(table))
        return [
            Fragment(name, int(instance), row_bytes, (int(pane) + window.panes) * window.slide_us, float(count))
            for name, instance, pane, count in zip(
                self._names(table), table.instance, table.pane, table.slots[0], strict=True
            )
        ]

    def extract(self, state: PaneState, fragments: Iterable[FragmentId]) -> PaneTable:
        """Take fragments out of a state."""
        wanted = set(fragments)
        chosen = np.array([name in wanted for name in self._names(state.table)], bool)
        taken = state.table.take(np.flatnonzero(chosen))
        state.table = state.table.take(np.flatnonzero(~chosen))
        return taken

    def absorb(self, state: PaneState, fragments: PaneTable) -> None:
        """Put fragments into a state, merging those that are there already."""
        state.table = merged(self.shape, [state.table, fragments])

    def panes(self, block: Block) -> Ints:
        """The pane of every row."""
        panes = np.empty(block.length, np.int64)
        times = block.columns[TIME] if TIME in block.columns else block.columns[self.time]
        loops.panes_of(times, self.shape.window.slide_us, panes)
        return panes

    def late_panes(self, panes: Ints, watermark_us: int) -> NDArray[np.bool_]:
        """Which panes belong to closed windows only."""
        newest_closed = watermark_us // self.shape.window.slide_us - self.shape.window.panes
        if panes.size and loops.range_of(panes)[0] > newest_closed:
            return np.zeros(panes.size, bool)
        return panes <= newest_closed

    def cells(self, block: Block, panes: Ints, instances: int) -> Cells:
        """Which rows of a block belong to the same instance, key and pane."""
        keys = [codes_of(block.columns[key]) for key in self.shape.keys]
        return grouping(self.shape, block.columns[INSTANCE], instances, keys, codes_of(panes))

    def partial(self, block: Block, panes: Ints, cells: Cells | None = None) -> PaneTable:
        """Aggregate a block without any state: what leaves the machine that read the events."""
        instance = block.columns[INSTANCE]
        if cells is None:
            cells = self.cells(block, panes, int(instance.max(initial=0)) + 1)
        return partial(self.shape, block, instance, panes, cells)

    def window_range(self, before_us: int, after_us: int) -> tuple[int, int]:
        """Numbers of the windows that close when the watermark goes from one time to another."""
        slide = self.shape.window.slide_us
        return before_us // slide + 1, after_us // slide

    def _names(self, table: PaneTable) -> list[FragmentId]:
        keys = [key.to_pylist() if isinstance(key, pa.Array) else key.tolist() for key in table.keys]
        rows = zip(table.instance.tolist(), table.pane.tolist(), *keys, strict=True)
        return [FragmentId(json.dumps(row)) for row in rows]
