"""The join kernel: pairs of rows of two inputs that match by time, key, and a band of values.

Rows of both sides are kept while a match may still arrive. Input is paired with state over an index: one side is sorted
by key and by the band's column, or by time, and each row of the other side looks up its range. A pair is emitted as
soon as both rows are present; an unmatched row, in outer joins, once the watermark rules out a match.

A row that is null in a key or in the band's column has no match. It is kept only if it is to be emitted unmatched. In a
band, as everywhere, NaN is equal to itself and larger than any other number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import ARROW_TYPES, Block, Column, take
from shoal.kernels.columns.nullable import DTYPES, Valid, all_null, both_valid, valid_of
from shoal.kernels.columns.order import group_numbers
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.compiled import compiled
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.expression.evaluate import holds
from shoal.kernels.kernel import NO_RESULTS, State, concat_blocks, kept
from shoal.kernels.loops import exceeds
from shoal.kernels.row_kernel import RowKernel
from shoal.kernels.worth import Learned, counts_of, expected, present_us
from shoal.model.control.fragment import NEVER_NEEDED_US
from shoal.model.query.expression import Expression
from shoal.model.query.schema import TIME, FieldType

MATCHED = "#met"
"""Column that says whether a row has had a match."""
HAS_LEFT, HAS_RIGHT = "has_left", "has_right"
LEFT, RIGHT = 0, 1
OLD, NEW = 0, 1
Reach = tuple[float | None, float | None]
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_KEY = "#key"


@dataclass(frozen=True)
class JoinKernel(RowKernel):
    """Pairs of rows of two inputs."""

    key_pairs: tuple[tuple[str, str], ...]
    lower_us: int
    upper_us: int
    band: tuple[str, str, float | None, float | None] | None
    where: Expression | None
    how: str
    outputs: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
    defaults: tuple[tuple[str, Any], ...]
    types: tuple[tuple[tuple[str, FieldType], ...], tuple[tuple[str, FieldType], ...]]
    times: tuple[str, str]

    on_arrival = True

    @cached_property
    def hold_us(self) -> int:  # type: ignore[override]
        """Unmatched rows are emitted late, with their own time."""
        left = max(0, self.upper_us) if self.how != "inner" else 0
        return max(left, -self.lower_us) if self.how == "full" else left

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """A row of an outer join knows whether it had a match, which may be gone."""
        return self.how == "inner"

    def keys(self, port: int) -> tuple[str, ...]:
        """The columns of a side that must equal those of the other."""
        return tuple(pair[port] for pair in self.key_pairs)

    def table_keys(self, number: int, table: RowTable) -> list[Column]:
        """The keys of a side's rows: table 0 holds the left rows, table 1 the right ones."""
        return [table[name] for name in self.keys(number)]

    @cached_property
    def columns(self) -> Sequence[tuple[str, ...]]:  # type: ignore[override]
        """The columns of both sides that are emitted or compared."""
        kept_columns = []
        for side in (LEFT, RIGHT):
            compared = [pair[side] for pair in self.key_pairs] + ([str(self.band[side])] if self.band else [])
            emitted = [column for _, column in self.outputs[side]]
            kept_columns.append(tuple(dict.fromkeys([*emitted, *compared])))
        return kept_columns

    def lift(self, port: int, block: Block) -> Tables:
        """The rows, all without a match yet."""
        lifted = super().lift(port, block)
        if not lifted:
            return lifted
        table: RowTable = lifted[port]
        if self.how == "inner" or (port == RIGHT and self.how == "left"):
            can_match = self._can_match(port, table)
            return lifted if can_match is None else kept({port: table.where(can_match)})
        return {port: table.with_columns(**{MATCHED: np.zeros(len(table), bool)})}

    def _can_match(self, side: int, table: RowTable) -> Valid | None:
        """The rows without a null in what is compared; None if that is all rows."""
        compared = [*self.keys(side), *([str(self.band[side])] if self.band else [])]
        valid = None
        for name in compared:
            valid = both_valid(valid, valid_of(table[name]))
        return valid

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Pair input with state and with itself, and drop rows that can have no further match."""
        sides: list[list[RowTable | None]] = [[state.get(side), fresh.get(side)] for side in (LEFT, RIGHT)]
        results = [self._paired(sides, *ages) for ages in ((NEW, OLD), (OLD, NEW), (NEW, NEW))]
        left, right = (concat_rows([table for table in side if table is not None]) for side in sides)
        if left is not None:
            left, unmatched = self._split(left, left[TIME] + self.upper_us >= after_us)
            if self.how != "inner" and len(unmatched):
                results.append(self._unmatched(unmatched, LEFT))
        if right is not None:
            right, unmatched = self._split(right, right[TIME] - self.lower_us >= after_us)
            if self.how == "full" and len(unmatched):
                results.append(self._unmatched(unmatched, RIGHT))
        return kept({LEFT: left, RIGHT: right}), concat_blocks([block for block in results if block.length])

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """When the watermark rules out a further match."""
        reach: Ints = table[TIME] + (self.upper_us if number == LEFT else -self.lower_us) + 1
        return reach

    def due_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When the watermark rules out a match; until then only rows of the other side give results."""
        return np.maximum(table[TIME] + (self.upper_us if number == LEFT else -self.lower_us), watermark_us) + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """The number of rows of its key that are expected on the other side while the row may still match them.

        The rate of a key on the other side is that of its rows in the state, and of one more, since a key may be new
        and rows may be dropped as soon as they are paired. A row that is emitted if it finds no match counts one more.
        """
        table: RowTable = state.tables[number]
        times = [each[TIME] for each in state.tables.values() if len(each)]
        now_us = present_us(state.watermark_us, max(int(each.max()) for each in times))
        elapsed_us = now_us - min(int(each.min()) for each in times)
        earliest_us, latest_us = (self.lower_us, self.upper_us) if number == LEFT else (-self.upper_us, -self.lower_us)
        left_us = table[TIME] + latest_us - np.maximum(table[TIME] + earliest_us, now_us)
        utility = expected(1 + self._partners(number, state), elapsed_us, left_us)
        if (can_match := self._can_match(number, table)) is not None:
            utility *= can_match
        return utility + ~table[MATCHED] if MATCHED in table.columns else utility

    def _partners(self, number: int, state: State) -> Ints:
        """The number of rows on the other side with the key of each row."""
        table, other = state.tables[number], state.tables.get(1 - number)
        if other is None:
            return np.zeros(len(table), np.int64)
        groups = self._groups(*((table, other) if number == LEFT else (other, table)))
        return counts_of(groups[1 - number], size=1 + int(groups[number].max()))[groups[number]]

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound."""
        return unbounded("how many rows would have matched the lost ones is not known") if lost else NONE_LOST

    def needed_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When an unmatched row is emitted; the watermark brings no other results."""
        if MATCHED not in table.columns:
            return np.full(len(table), NEVER_NEEDED_US)
        expires = self.deadlines_us(number, table)
        return np.full(len(table), watermark_us + 1) if expires is None else np.maximum(expires, watermark_us + 1)

    def _split(self, table: RowTable, alive: NDArray[np.bool_]) -> tuple[RowTable, RowTable]:
        """The rows that may still have a match, and those that had none and never will."""
        unmatched = ~alive & ~table[MATCHED] if MATCHED in table.columns else np.zeros(len(table), bool)
        return table.where(alive), table.take(np.flatnonzero(unmatched))

    def _paired(self, sides: list[list[RowTable | None]], our_age: int, their_age: int) -> Block:
        """The pairs of two tables as results; marks their rows as matched, in `sides`."""
        left, right = sides[LEFT][our_age], sides[RIGHT][their_age]
        if left is None or right is None:
            return NO_RESULTS
        lefts, rights = self._pairs_without_nulls(left, right)
        joined = self._joined(left, right, lefts, rights)
        if self.where is not None and joined.length:
            fits = np.flatnonzero(holds(self.where, joined))
            joined, lefts, rights = joined.take(fits), lefts[fits], rights[fits]
        sides[LEFT][our_age] = _with_matched(left, lefts)
        sides[RIGHT][their_age] = _with_matched(right, rights)
        return joined

    def _pairs_without_nulls(self, left: RowTable, right: RowTable) -> tuple[Ints, Ints]:
        """Rows of both tables that match; a row with a null in what is compared matches none."""
        valid = self._can_match(LEFT, left), self._can_match(RIGHT, right)
        if valid[LEFT] is None and valid[RIGHT] is None:
            return self._pairs(left, right)
        ours, theirs = (
            np.arange(len(table)) if mask is None else np.flatnonzero(mask)
            for table, mask in zip((left, right), valid, strict=True)
        )
        if not ours.size or not theirs.size:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        lefts, rights = self._pairs(left.take(ours), right.take(theirs))
        return ours[lefts], theirs[rights]

    def _pairs(self, left: RowTable, right: RowTable) -> tuple[Ints, Ints]:
        """Rows of both tables with equal keys, close in time and within the band."""
        ours, theirs = self._groups(left, right)
        times = left[TIME], right[TIME]
        within = (self.lower_us, self.upper_us)
        values: tuple[NDArray[Any], NDArray[Any]] = times
        reach: Reach = within
        if self.band is not None:
            values, reach = (left[self.band[0]], right[self.band[1]]), self.band[2:]
        order = np.lexsort((values[1], theirs))
        size = int(max(ours.max(), theirs.max())) + 1
        begin = np.searchsorted(theirs[order], np.arange(size + 1))
        rows = (ours, values[0], *_reached(values[0], reach), times[0])
        index = (begin, values[1][order], times[1][order])
        least, most = (-np.inf if reach[0] is None else reach[0]), (np.inf if reach[1] is None else reach[1])
        bounds = (float(least), float(most), values[0].dtype == np.float64)
        counts, nothing = np.empty(len(left), np.int64), np.zeros(0, np.int64)
        _find_pairs(rows, index, bounds, within, counts, nothing, nothing)
        lefts, rights = np.empty(int(counts.sum()), np.int64), np.empty(int(counts.sum()), np.int64)
        _find_pairs(rows, index, bounds, within, counts, lefts, rights)
        return lefts, order[rights]

    def _groups(self, left: RowTable, right: RowTable) -> tuple[Ints, Ints]:
        names = [f"{_KEY}{i}" for i in range(len(self.key_pairs))]
        sides = [
            RowTable({INSTANCE: table.instance, **dict(zip(names, self.table_keys(side, table), strict=True))})
            for side, table in ((LEFT, left), (RIGHT, right))
        ]
        ours, theirs = group_numbers(sides, names)
        return ours, theirs

    def _joined(self, left: RowTable, right: RowTable, lefts: Ints, rights: Ints) -> Block:
        columns: dict[str, Column] = {INSTANCE: left.instance[lefts]}
        columns |= {name: take(left[column], lefts) for name, column in self.outputs[LEFT]}
        columns |= {name: take(right[column], rights) for name, column in self.outputs[RIGHT]}
        columns |= self._flags(lefts.size, has_left=True, has_right=True)
        columns[TIME] = np.maximum(left[TIME][lefts], right[TIME][rights])
        return Block(columns, lefts.size)

    def _unmatched(self, table: RowTable, side: int) -> Block:
        """Results for unmatched rows: the other side has its defaults or nulls, except for keys of the same name."""
        defaults = dict(self.defaults)
        same = {ours for ours, theirs in self.key_pairs if ours == theirs}
        columns: dict[str, Column] = {INSTANCE: table.instance}
        for number, outputs in enumerate(self.outputs):
            types = dict(self.types[number])
            for name, column in outputs:
                there = number == side or (name in same and name in table.columns)
                columns[name] = table[column] if there else _repeated(defaults.get(name), types[column], len(table))
        columns |= self._flags(len(table), has_left=side == LEFT, has_right=side == RIGHT)
        columns[TIME] = table[TIME]
        return Block(columns, len(table))

    def _flags(self, length: int, *, has_left: bool, has_right: bool) -> Mapping[str, Column]:
        if self.how == "inner":
            return {}
        flags = {HAS_LEFT: np.full(length, has_left), HAS_RIGHT: np.full(length, has_right)}
        return flags if self.how == "full" else {HAS_RIGHT: flags[HAS_RIGHT]}


