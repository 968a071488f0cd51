"""The pattern kernel: matches of a pattern in the rows of each key, in the order of event time.

Rows wait in table 0 until the watermark has passed them. Table 1 holds the partial match of each key: the rows from
the first one on at which an undecided match may begin, which move as one. Each of these rows carries the variables it
fits, so that conditions are evaluated once, and its position among equal rows. Table 2 holds every key's last row if a
condition reads the previous row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column, take
from shoal.kernels.columns.nullable import both_valid, nullable, valid_of, values_of
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.columns.order import due, group_numbers, in_order, starts
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import NONE_LOST, ErrorBound, ErrorBounds, unbounded
from shoal.kernels.expression.evaluate import PREVIOUS, holds
from shoal.kernels.kernel import FOREVER_US, NO_RESULTS, State, kept
from shoal.kernels.pattern.search import SearchProgram, search
from shoal.kernels.pattern.stages import least_reached, stages_of, stages_reached
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned, present_us
from shoal.model.query.expression import Expression
from shoal.model.query.pattern import Measure, Pattern, uses_previous
from shoal.model.query.schema import TIME

_FITS, _BEGINS, _POSITION = "#fits", "#begins", "#place"


@dataclass(frozen=True)
class MatchKernel(WholeRowKernel):
    """Matches of a pattern, each with its measures."""

    key_names: tuple[str, ...]
    pattern: Pattern
    define: tuple[tuple[str, Expression], ...]
    measures: tuple[tuple[str, Measure], ...]
    within_us: int
    after: str
    selection: str
    names: tuple[str, ...]
    time: str

    learns = True

    @cached_property
    def hold_us(self) -> int:  # type: ignore[override]
        """A match has the time of its last row and may become final only `within_us` after its first row."""
        return self.within_us + 1

    @cached_property
    def previous_columns(self) -> tuple[str, ...]:
        """Columns that some condition reads in the previous row."""
        back = [condition for _, condition in self.define if uses_previous(condition)]
        return tuple(dict.fromkeys(name for condition in back for name in condition.columns()))

    @cached_property
    def program(self) -> SearchProgram:
        """The pattern in the form that the search takes."""
        return SearchProgram.of(self.pattern, strict=self.selection == "strict", overlapping=self.after == "next_row")

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        """Process the rows before the watermark, and emit the matches that are final.

        Without such rows and at the same watermark, nothing is decided and the state stays as it is: fragments may be
        missing from it at that moment.
        """
        waiting_rows = concatenated_rows([{n: t for n, t in state.items() if n == 0}, fresh]).get(0)
        ready, waiting = due(waiting_rows, after_us)
        last: RowTable | None = state.get(2)
        if ready is None and after_us <= before_us:
            return kept({0: waiting, 1: state.get(1), 2: last}), NO_RESULTS
        tables = [state[1]] if 1 in state else []
        if ready is not None:
            fitted, last = self._fitted(ready, last)
            tables.append(fitted)
        rows = concat_rows(tables)
        if rows is None:
            return kept({0: waiting, 2: last}), NO_RESULTS
        rows, groups, _ = self._in_order(rows)
        begin = np.append(starts(groups), len(rows))
        limit = after_us - self.within_us if after_us < FOREVER_US // 2 else FOREVER_US
        found = search(self.program, begin, rows[TIME], rows[_FITS], rows[_BEGINS], self.within_us, limit)
        left = rows.with_columns(**{_BEGINS: found.begins}).where(found.kept)
        return kept({0: waiting, 1: left, 2: last}), self._results(rows, found.match, found.row, found.variable)

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """When a match that begins with the row can take no further row."""
        return None if number == 2 else table[TIME] + self.within_us + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:
        """The number of matches that are expected of each row, as far as they need it.

        1. The stage that a match has reached gives the share of such matches that are completed within their time.
        2. With the same chance of completion in every unit of time, a share p of the whole time becomes
           1 - (1 - p)^f in the fraction f of it that is left.
        3. A row that waits, and a last row, count as a match that begins with it.
        4. If matches may overlap, every row at which one may begin counts. Otherwise a key has one match, which begins
           at a later row once the time of an earlier one is over: the row with the best chance counts, and all rows of
           the key share it, those that wait as well. They would be of use only to that match.
        """
        if self.after == "next_row":
            return self._chances(number, state, learned)
        of_key, rows = self._rows_by_key(state)
        best = np.zeros(rows.size)
        for each, keys in of_key.items():
            np.maximum.at(best, keys, self._chances(each, state, learned))
        return (best / rows)[of_key[number]]

    def worth_shares(self, number: int, state: State) -> NDArray[np.float64]:
        """By number of rows: those that wait are of use only together with the partial match of their key."""
        of_key, rows = self._rows_by_key(state)
        fragments, _ = numbered(self.row_ids(number, state.tables[number]).view(np.int64))
        shares: NDArray[np.float64] = np.bincount(fragments)[fragments] / rows[of_key[number]]
        return shares

    def _rows_by_key(self, state: State) -> tuple[dict[int, Ints], Ints]:
        """The number of the key of every row, by table, and how many rows each key has in all tables."""
        tables = {number: table for number, table in state.tables.items() if len(table)}
        keys = np.concatenate([self.state_keys(number, table) for number, table in tables.items()])
        numbers, _ = numbered(keys.view(np.int64))
        ends = np.cumsum([len(table) for table in tables.values()])
        return dict(zip(tables, np.split(numbers, ends[:-1]), strict=True)), np.bincount(numbers)

    def _chances(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:
        """The chance of a match that begins with each row; 0 if none may begin with it."""
        table: RowTable = state.tables[number]
        stages = stages_of(self.program)
        if number != 1:
            return np.full(len(table), learned.completion(0, stages))
        rows, groups, order = self._in_order(table)
        begin = np.append(starts(groups), len(rows))
        reached = stages_reached(self.program, begin, rows[TIME], rows[_FITS], self.within_us)
        shares = np.array([learned.completion(stage, stages) for stage in range(stages)] + [0.0])[reached]
        now_us = present_us(state.watermark_us, int(rows[TIME].max()))
        left = np.clip((rows[TIME] + self.within_us - now_us) / max(self.within_us, 1), 0.0, 1.0)
        chances = np.zeros(len(table))
        chances[order] = np.where(rows[_BEGINS], 1 - (1 - shares) ** left, 0.0)
        return chances

    def learn(self, learned: Learned, port: int, block: Block) -> Learned:
        """How far partial matches get, of those that begin in a sample and whose time is over in it."""
        if not block.length:
            return learned
        table = self.lift(port, block)[port]
        fitted, _ = self._fitted(table, None)
        rows, groups, _ = self._in_order(fitted)
        begin = np.append(starts(groups), len(rows))
        reached = stages_reached(self.program, begin, rows[TIME], rows[_FITS], self.within_us)
        over = rows[TIME] + self.within_us < rows[TIME].max()
        return learned.plus(least_reached(reached[over], stages_of(self.program)))

    def input_rows(self, number: int, table: RowTable) -> int:
        """Waiting rows, and rows of partial matches."""
        return 0 if number == 2 else len(table)

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """A lost partial match costs one result per row at which a match may begin, if no other match depends on it."""
        if not lost:
            return NONE_LOST
        if self.after != "next_row":
            return unbounded("matches do not overlap, so that all later ones of the key may begin at other rows")
        if lost.keys() != {1}:
            return unbounded("matches that begin before a lost row may contain it")
        return ErrorBounds(ErrorBound(float(np.count_nonzero(lost[1][_BEGINS]))))

    def _in_order(self, rows: RowTable) -> tuple[RowTable, Ints, Ints]:
        """Rows sorted by key and time, their groups, and where they were."""
        groups = group_numbers([rows], self.key_names)[0]
        order = in_order(groups, rows, (*self.names, _POSITION))
        return rows.take(order), groups[order], order

    def _fitted(self, ready: RowTable, last: RowTable | None) -> tuple[RowTable, RowTable | None]:
        """Rows with the variables that each fits, as bits, and every key's last row."""
        fits = np.zeros(len(ready), np.int64)
        block, first = ready.block, np.zeros(len(ready), bool)
        if self.previous_columns:
            ready, first, previous, last = self._with_previous(ready, last)
            block = Block({**ready.columns, **previous}, len(ready))
            fits = np.zeros(len(ready), np.int64)
        conditions = dict(self.define)
        for bit, variable in enumerate(self.pattern.variables):
            condition = conditions.get(variable)
            fitting = np.ones(len(ready), bool) if condition is None else holds(condition, block)
            if condition is not None and uses_previous(condition):
                fitting = fitting & ~first
            fits |= fitting.astype(np.int64) << bit
        marks = {_FITS: fits, _BEGINS: np.ones(len(ready), bool), _POSITION: np.arange(len(ready))}
        return ready.with_columns(**marks), last

    def _with_previous(
        self, ready: RowTable, last: RowTable | None
    ) -> tuple[RowTable, NDArray[np.bool_], Mapping[str, Column], RowTable | None]:
        """Rows in order, which of them have no previous row, the previous values, and every key's last row."""
        size = len(ready)
        tables = [ready] if last is None else [ready, last]
        groups = group_numbers(tables, self.key_names)
        order = in_order(groups[0], ready, self.names)
        ready, ours = ready.take(order), groups[0][order]
        last_row = np.full(max(int(g.max()) for g in groups) + 1, -1, np.int64)
        if last is not None:
            last_row[groups[1]] = size + np.arange(len(last))
        before = np.where(np.diff(ours, prepend=-1) == 0, np.arange(size) - 1, last_row[ours])
        names = (*self.key_names, *self.previous_columns)
        owned = RowTable({INSTANCE: ready.instance, **{name: ready[name] for name in dict.fromkeys(names)}})
        every = concat_rows([owned] if last is None else [owned, last])
        rows = np.maximum(before, 0)
        previous = {PREVIOUS + name: take((every or owned)[name], rows) for name in self.previous_columns}
        newest = owned.take(np.flatnonzero(np.diff(ours, append=-1)))
        if last is not None:
            newest = concat_rows([last.where(~np.isin(groups[1], ours)), newest]) or newest
        return ready, before < 0, previous, newest

    def _results(self, rows: RowTable, match: Ints, row: Ints, variable: Ints) -> Block:
        if not match.size:
            return NO_RESULTS
        number = int(match[-1]) + 1
        first = np.searchsorted(match, np.arange(number))
        last = np.append(first[1:], match.size) - 1
        columns: dict[str, Column] = {INSTANCE: rows.instance[row[first]]}
        columns |= {key: take(rows[key], row[first]) for key in self.key_names}
        for name, measure in self.measures:
            chosen = np.arange(match.size)
            if measure.variable:
                chosen = np.flatnonzero(variable == self.pattern.variables.index(measure.variable))
            values = rows[measure.column] if measure.column else None
            columns[name] = _measured(measure.kind, match[chosen], row[chosen], values, number)
        columns[TIME] = rows[TIME][row[last]]
        return Block(columns, number)


