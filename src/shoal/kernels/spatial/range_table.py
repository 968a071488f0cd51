"""Tables of ranges: state that is searched for every block of points, and changed by every block of ranges.

A table is a value: every change makes a new one, which shares what has not changed.

1. Rows are in runs, as in an LSM tree: a large one and some smaller ones, each with its own layout. New rows become a
   run. A run is joined with all that are smaller once these have more than half as many rows, so that a row is laid
   out again only a few times, and points search few runs.
2. A range that ends stays where it is. Its run gets another column of ends.
3. Ranges that are over are dropped when a third of a run is: the others keep their order and layout.
4. The end of a range that is not here waits for it: a part of the state may arrive later than the end of a range in
   it. Once its time has passed no range can come any more, and it is dropped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.kernels.columns.block import Column, concat
from shoal.kernels.columns.table import INSTANCE, Ints, RowTable, concat_rows
from shoal.kernels.spatial.point_block import PointBlock
from shoal.kernels.spatial.range_run import UNTIL, RangeRun, joined_runs
from shoal.kernels.spatial.shapes import Floats

ENDING = "#ending"
"""Column that says whether a row is the end of a range that is not in the table."""
SMALL = 1 << 12
"""A run of fewer rows is always joined with those that are smaller."""


@dataclass(frozen=True)
class RangeTable:
    """Rows of ranges in runs, and ends of ranges that are elsewhere."""

    runs: tuple[RangeRun, ...]
    ends: RowTable | None = None

    @classmethod
    def of(cls, rows: RowTable) -> "RangeTable":
        """A table with the given ranges, which are not yet laid out; see `range_run` for their columns."""
        return cls((RangeRun(rows),))

    @cached_property
    def instance(self) -> Ints:
        """Number of the instance each row belongs to: ranges first, then ends."""
        instance: Ints = self[INSTANCE] if len(self) else np.zeros(0, np.int64)
        return instance

    @property
    def nbytes(self) -> int:
        """Memory the rows and their layouts take."""
        return sum(run.nbytes for run in self.runs) + (0 if self.ends is None else self.ends.nbytes)

    @cached_property
    def starts(self) -> Ints:
        """The number of the first row of each run, and of the ends."""
        return np.cumsum([0, *(len(run) for run in self.runs)])

    def __len__(self) -> int:
        """Number of rows."""
        return sum(len(part) for part in self._parts())

    def __getitem__(self, name: str) -> Column:
        """A column of all rows."""
        return concat([part[name] for part in self._parts()])

    def _parts(self) -> list[RowTable]:
        return [*(run.rows for run in self.runs), *([] if self.ends is None else [self.ends])]

    def ready(self) -> "RangeTable":
        """The same rows, perhaps in another order, so that they can be searched."""
        if all(run.layout is not None for run in self.runs) and _due(self.runs) is None:
            return self
        return replace(self, runs=_compacted(self.runs))

    def begun(self, rows: RowTable) -> "RangeTable":
        """The table with more ranges; ends that were waiting for them end them."""
        if not len(rows):
            return self
        runs = _compacted((*self.runs, RangeRun(rows)))
        whole = replace(self, runs=runs, ends=None)
        return whole if self.ends is None else whole.ended(self.ends)

    def ended(self, ends: RowTable) -> "RangeTable":
        """The table with ends of ranges: rows that equal them in all but `UNTIL`, and end at the earlier of both."""
        runs = list(self.ready().runs)
        for number, run in sorted(enumerate(runs), key=lambda each: -len(each[1])):
            if len(ends):
                runs[number], found = run.with_ends(ends)
                ends = ends.where(~found)
        waiting = concat_rows([*([] if self.ends is None else [self.ends]), ends])
        return RangeTable(tuple(runs), waiting)

    def without_dead(self, before_us: int) -> "RangeTable":
        """Without the ranges that ended at a time or before it, and without such ends of ranges that are not here.

        Some ranges may stay until there are more. Where state is in pieces, all of them are back by then.
        """
        runs = tuple(run.without_dead(before_us) for run in self.runs)
        ends = self.ends and self.ends.where(self.ends[UNTIL] > before_us)
        return RangeTable(tuple(run for run in runs if len(run)) or runs[:1], ends or None)

    def matches(
        self, instance: Ints, cell: Ints, x: Floats, y: Floats, time: Ints, *, degrees: bool = False
    ) -> tuple[Ints, Ints]:
        """Pairs of points and of rows of this table, run by run: the ranges that contain them when they are there.

        A range matches a point of its instance and cell if it contains it and `since <= time < until`.
        """
        points = PointBlock.of(instance, cell, x, y, time)
        if not self.runs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        points = points.near(self.runs[0].index.layout, len(self.runs[0]))
        pairs = [run.matches(points, x, y, degrees=degrees) for run in self.runs]
        if len(pairs) == 1:
            return pairs[0]
        ranges = [rows + start for (_, rows), start in zip(pairs, self.starts[:-1].tolist(), strict=True)]
        return np.concatenate([points for points, _ in pairs]), np.concatenate(ranges)

    def met(self, instance: Ints, cell: Ints, x: Floats, y: Floats, time: Ints) -> Ints:
        """How many ranges `matches` compares each point with; the table must be ready."""
        points = PointBlock.of(instance, cell, x, y, time)
        found = np.zeros(x.size, np.int64)
        for run in self.runs:
            found += run.index.met(points)
        return found

    def rows(self, rows: Ints, names: Iterable[str] | None = None) -> RowTable:
        """The given rows of ranges and ends as they are, in the given order, with the named columns or all."""
        parts = self._parts()
        if names is not None:
            chosen = dict.fromkeys((INSTANCE, *names))
            parts = [RowTable({name: part[name] for name in chosen}) for part in parts]
        if len(parts) == 1:
            return parts[0].take(rows)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        part_of = np.searchsorted(starts, rows, side="right") - 1
        order = None if (np.diff(part_of) >= 0).all() else np.argsort(part_of, kind="stable")
        edges = np.searchsorted(part_of if order is None else part_of[order], np.arange(len(parts) + 1))
        inner = (rows - starts[part_of]) if order is None else (rows - starts[part_of])[order]
        taken = [part.take(inner[edges[i] : edges[i + 1]]) for i, part in enumerate(parts)]
        found = concat_rows(taken) or taken[0]
        if order is None:
            return found
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return found.take(back)

    def take(self, rows: Ints) -> "RangeTable":
        """The given rows, ranges before ends."""
        ending = rows >= self.starts[-1]
        begun, ended = rows[~ending], rows[ending]
        if self.ends is None or not ended.size:
            return RangeTable(self._taken(begun))
        return RangeTable(self._taken(begun) if begun.size else (), self.ends.take(ended - self.starts[-1]))

    def _taken(self, rows: Ints) -> tuple[RangeRun, ...]:
        """Runs with the given rows; those whose rows stay in order keep their layouts."""
        if not rows.size:
            return (RangeRun(self._parts()[0].take(rows)),) if self._parts() else ()
        if (np.diff(rows) <= 0).any():
            return (RangeRun(replace(self, ends=None).rows(rows)),)
        kept = np.zeros(int(self.starts[-1]), bool)
        kept[rows] = True
        runs = [
            run.where(kept[start : start + len(run)])
            for run, start in zip(self.runs, self.starts[:-1].tolist(), strict=True)
        ]
        return tuple(run for run in runs if len(run))

    def where(self, mask: NDArray[np.bool_]) -> "RangeTable":
        """The rows a mask selects; the table itself when it selects all."""
        rows = np.flatnonzero(mask)
        return self if rows.size == len(self) else self.take(rows)

    def with_instances(self, instance: Ints) -> "RangeTable":
        """The table under other instance numbers, to be laid out again."""
        runs = tuple(
            RangeRun(run.rows.with_instances(instance[start : start + len(run)]))
            for run, start in zip(self.runs, self.starts[:-1].tolist(), strict=True)
        )
        return RangeTable(runs, None if self.ends is None else self.ends.with_instances(instance[self.starts[-1] :]))

    def events(self, instances: int) -> Ints:
        """Number of events behind the rows of each instance: one each."""
        return np.bincount(self.instance, minlength=instances)

    def owned(self) -> "RangeTable":
        """The table with copies of the columns that are views of other memory."""
        runs = tuple(RangeRun(run.rows.owned(), run.layout) for run in self.runs)
        return RangeTable(runs, None if self.ends is None else self.ends.owned())

    def to_arrow(self) -> pa.RecordBatch:
        """The table as an Arrow batch, the inverse of `from_arrow`."""
        ending = np.arange(len(self)) >= self.starts[-1]
        rows = concat_rows(self._parts()) or self._parts()[0]
        return rows.with_columns(**{ENDING: ending}).to_arrow()

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch) -> "RangeTable":
        """An Arrow batch as a table, to be laid out."""
        rows = RowTable.from_arrow(batch)
        ending = rows[ENDING]
        whole = RowTable({name: column for name, column in rows.columns.items() if name != ENDING})
        return cls((RangeRun(whole.where(~ending)),), whole.where(ending) if ending.any() else None)


def concat_ranges(tables: Sequence[RangeTable]) -> RangeTable:
    """The rows of tables side by side; ends do not look for their ranges."""
    ends = concat_rows([table.ends for table in tables if table.ends is not None])
    return RangeTable(tuple(run for table in tables for run in table.runs), ends)


def merged_ranges(tables: Sequence[RangeTable]) -> RangeTable:
    """The rows of tables, where ends of one end the ranges of another."""
    whole = concat_ranges(tables).ready()
    return whole if whole.ends is None else replace(whole, ends=None).ended(whole.ends)


def _due(runs: Sequence[RangeRun]) -> int | None:
    """The first of the runs, from large to small, that is to be joined with all behind it."""
    behind = sum(len(run) for run in runs)
    for number, run in enumerate(runs[:-1]):
        behind -= len(run)
        if len(run) < max(SMALL, 2 * behind):
            return number
    return None


def _compacted(runs: Sequence[RangeRun]) -> tuple[RangeRun, ...]:
    """Runs with layouts, from large to small."""
    kept = _sorted([run for run in runs if len(run)]) or list(runs[:1])
    first = _due(kept)
    if first is not None:
        kept = _sorted([*kept[:first], joined_runs(kept[first:])])
    return tuple(run.laid_out() for run in kept)


def _sorted(runs: Sequence[RangeRun]) -> list[RangeRun]:
    return sorted(runs, key=len, reverse=True)
