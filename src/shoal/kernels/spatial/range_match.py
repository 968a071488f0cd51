"""The kernel of continuous range queries: points, and the ranges that contain them while they are alive.

Table 0 holds points that wait for the watermark, table 1 ranges. Every row has one cell, and a point is compared with
the ranges of its cell only. A range has a row that begins its life, and perhaps one that ends it, equal to the first
in all columns but `until`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.identity import ids_of
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.order import due, group_numbers
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.expression.evaluate import holds
from shoal.kernels.kernel import NO_RESULTS, State, kept
from shoal.kernels.row_kernel import RowKernel
from shoal.kernels.spatial.range_index import RangeIndex
from shoal.kernels.spatial.shape_columns import coordinates, shapes_of
from shoal.kernels.worth import Learned, counts_of
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape

POINTS, RANGES = 0, 1
SINCE, UNTIL = "#since", "#until"
ENDLESS_US = 1 << 62
"""The end of a range that nothing has ended."""
Lives = tuple[Ints, Ints]
"""When ranges begin and end."""


@dataclass(frozen=True)
class RangeMatchKernel(RowKernel):
    """Pairs of points and ranges that contain them.

    `cells`: the columns of both inputs that hold the cell. `life`: the columns of the ranges' input that hold when a
    range began and ended; empty if ranges live for ever from their time on.
    """

    grid: Grid
    point: tuple[str, str]
    shape: Shape
    cells: tuple[str, str]
    life: tuple[str, ...]
    where: Expression | None
    outputs: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    times: tuple[str, str]

    results_per = "row"

    def keys(self, port: int) -> tuple[str, ...]:
        """The cell."""
        return (self.cells[port],)

    def table_keys(self, number: int, table: RowTable) -> list[Column]:
        """The cells of points, or of ranges."""
        return [table[self.cells[number]]]

    @cached_property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """The columns of both inputs that are compared or emitted."""
        compared = (self.point, self.shape.columns)
        emitted = [[column for _, column in outputs] for outputs in self.outputs]
        return [tuple(dict.fromkeys([self.cells[port], *compared[port], *emitted[port]])) for port in (POINTS, RANGES)]

    def reads(self, port: int) -> frozenset[str]:
        """Columns of an input that the kernel reads."""
        return super().reads(port) | (frozenset(self.life) if port == RANGES else frozenset())

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """Time and all columns; for a range also its life."""
        life = [table[SINCE], table[UNTIL]] if number == RANGES else []
        return [*super().identity(number, table), *life]

    def lift(self, port: int, block: Block) -> Tables:
        """The rows, with the lives of ranges."""
        lifted = super().lift(port, block)
        if not lifted or port == POINTS:
            return lifted
        table: RowTable = lifted[port]
        since, until = self._life(block, table[TIME])
        return {port: table.with_columns(**{SINCE: since, UNTIL: until})}

    def _life(self, block: Block, times: Ints) -> Lives:
        if not self.life:
            return times, np.full(times.size, ENDLESS_US)
        since, until = (block.columns[name] for name in self.life)
        return since, _filled(until)

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Compare the points before the watermark with the ranges, and drop ranges that have ended."""
        points, ranges = (
            concat_rows([each[number] for each in (state, fresh) if number in each]) for number in (POINTS, RANGES)
        )
        ready, waiting = due(points, after_us)
        if ranges is None:
            return kept({POINTS: waiting}), NO_RESULTS
        lives = self._lives(ranges)
        results = NO_RESULTS if ready is None else self._matched(ready, ranges, lives)
        return kept({POINTS: waiting, RANGES: ranges.where(lives[1] > after_us)}), results

    def _lives(self, ranges: RowTable) -> Lives:
        """When the range of each row begins and ends; an ending row never is."""
        since, until = ranges[SINCE], ranges[UNTIL].copy()
        ends = np.flatnonzero(until < ENDLESS_US)
        if not ends.size:
            return since, until
        columns = [ranges.instance, since, *(ranges[name] for name in self.columns[RANGES])]
        ids = ids_of(RANGES, columns, len(ranges))
        order = ends[np.argsort(ids[ends], kind="stable")]
        begins = np.flatnonzero(until == ENDLESS_US)
        places = np.minimum(np.searchsorted(ids[order], ids[begins]), order.size - 1)
        ended = ids[order][places] == ids[begins]
        until[begins[ended]] = until[order[places[ended]]]
        since = since.copy()
        since[ends] = ENDLESS_US
        return since, until

    def _matched(self, points: RowTable, ranges: RowTable, lives: Lives) -> Block:
        ours, theirs = self._pairs(points, ranges, lives)
        columns: dict[str, Column] = {INSTANCE: points.instance[ours]}
        columns |= {name: take(points[column], ours) for name, column in self.outputs[POINTS]}
        columns |= {name: take(ranges[column], theirs) for name, column in self.outputs[RANGES]}
        columns[TIME] = points[TIME][ours]
        matched = Block(columns, ours.size)
        if self.where is not None and matched.length:
            matched = matched.where(holds(self.where, matched))
        return matched

    def _pairs(self, points: RowTable, ranges: RowTable, lives: Lives) -> tuple[Ints, Ints]:
        """The points and ranges of one cell where the range contains the point."""
        x, y = coordinates(self.grid, self.point, points.columns)
        shapes = shapes_of(self.grid, self.shape, [ranges[name] for name in self.shape.columns])
        index = RangeIndex.of(ranges.instance, ranges[self.cells[RANGES]], shapes.box, *lives, degrees=shapes.degrees)
        ours, theirs = index.matches(points.instance, points[self.cells[POINTS]], x, y, points[TIME])
        if self.shape.kind == "rectangle":
            return ours, theirs
        inside = shapes.contain(x, y, ours, theirs)
        return ours[inside], theirs[inside]

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """A point is needed once the watermark passes it; a range at every watermark."""
        times: Ints = table[TIME] + 1
        return times if number == POINTS else None

    def due_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When the watermark passes a point; ranges alone give no results."""
        if number == RANGES:
            return np.full(len(table), ENDLESS_US)
        return np.maximum(table[TIME], watermark_us) + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for a point that waits; for a range, the points of its cell that wait, and one more."""
        table: RowTable = state.tables[number]
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
