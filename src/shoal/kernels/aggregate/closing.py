"""Closing of windows: the aggregates of all windows that end between two watermarks, from a merged pane table.

A merged table has one row per instance, pane and key. A key with a single row among the panes of the closing windows
needs no merging: its aggregates are the same in every window that it is in. So they are computed, and compared with a
condition, once per row. In tumbling windows that is every row; in sliding windows the rows of keys that come once, as
those of vehicles that move. Only the rest is merged: by sliding if its keys are in most panes, else expanded to one row
per window.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.kernels import loops
from shoal.kernels.aggregate.cells import Codes, cells_of, codes_of
from shoal.kernels.aggregate.panes import Ints, PaneShape, PaneTable, repeated_keys
from shoal.kernels.aggregate.sliding import WindowValues, slid_values
from shoal.kernels.aggregate.slots import Array, each_once, filled_values, merged_values, result_columns
from shoal.kernels.columns.block import Block, Column, concat, take
from shoal.kernels.expression.evaluate import holds
from shoal.model.query.expression import Expression

LARGEST_EXPANSION = 1 << 22
"""Largest number of panes, counted once per window they belong to, that are merged in one step."""


@dataclass(frozen=True)
class ClosedWindows:
    """Closed windows: the instance and number of each, and its keys and aggregates by name.

    A window's number is its end divided by the slide.
    """

    instance: Ints
    window: Ints
    columns: Mapping[str, Column]


def closed_windows(
    shape: PaneShape, table: PaneTable, first: int, last: int, having: Expression | None = None
) -> ClosedWindows:
    """The windows number first..last of a merged table that have an event and whose aggregates satisfy `having`."""
    if first > last:
        return _concat_closed(shape, [])
    table = table.of_panes(first - shape.window.panes, last)
    if not len(table):
        return _concat_closed(shape, [])
    if shape.window.panes == 1:
        return _concat_closed(shape, list(_of_single_rows(shape, table, None, (first, last), having)))
    several, keys = repeated_keys(shape, table)
    single = np.ones(len(table), bool)
    single[several] = False
    rows = np.flatnonzero(single) if several.size else None
    parts = list(_of_single_rows(shape, table, rows, (first, last), having))
    if several.size:
        table = table.take(several)
        slid = slid_values(shape, table, keys, first, last)
        if slid is not None:
            return _concat_closed(shape, [*parts, _closed(shape, table, slid, having)])
        limit = LARGEST_EXPANSION // shape.width
        runs = _runs(table.pane, shape.window.panes, first, last, limit)
        parts += [_closed_run(shape, table, keys, having, run) for run in runs]
    return _concat_closed(shape, parts)


def _of_single_rows(
    shape: PaneShape, table: PaneTable, rows: Ints | None, windows: tuple[int, int], having: Expression | None
) -> Iterator[ClosedWindows]:
    """The windows of rows that are the only ones of their key, in portions that fit in memory; None means all rows."""
    limit = max(1, LARGEST_EXPANSION // (shape.width * shape.window.panes))
    if rows is None and len(table) <= limit and having is None and shape.window.panes == 1:
        keys = dict(zip(shape.keys, table.keys, strict=True))
        yield ClosedWindows(table.instance, table.pane + 1, {**keys, **_aggregates(shape, table.slots)})
        return
    rows = np.arange(len(table)) if rows is None else rows
    for start in range(0, rows.size, limit):
        portion = rows[start : start + limit]
        is_whole = portion.size == len(table)
        values = table.slots if is_whole else each_once(lambda slot, at=portion: take(slot, at), table.slots)
        found = _aggregates(shape, values)
        if having is not None:
            wanted = np.flatnonzero(holds(having, Block(found, portion.size)))
            portion, found = portion[wanted], {name: take(column, wanted) for name, column in found.items()}
        if shape.window.panes == 1:
            yield _chosen(shape, table, portion, table.pane[portion] + 1, found)
        else:
            yield _expanded(shape, table, portion, windows, found)


def _expanded(
    shape: PaneShape, table: PaneTable, rows: Ints, windows: tuple[int, int], found: Mapping[str, Column]
) -> ClosedWindows:
    """Rows with their aggregates, once in each of the windows that they are in."""
    (first, last), panes = windows, table.pane[rows]
    span = shape.window.panes
    expanded = int((np.minimum(last, panes + span) - np.maximum(first, panes + 1) + 1).sum())
    at, numbers = np.empty(expanded, np.int64), np.empty(expanded, np.int64)
    loops.expand(panes, first, last, span, at, numbers)
    return _chosen(shape, table, rows[at], numbers, {name: take(column, at) for name, column in found.items()})


def _chosen(
    shape: PaneShape, table: PaneTable, rows: Ints, windows: Ints, found: Mapping[str, Column]
) -> ClosedWindows:
    """The keys of some rows with the windows and aggregates found for them."""
    kept = {name: take(key, rows) for name, key in zip(shape.keys, table.keys, strict=True)}
    return ClosedWindows(table.instance[rows], windows, {**kept, **found})


def _runs(panes: Ints, span: int, first: int, last: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """Split the windows first..last into runs of at most `limit` panes, counted once per window.

    Yields the first and last window of every run and its number of panes. Windows without panes are in no run; a
    single window may exceed the limit.
    """
    panes = panes[(panes + span >= first) & (panes < last)]
    if first > last or not panes.size:
        return
    first, last = max(first, int(panes.min()) + 1), min(last, int(panes.max()) + span)
    windows_of_pane = np.minimum(last, panes + span) - np.maximum(first, panes + 1) + 1
    expanded = int(windows_of_pane.sum(dtype=np.float64))
    if first == last or expanded <= limit:
        yield first, last, expanded
    else:
        middle = (first + last) // 2
        yield from _runs(panes, span, first, middle, limit)
        yield from _runs(panes, span, middle + 1, last, limit)


def _closed_run(
    shape: PaneShape, table: PaneTable, keys: Codes, having: Expression | None, run: tuple[int, int, int]
) -> ClosedWindows:
    first, last, expanded = run
    rows, windows = np.empty(expanded, np.int64), np.empty(expanded, np.int64)
    loops.expand(table.pane, first, last, shape.window.panes, rows, windows)
    cells = cells_of([keys.take(rows), codes_of(windows)], expanded).fitting(shape.width)
    sample, filled = cells.samples()
    merged_slots = merged_values(shape.slots, table.slots, rows, cells.of_row, cells.size)
    values = filled_values(merged_slots, filled)
    return _closed(shape, table, WindowValues(rows[sample], windows[sample], values), having)


def _closed(shape: PaneShape, table: PaneTable, given: WindowValues, having: Expression | None) -> ClosedWindows:
    """The aggregates of windows from their running values."""
    rows, windows, found = given.rows, given.windows, _aggregates(shape, given.slots)
    if having is not None:
        wanted = np.flatnonzero(holds(having, Block(found, rows.size)))
        rows, windows = rows[wanted], windows[wanted]
        found = {name: take(column, wanted) for name, column in found.items()}
    return _chosen(shape, table, rows, windows, found)


def _aggregates(shape: PaneShape, values: Sequence[Array]) -> dict[str, Column]:
    return dict(result_columns(shape.aggregates, dict(shape.types), shape.slots, values))


def _concat_closed(shape: PaneShape, parts: Sequence[ClosedWindows]) -> ClosedWindows:
    if not parts:
        nothing = shape.empty()
        keys = dict(zip(shape.keys, nothing.keys, strict=True))
        return ClosedWindows(nothing.instance, nothing.pane, {**keys, **_aggregates(shape, nothing.slots)})
    if len(parts) == 1:
        return parts[0]
    return ClosedWindows(
        np.concatenate([part.instance for part in parts]),
        np.concatenate([part.window for part in parts]),
        {name: concat([part.columns[name] for part in parts]) for name in parts[0].columns},
    )
