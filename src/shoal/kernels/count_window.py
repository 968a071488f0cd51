"""The kernel of windows that rows close: windows of a number of rows, and windows over a time other than event time.

Rows wait until the watermark has passed them and are then processed in order, key by key. A piece is the contribution
of some rows of a key to windows: a pane, the first window that it may still count in, and running values. Table 0
holds the waiting rows, table 1 the pieces, table 2 the progress of each key: its number of rows, or its largest time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.aggregate.cells import Codes, cells_of, codes_of
from shoal.kernels.aggregate.closing import LARGEST_EXPANSION
from shoal.kernels.aggregate.slots import FilledCells, Slot, merged_values, partial_values, result_columns, slots_of
from shoal.kernels.aggregate.windowed import WINDOW_END
from shoal.kernels.columns.block import Block, Column, concat, take
from shoal.kernels.columns.order import due, group_numbers, in_order
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.compiled import compiled
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.kernel import FOREVER_US, NO_RESULTS, ResultsPer, State, concat_blocks, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned, counts_of
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.schema import TIME
from shoal.model.query.window import Rows, Window

_PANE, _FROM = "#pane", "#from"
_PROGRESS, _LAST_TIME = "#come", "#seen"
NEVER = -(1 << 62)


@dataclass(frozen=True)
class RowMeasure:
    """A window in panes of `unit`: windows are `span` panes long, every `step` panes, one of them ends at `offset`.

    `first` is the first pane at which a window may end.
    """

    unit: int
    span: int
    step: int
    offset: int
    first: int

    @classmethod
    def of(cls, window: Rows | Window) -> "RowMeasure":
        """The measure of a window."""
        if isinstance(window, Window):
            return cls(window.slide_us, window.panes, 1, 0, NEVER)
        unit = math.gcd(window.size, window.jump)
        span = window.size // unit
        return cls(unit, span, window.jump // unit, span, 1 if window.partial else span)


@dataclass(frozen=True)
class CountWindowKernel(WholeRowKernel):
    """Aggregates per key over windows that are closed by rows of the key.

    `nullable`: the aggregated columns that may be null.
    """

    key_names: tuple[str, ...]
    window: Rows | Window
    aggregates: tuple[tuple[str, Aggregate], ...]
    names: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    time: str
    nullable: tuple[str, ...] = ()

    @property
    def results_per(self) -> ResultsPer:  # type: ignore[override]
        """Windows of a number of rows close in proportion to the rows."""
        return "row" if isinstance(self.window, Rows) else ""

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The running values kept per piece."""
        return slots_of([aggregate for _, aggregate in self.aggregates], dict(self.types), self.nullable)

    @cached_property
    def measure(self) -> RowMeasure:
        """The window, in panes."""
        return RowMeasure.of(self.window)

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """Process the rows before the watermark, key by key, and emit the windows that they close."""
        rows = concatenated_rows([{n: t for n, t in state.items() if n == 0}, fresh]).get(0)
        ready, waiting = due(rows, after_us)
        ending = after_us >= FOREVER_US // 2 and isinstance(self.window, Window)
        if ready is None and not ending:
            return kept({0: waiting, 1: state.get(1), 2: state.get(2)}), NO_RESULTS
        ready = self._empty(state) if ready is None else ready
        if ready is None:
            return kept({0: waiting}), NO_RESULTS
        step = _Step(self, ready, state.get(1), state.get(2), ending=ending)
        results = step.results()
        if ending and results.length:  # closed by the end, not by a row: results must not precede earlier results
            results = Block({**results.columns, TIME: np.maximum(results.columns[TIME], before_us)}, results.length)
        return kept({0: waiting, 1: step.pieces_left(), 2: step.progress()}), results

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """All columns of a waiting row; key, pane and first window of a piece; the key of a row of progress."""
        columns = super().identity(number, table)
        return [*columns, table[_PANE], table[_FROM]] if number == 1 else columns

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """The rate of the key, relative to others: its rows so far, or those in open windows of another time."""
        numbers = sorted(number for number, table in state.tables.items() if len(table))
        groups = dict(
            zip(numbers, group_numbers([state.tables[each] for each in numbers], self.key_names), strict=True)
        )
        size = 1 + max(int(each.max()) for each in groups.values())
        total = counts_of(groups[0], size=size) if 0 in groups else np.zeros(size, np.int64)
        known, column = (2, _PROGRESS) if isinstance(self.window, Rows) else (1, "#slot0")
        if known in groups:
            total = total + counts_of(groups[known], state.tables[known][column], size)
        return total[groups[number]].astype(np.float64)

    def input_rows(self, number: int, table: RowTable) -> int:
        """Waiting rows, and the rows of pieces."""
        return int(table["#slot0"].sum()) if number == 1 else super().input_rows(number, table)

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound."""
        if not lost:
            return NONE_LOST
        return unbounded("all later windows of a key begin and end at other rows")

    def _empty(self, state: Tables) -> RowTable | None:
        known: RowTable | None = state.get(2)
        if known is None:
            return None
        row = np.zeros(0, np.int64)
        types = dict(self.types)
        columns = {name: take(known[name], row) if name in self.key_names else row for name in self.names}
        columns |= {
            n: row.astype(np.float64) for n in self.names if n not in self.key_names and types.get(n) == "float64"
        }
        return RowTable({INSTANCE: row, TIME: row, **columns})


class _Step:
    """One pass over rows in order; rows, pieces and known keys share one numbering of groups."""

    def __init__(
        self,
        kernel: CountWindowKernel,
        ready: RowTable,
        pieces: RowTable | None,
        known: RowTable | None,
        *,
        ending: bool,
    ) -> None:
        self.kernel, self.pieces, self.known = kernel, pieces, known
        tables = [table for table in (ready, pieces, known) if table is not None]
        numbers = iter(group_numbers(tables, kernel.key_names))
        groups = next(numbers)
        self.piece_groups = next(numbers) if pieces is not None else np.zeros(0, np.int64)
        self.known_groups = next(numbers) if known is not None else np.zeros(0, np.int64)
        order = in_order(groups, ready, kernel.names)
        self.rows, self.groups = ready.take(order), groups[order]
        self.size = max((int(n.max()) + 1 for n in (groups, self.piece_groups, self.known_groups) if n.size), default=0)
        self._measure_rows(ending)

    def _measure_rows(self, ending: bool) -> None:
        """Compute the pane of every row, the first window it may count in, and the progress of each group."""
        kernel, unit = self.kernel, self.kernel.measure.unit
        external = isinstance(kernel.window, Window)
        before = np.full(self.size, NEVER if external else 0, np.int64)
        if self.known is not None:
            before[self.known_groups] = self.known[_PROGRESS]
        self.before = before
        self.reached = np.empty(self.groups.size, np.int64)
        after = before.copy()
        values = (
            self.rows[kernel.window.on] if isinstance(kernel.window, Window) else np.ones(self.groups.size, np.int64)
        )
        _progress(self.groups, values, external, after, self.reached)
        self.after = after
        self.panes = (values if external else self.reached - 1) // unit
        earlier = np.empty(self.groups.size, np.int64)
        _earlier(self.groups, self.reached, before, earlier)
        self.first = np.maximum(self.panes, earlier // unit) + 1 if external else self.panes + 1
        self.closed = np.full(self.size, NEVER if not ending else 1 << 61, np.int64)
        if not ending:
            self.closed = after // unit

    @cached_property
    def _all_pieces(self) -> tuple[Ints, Ints, Ints, list[NDArray[np.generic]], RowTable]:
        """Groups, panes, first windows, values and keys of old and new pieces."""
        kernel = self.kernel
        timely = np.flatnonzero(self.first <= self.panes + kernel.measure.span)
        rows, groups = self.rows.take(timely), self.groups[timely]
        panes, first = self.panes[timely], self.first[timely]
        coded = [Codes(groups, self.size), codes_of(panes), codes_of(first)]
        cells = cells_of(coded, timely.size)
        filled = FilledCells.of(cells.of_row, cells.size)
        values, sample = partial_values(kernel.slots, filled, rows.block), filled.sample
        keys = rows.take(sample)
        owners = RowTable({INSTANCE: keys.instance, **{key: keys[key] for key in kernel.key_names}})
        groups, panes, first = groups[sample], panes[sample], first[sample]
        if self.pieces is None:
            return groups, panes, first, values, owners
        old = self.pieces
        both = concat_rows([RowTable({INSTANCE: old.instance, **{key: old[key] for key in kernel.key_names}}), owners])
        values = [concat([old[f"#slot{i}"], value]) for i, value in enumerate(values)]
        return (
            np.concatenate([self.piece_groups, groups]),
            np.concatenate([old[_PANE], panes]),
            np.concatenate([old[_FROM], first]),
            values,
            owners if both is None else both,
        )

    def results(self) -> Block:
        """The windows that the rows have closed."""
        measure = self.kernel.measure
        groups, panes, first, *_ = self._all_pieces
        lowest = np.maximum(first, self.before[groups] // measure.unit + 1)
        lowest = np.maximum(lowest, measure.first)
        highest = np.minimum(panes + measure.span, self.closed[groups])
        runs = _runs(lowest, highest, measure)
        return concat_blocks([self._run_results(lowest, highest, *run) for run in runs]) if runs else NO_RESULTS

    def _run_results(self, lowest: Ints, highest: Ints, first: int, last: int) -> Block:
        """The closed windows number first..last."""
        kernel, measure = self.kernel, self.kernel.measure
        groups, _, _, values, owners = self._all_pieces
        pieces, windows = _windows(np.maximum(lowest, first), np.minimum(highest, last), measure)
        cells = cells_of([Codes(groups[pieces], self.size), codes_of(windows)], pieces.size)
        used = np.zeros(cells.size, bool)
        used[cells.of_row] = True
        number = np.cumsum(used) - 1
        size = int(number[-1]) + 1
        dense = number[cells.of_row]
        sample = np.zeros(size, np.int64)
        sample[dense] = np.arange(pieces.size)
        merged = merged_values(kernel.slots, values, pieces, dense, size)
        owner, window = pieces[sample], windows[sample]
        times = self._closing_times(groups[owner], window * measure.unit)
        ends = window * measure.unit if isinstance(kernel.window, Window) else times
        columns = {
            INSTANCE: owners.instance[owner],
            **{key: take(owners[key], owner) for key in kernel.key_names},
            WINDOW_END: ends,
            **result_columns(kernel.aggregates, dict(kernel.types), kernel.slots, merged),
            TIME: times,
        }
        return Block(columns, size)

    def _closing_times(self, groups: Ints, ends: Ints) -> Ints:
        """Event time of the row that closed each window: the first of its group to reach the end."""
        begin = np.searchsorted(self.groups, np.arange(self.size + 1))
        times = np.empty(groups.size, np.int64)
        last_times = np.full(self.size, NEVER, np.int64)
        if self.known is not None:
            last_times[self.known_groups] = self.known[_LAST_TIME]
        _first_to_reach(begin, self.reached, self.rows[TIME], groups, ends, last_times, times)
        return times

    def pieces_left(self) -> RowTable | None:
        """Pieces that may still count in a window."""
        groups, panes, first, values, owners = self._all_pieces
        measure = self.kernel.measure
        alive = panes + measure.span > self.closed[groups]
        rows = np.flatnonzero(alive)
        if not rows.size:
            return None
        left = owners.take(rows).columns
        first = np.maximum(first[rows], self.closed[groups[rows]] + 1)
        cells = cells_of([Codes(groups[rows], self.size), codes_of(panes[rows]), codes_of(first)], rows.size)
        used = np.zeros(cells.size, bool)
        used[cells.of_row] = True
        dense = (np.cumsum(used) - 1)[cells.of_row]
        size = int(dense.max()) + 1
        sample = np.zeros(size, np.int64)
        sample[dense] = np.arange(rows.size)
        merged = merged_values(self.kernel.slots, [value[rows] for value in values], np.arange(rows.size), dense, size)
        slots = {f"#slot{i}": value for i, value in enumerate(merged)}
        kept_columns = {name: take(column, sample) for name, column in left.items()}
        return RowTable({**kept_columns, _PANE: panes[rows][sample], _FROM: first[sample], **slots})

    def progress(self) -> RowTable | None:
        """The progress of every group, and the time of its last row."""
        last = np.flatnonzero(np.diff(self.groups, append=-1))
        rows = self.rows.take(last)
        updated = RowTable(
            {
                INSTANCE: rows.instance,
                **{key: rows[key] for key in self.kernel.key_names},
                _PROGRESS: self.after[self.groups[last]],
                _LAST_TIME: rows[TIME],
            }
        )
        if self.known is None:
            return updated
        return concat_rows([self.known.where(~np.isin(self.known_groups, self.groups)), updated])


def _runs(lowest: Ints, highest: Ints, measure: RowMeasure) -> list[tuple[int, int]]:
    """Split the numbers of closed windows into runs of limited size: pieces, counted once per window."""
    some = lowest <= highest
    if not some.any():
        return []
    return list(_halved(lowest, highest, measure, int(lowest[some].min()), int(highest[some].max())))


def _halved(lowest: Ints, highest: Ints, measure: RowMeasure, first: int, last: int) -> Iterator[tuple[int, int]]:
    bounds = np.maximum(lowest, first), np.minimum(highest, last)
    pairs = _count_windows(*bounds, measure.step, measure.offset)
    if first == last or pairs <= LARGEST_EXPANSION:
        if pairs:
            yield first, last
        return
    middle = (first + last) // 2
    yield from _halved(lowest, highest, measure, first, middle)
    yield from _halved(lowest, highest, measure, middle + 1, last)


def _windows(lowest: Ints, highest: Ints, measure: RowMeasure) -> tuple[Ints, Ints]:
    """Pairs of a piece and a window between its lowest and highest one."""
    total = _count_windows(lowest, highest, measure.step, measure.offset)
    pieces, windows = np.empty(total, np.int64), np.empty(total, np.int64)
    _list_windows(lowest, highest, measure.step, measure.offset, pieces, windows)
    return pieces, windows


@compiled
def _count_windows(lowest: Ints, highest: Ints, step: int, offset: int) -> int:
    total = 0
    for i in range(lowest.size):
        first = lowest[i] + (offset - lowest[i]) % step
        if first <= highest[i]:
            total += (highest[i] - first) // step + 1
    return total


@compiled
def _list_windows(lowest: Ints, highest: Ints, step: int, offset: int, pieces: Ints, windows: Ints) -> None:
    used = 0
    for i in range(lowest.size):
        window = lowest[i] + (offset - lowest[i]) % step
        while window <= highest[i]:
            pieces[used] = i
            windows[used] = window
            used += 1
            window += step


@compiled
def _progress(groups: Ints, values: Ints, external: bool, progress: Ints, after_row: Ints) -> None:
    """The progress of each group after every row: the number of rows, or the largest value."""
    for i in range(groups.size):
        group = groups[i]
        progress[group] = max(progress[group], values[i]) if external else progress[group] + values[i]
        after_row[i] = progress[group]


@compiled
def _earlier(groups: Ints, reached: Ints, before: Ints, earlier: Ints) -> None:
    """The progress of each row's group before the row."""
    for i in range(groups.size):
        earlier[i] = reached[i - 1] if i > 0 and groups[i] == groups[i - 1] else before[groups[i]]


@compiled
def _first_to_reach(
    begin: Ints, reached: Ints, times: Ints, groups: Ints, ends: Ints, last_times: Ints, out: Ints
) -> None:
    """Time of the first row of a group that reached an end; of the group's last row if none did."""
    for i in range(groups.size):
        low, high = begin[groups[i]], begin[groups[i] + 1]
        stop = high
        while low < high:
            middle = (low + high) // 2
            if reached[middle] >= ends[i]:
                high = middle
            else:
                low = middle + 1
        if low < stop:
            out[i] = times[low]
        elif stop > begin[groups[i]]:
            out[i] = times[stop - 1]
        else:
            out[i] = last_times[groups[i]]
