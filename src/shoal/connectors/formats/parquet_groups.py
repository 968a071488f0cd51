"""Row groups of Parquet files: their batches, and what the file says about a column without decoding it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shoal.connectors.formats.parquet_pages import integer_pages
from shoal.connectors.sources.source import CoarseTime

_UNIT_US: Mapping[pa.DataType, int] = {pa.timestamp("us"): 1, pa.timestamp("us", "UTC"): 1, pa.timestamp("ms"): 1000}
"""Types of times for which statistics are used, and the microseconds in their units."""
FEW_COLUMNS = 3
"""If so few columns are decoded, twice the rows fit into a core's cache."""


def batches(
    handle: pa.NativeFile,
    file: pq.ParquetFile,
    groups: Sequence[int],
    columns: Sequence[str],
    rows: int,
    coarse: CoarseTime | None = None,
) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """The columns of some row groups in order, at most so many rows at a time.

    Where `coarse` allows it, the column of times is not decoded; every row gets the newest time of its row group or
    page, and the oldest one in microseconds comes beside the batch.
    """
    others = [name for name in columns if coarse is None or name != coarse.column]
    if coarse is None or not others:
        for batch in file.iter_batches(rows, row_groups=list(groups), columns=list(columns), use_threads=False):
            yield batch, None
        return
    type_ = file.schema_arrow.field(coarse.column).type
    known = [(group, _spans(handle, file, group, coarse)) for group in groups]
    for are_known, alike in groupby(known, lambda each: each[1] is not None):
        numbers, found = zip(*alike, strict=True)
        read = others if are_known else list(columns)
        most = rows if len(read) > FEW_COLUMNS else 2 * rows
        given = file.iter_batches(most, row_groups=list(numbers), columns=read, use_threads=False)
        if not are_known:
            yield from ((batch, None) for batch in given)
            continue
        times = _Times([span for spans in found for span in spans])
        for batch in given:
            newest, oldest_us = times.next(batch.num_rows)
            yield batch.append_column(coarse.column, pa.array(newest).view(type_)), oldest_us


def without_nulls(footer: pq.FileMetaData, name: str) -> bool:
    """Whether the footer says that a column has no nulls."""
    at = footer.schema.names.index(name)
    return all(
        known is not None and known.has_null_count and not known.null_count
        for known in (_statistics(footer, group, at, name) for group in range(footer.num_row_groups))
    )


@dataclass(frozen=True)
class _Span:
    """The oldest and the newest time of some rows of one pane, the latter as it is in the file."""

    rows: int
    oldest_us: int
    newest: int


class _Times:
    """The times of rows that follow each other, each the newest of its span."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._spans = spans
        self._ends = np.cumsum([span.rows for span in spans])
        self._newest = np.array([span.newest for span in spans])
        self._done = 0

    def next(self, rows: int) -> tuple[NDArray[np.int64], int]:
        """The times of the next rows, and the oldest one of all the spans that they are in."""
        first, stop = self._done, self._done + rows
        self._done = stop
        begin, end = np.searchsorted(self._ends, [first, stop - 1], side="right").tolist()
        ends = np.minimum(self._ends[begin : end + 1], stop)
        numbers = np.diff(ends, prepend=first)
        oldest_us = min(span.oldest_us for span in self._spans[begin : end + 1])
        return np.repeat(self._newest[begin : end + 1], numbers), oldest_us


def _spans(handle: pa.NativeFile, file: pq.ParquetFile, group: int, coarse: CoarseTime) -> Sequence[_Span] | None:
    """The times of a row group, or of each of its pages, if all rows may have the newest there; else None."""
    name = coarse.column
    unit_us = _UNIT_US.get(file.schema_arrow.field(name).type)
    at = file.schema.names.index(name)
    known = _statistics(file.metadata, group, at, name)
    if unit_us is None or known is None or not known.has_min_max or not known.has_null_count or known.null_count:
        return None
    oldest_us, newest = int(known.min_raw) * unit_us, int(known.max_raw)
    if coarse.covers(oldest_us, newest * unit_us):
        return [_Span(file.metadata.row_group(group).num_rows, oldest_us, newest)]
    if oldest_us < coarse.from_us or newest * unit_us > coarse.until_us:
        return None
    pages = integer_pages(handle, file.metadata.row_group(group).column(at)) or ()
    if not pages or not all(coarse.covers(page.low * unit_us, page.high * unit_us) for page in pages):
        return None
    return [_Span(page.values, page.low * unit_us, page.high) for page in pages]


def _statistics(footer: pq.FileMetaData, group: int, at: int, name: str) -> pq.Statistics | None:
    """What the footer says about a column in a row group; nothing about columns of several levels."""
    column = footer.row_group(group).column(at)
    return column.statistics if column.path_in_schema == name else None
