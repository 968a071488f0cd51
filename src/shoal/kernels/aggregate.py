"""The windowed-aggregate kernel: constant logic, its state an argument, its fragments movable at any time."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels import loops
from shoal.kernels.block import Block
from shoal.kernels.cells import Cells, codes_of
from shoal.kernels.panes import Ints, PaneShape, PaneTable, closed_windows, grouping, merged, partial
from shoal.model.fragment import Fragment, FragmentId

NEVER_US = -(1 << 62)
"""Watermark before the first event."""
FOREVER_US = 1 << 62
"""Watermark after the last event: it closes every window."""
INSTANCE = "#instance"
"""Block column that tells which instance a row belongs to."""
WINDOW = "#window"
"""Block column that tells the number of the window an answer belongs to: its end divided by the slide."""


@dataclass
class PaneState:
    """The state of one or many instances: their panes, and how far event time has been closed."""

    table: PaneTable
    watermark_us: int = NEVER_US


@dataclass(frozen=True)
class AggregateKernel:
    """Aggregates per key and window, over panes."""

    shape: PaneShape
    time: str

    def open(self) -> PaneState:
        """The state before any event."""
        return PaneState(self.shape.empty())

    def process(self, state: PaneState, block: Block) -> Block:
        """Take events in; returns those that came too late for every window they belong to."""
        panes = self.panes(block)
        late = self.late(panes, state.watermark_us)
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
        closed = closed_windows(self.shape, state.table, first, last)
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
        loops.panes_of(block.columns[self.time], self.shape.window.slide_us, panes)
        return panes

    def late(self, panes: Ints, watermark_us: int) -> NDArray[np.bool_]:
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
