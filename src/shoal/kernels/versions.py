"""The versions kernel: turns inserts, updates and deletes of keyed rows into the lives of their versions.

A version begins when a row of its key is inserted, and ends when another is, or when the key is deleted. A result
begins a life (`until` is null) or ends one; it has the columns of the version, when that began, and when it ended.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.nullable import Nullable
from shoal.kernels.columns.order import due, group_numbers, in_order
from shoal.kernels.columns.table import Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.kernel import NO_RESULTS, State, concat_blocks, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned
from shoal.model.control.fragment import NEVER_NEEDED_US
from shoal.model.query.schema import TIME

WAITING, CURRENT = 0, 1
_ORDER = "#order"
"""Of the rows of one key and time, the current version comes first, then deletes, then inserts."""


@dataclass(frozen=True)
class VersionsKernel(WholeRowKernel):
    """The versions of rows by key.

    A row deletes its key if `action` holds `deleted`; without an `action`, no row does. Of several rows of one key and
    time the last insert counts, in the order of their columns.
    """

    key_names: tuple[str, ...]
    action: str
    deleted: str
    life: tuple[str, str]
    names: tuple[str, ...]
    time: str

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Process the rows before the watermark in order; table 1 holds the current version of each key."""
        rows = concatenated_rows([{n: t for n, t in state.items() if n == WAITING}, fresh])
        ready, waiting = due(rows.get(WAITING), after_us)
        current: RowTable | None = state.get(CURRENT)
        if ready is None:
            return kept({WAITING: waiting, CURRENT: current}), NO_RESULTS
        touched, untouched = self._divided(current, ready)
        changes = ready.with_columns(**{_ORDER: np.where(self._deletes(ready), 1, 2)})
        merged = concat_rows([changes] if touched is None else [touched, changes]) or changes
        steps, groups = self._steps(merged)
        lives, newest = steps[_ORDER] != 1, np.append(groups[1:] != groups[:-1], True)
        alive = steps.where(newest & lives)
        alive = alive.with_columns(**{_ORDER: np.zeros(len(alive), np.int64)})
        after = concat_rows([each for each in (untouched, alive) if each is not None])
        return kept({WAITING: waiting, CURRENT: after}), self._results(steps, groups, lives)

    def _deletes(self, table: RowTable) -> NDArray[np.bool_]:
        if not self.action:
            return np.zeros(len(table), bool)
        return np.asarray(pc.fill_null(pc.equal(table[self.action].cast("string"), self.deleted), False))

    def _divided(self, current: RowTable | None, ready: RowTable) -> tuple[RowTable | None, RowTable | None]:
        """The current versions of keys that change, and of all others."""
        if current is None:
            return None, None
        known, now = group_numbers([current, ready], self.key_names)
        changes = np.isin(known, now)
        return current.where(changes), current.where(~changes)

    def _steps(self, merged: RowTable) -> tuple[RowTable, Ints]:
        """The last row of each key and time, in order, and the number of its key."""
        groups = group_numbers([merged], self.key_names)[0]
        order = in_order(groups, merged, (_ORDER, *self.names))
        ordered, groups = merged.take(order), groups[order]
        times = ordered[TIME]
        last = np.append((groups[1:] != groups[:-1]) | (times[1:] != times[:-1]), True)
        return ordered.where(last), groups[last]

    def _results(self, steps: RowTable, groups: Ints, lives: NDArray[np.bool_]) -> Block:
        """What begins and what ends."""
        times = steps[TIME]
        ends = np.flatnonzero((groups[1:] == groups[:-1]) & lives[:-1])
        begins = np.flatnonzero(steps[_ORDER] == 2)
        ended, begun = steps.take(ends), steps.take(begins)
        since, until = self.life
        nothing = Nullable(np.zeros(begins.size, np.int64), np.zeros(begins.size, bool))
        return concat_blocks(
            [
                each.block
                for each in (
                    ended.with_columns(**{since: times[ends], until: times[ends + 1], TIME: times[ends + 1]}),
                    begun.with_columns(**{since: times[begins], until: nothing}),
                )
                if len(each)
            ]
        )

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """A waiting row is needed once the watermark passes it; a version when its key changes."""
        times: Ints = table[TIME] + 1
        return times if number == WAITING else None

    def due_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When the watermark passes a row that waits; a version alone gives no result."""
        if number == CURRENT:
            return np.full(len(table), NEVER_NEEDED_US)
        return np.maximum(table[TIME], watermark_us) + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for every row: each change is expected as likely as any other."""
        return np.ones(len(state.tables[number]))

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound."""
        return unbounded("versions that are lost never end") if lost else NONE_LOST
