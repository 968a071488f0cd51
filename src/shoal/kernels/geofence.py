"""The geofence kernel: which objects enter fences, stay in them and leave them.

A row says that an object is in a fence at some time; one with a null fence says that it is somewhere. The rows of one
object and time count together. An object enters a fence at the first time at which it is in it, and leaves it at the
first time at which it is not.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Block, Column
from shoal.kernels.columns.nullable import present
from shoal.kernels.columns.order import due, group_numbers, starts
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, Tables, concat_rows
from shoal.kernels.error_bounds import NONE_LOST, ErrorBounds, unbounded
from shoal.kernels.kernel import NEVER_US, NO_RESULTS, State, kept
from shoal.kernels.row_kernel import WholeRowKernel, concatenated_rows
from shoal.kernels.worth import Learned
from shoal.model.control.fragment import NEVER_NEEDED_US
from shoal.model.query.schema import TIME

WAITING, STAYS = 0, 1
EVENTS = ("enter", "leave", "dwell")
ENTER, LEAVE, DWELL = range(3)
EVENT, HAPPENED, ENTERED = "event", "happened", "entered"
"""Columns of results beside object and fence."""
_SINCE, _DWELT = "#since", "#dwelt"
_BEFORE_US = NEVER_US
"""The moment before the first one of every object, at which it was where the state says."""


@dataclass(frozen=True)
class GeofenceKernel(WholeRowKernel):
    """Events of objects and fences; an object that is in a fence for `dwell_us` has one more event in each stay."""

    key_names: tuple[str, ...]
    fence: str
    dwell_us: int | None
    names: tuple[str, ...]
    time: str

    def identity(self, number: int, table: RowTable) -> list[Column]:
        """All columns of a waiting row; object and fence of a stay."""
        if number == WAITING:
            return super().identity(number, table)
        return [*self.table_keys(number, table), table[self.fence]]

    def advance(self, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:  # noqa: ARG002
        """Process the rows before the watermark; table 1 holds the fences that objects are in, and since when."""
        rows = concatenated_rows([{n: t for n, t in state.items() if n == WAITING}, fresh])
        ready, waiting = due(rows.get(WAITING), after_us)
        stays: RowTable | None = state.get(STAYS)
        if ready is None:
            return kept({WAITING: waiting, STAYS: stays}), NO_RESULTS
        known, others = self._divided(stays, ready)
        after, results = self._steps(ready, known)
        stays = concat_rows([each for each in (others, after) if each is not None])
        return kept({WAITING: waiting, STAYS: stays}), results

    def _divided(self, stays: RowTable | None, ready: RowTable) -> tuple[RowTable | None, RowTable | None]:
        """The stays of objects that have rows, and of all others."""
        if stays is None:
            return None, None
        known, now = group_numbers([stays, ready], self.key_names)
        touched = np.isin(known, now)
        return stays.where(touched), stays.where(~touched)

    def _steps(self, ready: RowTable, known: RowTable | None) -> tuple[RowTable, Block]:
        """The stays and the events after some rows.

        1. The distinct times of each object are its moments, numbered one after another, with one before them all.
        2. A visit is a moment at which an object is in a fence; a stay of the state is one at the moment before.
        3. Visits of one object and fence at moments one after another are a run. A run that begins later than before
           enters; a run that ends earlier than the object's last moment leaves at the moment behind it.
        """
        stays = RowTable({name: column[:0] for name, column in self._entered(ready).columns.items()})
        stays = stays if known is None else known
        rows = concat_rows([self._entered(ready), stays])
        if rows is None:
            return stays, NO_RESULTS
        objects = group_numbers([rows], self.key_names)[0]
        times = np.concatenate([ready[TIME], np.full(len(stays), _BEFORE_US)])
        moments = _Moments.of(objects, times)
        inside = np.flatnonzero(present(rows[self.fence]))
        if not inside.size:
            return rows.take(inside), NO_RESULTS
        pairs = group_numbers([rows.take(inside)], (*self.key_names, self.fence))[0]
        order = np.lexsort((moments.number[inside], pairs))
        visits, pairs = inside[order], pairs[order]
        numbers = moments.number[visits]
        once = np.append(True, (pairs[1:] != pairs[:-1]) | (numbers[1:] != numbers[:-1]))
        visits, pairs, numbers = visits[once], pairs[once], numbers[once]
        first = np.append(True, (pairs[1:] != pairs[:-1]) | (numbers[1:] != numbers[:-1] + 1))
        return self._runs(rows, moments, visits, numbers, np.flatnonzero(first))

    def _entered(self, ready: RowTable) -> RowTable:
        """Rows as stays that would begin with them."""
        chosen = RowTable.of(ready.block, (*self.key_names, self.fence))
        return chosen.with_columns(**{_SINCE: ready[TIME], _DWELT: np.zeros(len(ready), bool)})

    def _runs(
        self, rows: RowTable, moments: "_Moments", visits: Ints, numbers: Ints, first: Ints
    ) -> tuple[RowTable, Block]:
        """The stays that go on, and the events, of runs that begin at some of the visits."""
        last = np.append(first[1:], visits.size) - 1
        runs = rows.take(visits[first])
        entered: Ints = runs[_SINCE]
        dwelt: NDArray[np.bool_] = runs[_DWELT]
        begins = np.flatnonzero(moments.times[numbers[first]] > _BEFORE_US)
        ends = np.flatnonzero(~moments.last[numbers[last]])
        reached, at = self._dwelling(moments.times[numbers], first, entered, dwelt)
        goes_on = np.flatnonzero(moments.last[numbers[last]])
        dwelt = dwelt | np.isin(np.arange(first.size), reached)
        happened = [entered[begins], moments.times[numbers[last[ends]] + 1], at]
        events = np.repeat(np.arange(3), [each.size for each in happened])
        results = _results(runs, np.concatenate([begins, ends, reached]), events, np.concatenate(happened))
        return runs.with_columns(**{_DWELT: dwelt}).take(goes_on), results

    def _dwelling(self, times: Ints, first: Ints, entered: Ints, dwelt: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """The runs that become long enough, and when: at their first visit that is `dwell_us` after the enter."""
        if self.dwell_us is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        run = np.repeat(np.arange(first.size), np.diff(np.append(first, times.size)))
        long = np.flatnonzero((times - entered[run] >= self.dwell_us) & ~dwelt[run] & (times > _BEFORE_US))
        reached = long[starts(run[long])]
        return run[reached], times[reached]

    def deadlines_us(self, number: int, table: RowTable) -> Ints | None:
        """A waiting row is needed once the watermark passes it; a stay when its object sends a row."""
        times: Ints | None = table[TIME] + 1 if number == WAITING else None
        return times

    def due_us(self, number: int, table: RowTable, watermark_us: int) -> Ints:
        """When the watermark passes a row that waits; a stay alone gives no result."""
        if number == STAYS:
            return np.full(len(table), NEVER_NEEDED_US)
        return np.maximum(table[TIME], watermark_us) + 1

    def utility(self, number: int, state: State, learned: Learned) -> NDArray[np.float64]:  # noqa: ARG002
        """1 for every row: each object is as likely to send one as any other."""
        return np.ones(len(state.tables[number]))

    def error_bounds(self, lost: Tables) -> ErrorBounds:
        """There is no bound."""
        return unbounded("objects in lost stays enter again and again") if lost else NONE_LOST


@dataclass(frozen=True)
class _Moments:
    """The distinct times of objects, in order: number of each row's, their times, which are an object's last."""

    number: Ints
    times: Ints
    last: NDArray[np.bool_]

    @classmethod
    def of(cls, objects: Ints, times: Ints) -> "_Moments":
        """The moments of rows; every object also has the one before all others."""
        everyone = np.unique(objects)
        all_objects = np.concatenate([objects, everyone])
        all_times = np.concatenate([times, np.full(everyone.size, _BEFORE_US)])
        order = np.lexsort((all_times, all_objects))
        sorted_objects, sorted_times = all_objects[order], all_times[order]
        first = np.append(True, np.diff(sorted_objects).astype(bool) | np.diff(sorted_times).astype(bool))
        number = np.empty(order.size, np.int64)
        number[order] = np.cumsum(first) - 1
        owner = sorted_objects[first]
        return cls(number[: objects.size], sorted_times[first], np.append(owner[1:] != owner[:-1], True))


def _results(runs: RowTable, chosen: Ints, events: Ints, happened: Ints) -> Block:
    """Events of runs: what happened, when, and when the object had entered."""
    texts = pa.DictionaryArray.from_arrays(pa.array(events, pa.int32()), pa.array(EVENTS))
    found = runs.take(chosen)
    columns = {name: column for name, column in found.columns.items() if name not in (_SINCE, _DWELT)}
    columns |= {EVENT: texts, HAPPENED: happened, ENTERED: found[_SINCE], TIME: happened}
    return Block({INSTANCE: found.instance, **columns}, chosen.size)
