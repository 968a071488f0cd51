"""Row groups of Parquet files: their batches, and what the footer says about a column without decoding it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.connectors.sources.source import CoarseTime

_UNIT_US: Mapping[pa.DataType, int] = {pa.timestamp("us"): 1, pa.timestamp("us", "UTC"): 1, pa.timestamp("ms"): 1000}
"""Types of times for which statistics are used, and the microseconds in their units."""
FEW_COLUMNS = 2
"""If so few columns are decoded, twice the rows fit into a core's cache."""


def batches(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], rows: int, coarse: CoarseTime | None = None
) -> Iterator[tuple[pa.RecordBatch, int | None]]:
    """The columns of some row groups in order, at most so many rows at a time.

    Where `coarse` allows it, the column of times is not decoded; every row gets the newest time of its group, and the
    oldest one in microseconds comes beside the batch.
    """
    others = [name for name in columns if coarse is None or name != coarse.column]
    if coarse is None or not others:
        for batch in file.iter_batches(rows, row_groups=list(groups), columns=list(columns), use_threads=False):
            yield batch, None
        return
    type_ = file.schema_arrow.field(coarse.column).type
    for span, alike in groupby(groups, lambda group: _span(file, group, coarse)):
        read = list(columns) if span is None else others
        most = rows if len(read) > FEW_COLUMNS else 2 * rows
        for batch in file.iter_batches(most, row_groups=list(alike), columns=read, use_threads=False):
            if span is None:
                yield batch, None
            else:
                times = pa.array(np.full(batch.num_rows, span.newest)).view(type_)
                yield batch.append_column(coarse.column, times), span.oldest_us


def without_nulls(footer: pq.FileMetaData, name: str) -> bool:
    """Whether the footer says that a column has no nulls."""
    at = footer.schema.names.index(name)
    return all(
        known is not None and known.has_null_count and not known.null_count
        for known in (_statistics(footer, group, at, name) for group in range(footer.num_row_groups))
    )


@dataclass(frozen=True)
class _Span:
    """The oldest and the newest time of a row group, the latter as it is in the file."""

    oldest_us: int
    newest: int


def _span(file: pq.ParquetFile, group: int, coarse: CoarseTime) -> _Span | None:
    """The times of a row group, if all of its rows may have the newest."""
    name = coarse.column
    unit_us = _UNIT_US.get(file.schema_arrow.field(name).type)
    known = _statistics(file.metadata, group, file.schema.names.index(name), name)
    if unit_us is None or known is None or not known.has_min_max or not known.has_null_count or known.null_count:
        return None
    span = _Span(int(known.min_raw) * unit_us, int(known.max_raw))
    return span if coarse.covers(span.oldest_us, span.newest * unit_us) else None


def _statistics(footer: pq.FileMetaData, group: int, at: int, name: str) -> pq.Statistics | None:
    """What the footer says about a column in a row group; nothing about columns of several levels."""
    column = footer.row_group(group).column(at)
    return column.statistics if column.path_in_schema == name else None
