"""The kernel of continuous range queries: points, and the ranges that contain them while they are alive.

Table 0 holds points that wait for the watermark, table 1 ranges, which are laid out for a search. Every row has one
cell, and a point is compared with the ranges of its cell only. The row that ends a range equals it in all columns but
`until`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.effort import Effort
from shoal.kernels.columns.identity import ids_of
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.order import due, group_numbers
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.expression.evaluate import holds
from shoal.kernels.kernel import NO_RESULTS, State, kept
from shoal.kernels.row_kernel import RowKernel
from shoal.kernels.spatial.coverage import cells_of
from shoal.kernels.spatial.range_run import BOX, CELL, ENDLESS_US, ID, SHAPE, SINCE, UNTIL, RangeRun
from shoal.kernels.spatial.range_table import RangeTable, concat_ranges, merged_ranges
from shoal.kernels.spatial.shape_columns import coordinates, shapes_of
from shoal.kernels.spatial.tile_counts import PlacedRows
from shoal.kernels.worth import Learned, counts_of
from shoal.model.control.fragment import NEVER_NEEDED_US
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape

POINTS, RANGES = 0, 1


@dataclass(frozen=True)
class RangeMatchKernel(RowKernel):
    """Pairs of points and ranges that contain them.

    `cells`: the columns of both inputs that hold the cell. Of the ranges' input, `ids` tell ranges apart, and `life`
    says when a range began and ended; it is empty if ranges live for ever from their time on.
    """

    grid: Grid
    point: tuple[str, str]
    shape: Shape
    cells: tuple[str, str]
    ids: tuple[str, ...]
    life: tuple[str, ...]
    where: Expression | None
    outputs: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    times: tuple[str, str]

    results_per = "row"
    by_place = True

    def keys(self, port: int) -> tuple[str, ...]:
        """The cell."""
        return (self.cells[port],)

    def table_keys(self, number: int, table: Any) -> list[Column]:
        """The cells of points, or of ranges."""
        return [table[self.cells[POINTS] if number == POINTS else CELL]]

    @cached_property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """The columns of points that are compared or emitted, and those of ranges that are emitted."""
        ours, theirs = ([column for _, column in outputs] for outputs in self.outputs)
        return [tuple(dict.fromkeys([self.cells[POINTS], *self.point, *ours])), tuple(dict.fromkeys(theirs))]

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel reads."""
        compared = {*self.shape.columns, *self.ids, *self.life, self.cells[RANGES]} if port == RANGES else set[str]()
        return super().reads(port) | compared

    def identity(self, number: int, table: Any) -> list[Column]:
        """Time and all columns of a point; cell, number and beginning of a range, and of what ends it."""
        return [table[CELL], table[ID], table[SINCE]] if number == RANGES else super().identity(number, table)

    def late(self, port: int, block: Block, watermark_us: int) -> NDArray[np.bool_]:
        """Points before the watermark, and ranges without lives.

        What begins or ends a life is never late: otherwise a range would not end, or an end would wait for ever. It
        counts for the points that are still to be compared.
        """
        if port == RANGES and self.life:
            return np.zeros(block.length, bool)
        return super().late(port, block, watermark_us)

    def lift(self, port: int, block: Block) -> Tables:
        """The points, or the ranges with their boxes and lives."""
        lifted = super().lift(port, block)
        if not lifted or port == POINTS:
            return lifted
        rows: RowTable = lifted[port]
        since, until = self._life(block, rows[TIME])
        shapes = shapes_of(self.grid, self.shape, [block.columns[name] for name in self.shape.columns])
        added: dict[str, Column] = {
            CELL: block.columns[self.cells[RANGES]],
            BOX: shapes.box,
            SINCE: since,
            UNTIL: until,
        }
        if self.shape.kind != "rectangle":
            added[SHAPE] = shapes.lists()
        identifying = [block.columns[name] for name in dict.fromkeys((*self.ids, *self.columns[RANGES]))]
        added[ID] = ids_of(RANGES, identifying, len(rows)).view(np.int64)
        rows = RowTable({name: column for name, column in rows.columns.items() if name != TIME} | added)
        ends = until < ENDLESS_US if self.life else np.zeros(len(rows), bool)
        return {port: RangeTable((RangeRun(rows.where(~ends)),), rows.where(ends) if ends.any() else None)}

    def _life(self, block: Block, times: Ints) -> tuple[Ints, Ints]:
        if not self.life:
            return times, np.full(times.size, ENDLESS_US)
        since, until = (block.columns[name] for name in self.life)
        return since, _filled(until)

    def merged(self, tables: Sequence[Tables]) -> Tables:
        """Points one after another; ranges with their ends."""
        return self._together(tables, merged_ranges)

    def concatenated(self, tables: Sequence[Tables]) -> Tables:
        """The rows one after another."""
        return self._together(tables, concat_ranges)

    def _together(self, tables: Sequence[Tables], ranges: Callable[[Sequence[RangeTable]], RangeTable]) -> Tables:
        points = concat_rows([each[POINTS] for each in tables if POINTS in each])
        several = [each[RANGES] for each in tables if RANGES in each]
        return kept({POINTS: points, RANGES: ranges(several) if several else None})

    def placed(self, tables: Tables) -> PlacedRows:
        """The cells of points, and those of ranges with what the range has before each."""
        points, ranges = tables.get(POINTS), tables.get(RANGES)
        cells: Ints = np.zeros(0, np.int64) if points is None else points[self.cells[POINTS]]
        if ranges is None or not len(ranges):
            return PlacedRows(self.grid.columns, cells, cells[:0], np.zeros(0, np.int8))
        begun, ended = np.arange(ranges.starts[-1]), np.flatnonzero(ranges[UNTIL] < ENDLESS_US)  # some rows are both
        rows, box = np.concatenate([begun, ended]), ranges[BOX]
        first = cells_of(self.grid, box[rows, 0], box[rows, 1])
        return PlacedRows.of(self.grid.columns, cells, ranges[CELL][rows], first, np.arange(rows.size) >= begun.size)

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Compare the points before the watermark with the ranges; drop ranges that are over, and ends without one."""
        both = self.merged([each for each in (state, fresh) if each])
        ready, waiting = due(both.get(POINTS), after_us)
        ranges: RangeTable | None = both.get(RANGES)
        if ranges is None:
            return kept({POINTS: waiting}), NO_RESULTS
        ranges = ranges.ready()
        results = NO_RESULTS if ready is None else self._matched(ready, ranges)
        return kept({POINTS: waiting, RANGES: ranges.without_dead(after_us)}), results

    def _matched(self, points: RowTable, ranges: RangeTable) -> Block:
        x, y = coordinates(self.grid, self.point, points.columns)
        where = points.instance, points[self.cells[POINTS]], x, y, points[TIME]
        ours, theirs = ranges.matches(*where, degrees=self.grid.units == "degrees")
        found = ranges.rows(theirs, [column for _, column in self.outputs[RANGES]])
        columns: dict[str, Column] = {INSTANCE: points.instance[ours]}
        columns |= {name: take(points[column], ours) for name, column in self.outputs[POINTS]}
        columns |= {name: found[column] for name, column in self.outputs[RANGES]}
        columns[TIME] = points[TIME][ours]
        matched = Block(columns, ours.size)
        if self.where is not None and matched.length:
            matched = matched.where(holds(self.where, matched))
        return matched

    def effort(self, before: Tables, fresh: Tables, after: Tables, after_us: int, instances: int) -> Effort:
        """Comparisons of the points before the watermark with ranges nearby, and ranges that begin and end.

        Ranges that are over and were dropped after the comparison are left out.
        """
        points = concat_rows([each[POINTS] for each in (before, fresh) if POINTS in each])
        ready, _ = due(points, after_us)
        ranges: RangeTable | None = after.get(RANGES)
        found, came = Effort.none(instances), fresh.get(RANGES)
        if ready is not None and ranges is not None:
            x, y = coordinates(self.grid, self.point, ready.columns)
            met = ranges.met(ready.instance, ready[self.cells[POINTS]], x, y, ready[TIME])
            np.add.at(found.looked_up, ready.instance, 1)
            np.add.at(found.compared, ready.instance, met)
        if came is not None:
            starts = came.starts[-1]
            np.add.at(found.begun, came.instance[:starts], 1)
            np.add.at(found.ended, came.instance[starts:], 1)
        return found

    def deadlines_us(self, number: int, table: Any) -> Ints | None:
        """A point is needed once the watermark passes it; a range at every watermark."""
        if number == RANGES:
            return None
        times: Ints = table[TIME] + 1
        return times

    def due_us(self, number: int, table: Any, watermark_us: int) -> Ints:
        """When the watermark passes a point; ranges alone give no results."""
        if number == RANGES:
            return np.full(len(table), NEVER_NEEDED_US)
        return np.maximum(table[TIME], watermark_us) + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for a point that waits; for a range, the points of its cell that wait, and one more."""
        table = state.tables[number]
        points = state.tables.get(POINTS)
        if number == POINTS or points is None:
            return np.ones(len(table))
        keys = [
            RowTable({INSTANCE: each.instance, "cell": self.table_keys(n, each)[0]})
            for n, each in ((POINTS, points), (RANGES, table))
        ]
        ours, theirs = group_numbers(keys, ["cell"])
        waiting = counts_of(ours, size=int(max(ours.max(), theirs.max())) + 1)
        return (waiting + 1).astype(np.float64)[theirs]

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound: a lost point may be in any number of ranges, and a lost range misses points to come."""
        if not lost:
            return NONE_LOST
        return unbounded("how many points would have been in the lost ranges is not known")


def _filled(until: Column) -> Ints:
    """Ends of lives, where null is none."""
    if isinstance(until, Nullable):
        return np.where(until.valid, until.values, ENDLESS_US)
    return np.asarray(until, np.int64)