def _measured(kind: str, match: Ints, row: Ints, values: Column, number: int) -> Column:
    """One measure for every match, from the rows of its variable: null if the match has none, or no value in them."""
    if kind in ("first", "last"):
        edge = np.searchsorted(match, np.arange(number), side="left" if kind == "first" else "right")
        return _taken(values, row, edge - (kind == "last"), np.bincount(match, minlength=number) > 0)
    valid = None if values is None else valid_of(values)
    if valid is not None:
        match, row = match[valid[row]], row[valid[row]]
    counts = np.bincount(match, minlength=number)
    if kind == "count":
        return counts
    return nullable(_reduced(kind, match, take(values_of(values), row), counts), counts > 0)


def _reduced(kind: str, match: Ints, numbers: NDArray[Any], counts: Ints) -> NDArray[Any]:
    """The sum, mean or extreme of the numbers of every match; 0 if it has none."""
    if kind in ("sum", "mean"):
        total = np.zeros(counts.size, np.float64 if kind == "mean" else numbers.dtype)
        np.add.at(total, match, numbers)
        return total if kind == "sum" else total / np.maximum(counts, 1)
    start = np.flatnonzero(np.diff(match, prepend=-1))
    extremes = np.zeros(counts.size, numbers.dtype)
    if start.size:  # NaN is the largest number: fmin passes over it, maximum gives it
        extremes[match[start]] = (np.fmin if kind == "min" else np.maximum).reduceat(numbers, start)
    return extremes


def _taken(values: Column, row: Ints, at: Ints, there: NDArray[np.bool_]) -> Column:
    """The value of row `row[at[i]]` for every i that is there, else null."""
    rows = row[np.where(there, at, 0)] if row.size else np.zeros(at.size, np.int64)
    if isinstance(values, pa.Array):
        return values.take(pa.array(rows, mask=~there))
    taken = take(values, rows)
    return nullable(values_of(taken), both_valid(valid_of(taken), there))