def _with_matched(table: RowTable, rows: Ints) -> RowTable:
    """A table with the given rows marked as matched."""
    if MATCHED not in table.columns or not rows.size:
        return table
    matched = table[MATCHED].copy()
    matched[rows] = True
    return table.with_columns(**{MATCHED: matched})


def _reached(values: NDArray[Any], reach: Reach) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and largest match of each value; None leaves a bound open.

    Bounds of floats have some slack, because a sum of floats is not the exact inverse of their difference. NaN, the
    largest number, is an open upper bound.
    """
    least, most = reach
    if values.dtype == np.float64:
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        slack = 1e-15 * (largest + sum(abs(bound) for bound in reach if bound is not None and np.isfinite(bound)))
        low = np.full(values.size, -np.inf) if least is None else values + least - slack
        return low, np.full(values.size, np.nan) if most is None else values + most + slack
    low, none_above = _sums(values, _SMALLEST if least is None else math.ceil(least), is_open=least is None)
    high, none_below = _sums(values, _LARGEST if most is None else math.floor(most), is_open=most is None)
    empty = (none_above > 0) | (none_below < 0)
    low[empty], high[empty] = _LARGEST, _SMALLEST
    return low, high


def _sums(values: Ints, by: int, *, is_open: bool) -> tuple[Ints, Ints]:
    """Add a number to integers, clamped to 64 bits; also returns the direction of each overflow."""
    by = min(max(by, _SMALLEST), _LARGEST)
    if is_open:
        return np.full(values.size, by), np.zeros(values.size, np.int64)
    beyond = (values > _LARGEST - by).astype(np.int64) if by > 0 else -(values < _SMALLEST - by).astype(np.int64)
    return np.where(beyond == 0, values + by, np.where(beyond > 0, _LARGEST, _SMALLEST)), beyond


def _repeated(value: Any, type_: FieldType, length: int) -> Column:
    """A column of one value; None is null."""
    if value is None:
        return all_null(type_, length)
    if type_ in DTYPES:
        return np.full(length, value, DTYPES[type_])
    return pa.array([value] * length, ARROW_TYPES[type_])


@compiled
def _find_pairs(
    rows: tuple[Ints, NDArray[Any], NDArray[Any], NDArray[Any], Ints],
    index: tuple[Ints, NDArray[Any], Ints],
    bounds: tuple[float, float, bool],
    within: tuple[int, int],
    counts: Ints,
    lefts: Ints,
    rights: Ints,
) -> None:
    """Find, for every row (group, value, least, most, time), the others of its group in its range of values and times.

    Counts pairs if `lefts` is empty, else lists them. The index is sorted by group and value.
    `bounds`: the range of differences, and whether to check it, which floats need. Where a difference is not a number,
    the range of values has decided.
    """
    groups, values, least, most, times = rows
    begin, others, other_times = index
    used = 0
    for i in range(groups.size):
        first, stop = begin[groups[i]], begin[groups[i] + 1]
        end = stop
        while first < end:
            middle = (first + end) // 2
            if exceeds(least[i], others[middle]):
                first = middle + 1
            else:
                end = middle
        found = 0
        while first < stop and not exceeds(others[first], most[i]):
            close = within[0] <= other_times[first] - times[i] <= within[1]
            apart = others[first] - values[i]
            if close and (not bounds[2] or bounds[0] <= apart <= bounds[1] or np.isnan(apart)):
                if lefts.size:
                    lefts[used] = i
                    rights[used] = first
                    used += 1
                found += 1
            first += 1
        counts[i] = found
