"""Row groups of Parquet files: their batches, and what the footer says about a column without decoding it."""

from collections.abc import Iterator, Mapping, Sequence
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
) -> Iterator[pa.RecordBatch]:
    """The columns of some row groups in order, at most so many rows at a time.

    Where `coarse` allows it, the column of times is not decoded; every row gets the newest time of its group.
    """
    others = [name for name in columns if coarse is None or name != coarse.column]
    if coarse is None or not others:
        yield from file.iter_batches(rows, row_groups=list(groups), columns=list(columns), use_threads=False)
        return
    type_ = file.schema_arrow.field(coarse.column).type
    for newest, alike in groupby(groups, lambda group: _newest(file, group, coarse)):
        read = list(columns) if newest is None else others
        most = rows if len(read) > FEW_COLUMNS else 2 * rows
        for batch in file.iter_batches(most, row_groups=list(alike), columns=read, use_threads=False):
            if newest is None:
                yield batch
            else:
                times = pa.array(np.full(batch.num_rows, newest)).view(type_)
                yield batch.append_column(coarse.column, times)


def without_nulls(footer: pq.FileMetaData, name: str) -> bool:
    """Whether the footer says that a column has no nulls."""
    at = footer.schema.names.index(name)
    return all(
        known is not None and known.has_null_count and not known.null_count
        for known in (_statistics(footer, group, at, name) for group in range(footer.num_row_groups))
    )


def _newest(file: pq.ParquetFile, group: int, coarse: CoarseTime) -> int | None:
    """The newest time of a row group as it is in the file, if all of its rows may have it."""
    name = coarse.column
    unit_us = _UNIT_US.get(file.schema_arrow.field(name).type)
    known = _statistics(file.metadata, group, file.schema.names.index(name), name)
    if unit_us is None or known is None or not known.has_min_max or not known.has_null_count or known.null_count:
        return None
    newest = int(known.max_raw)
    return newest if coarse.covers(known.min_raw * unit_us, newest * unit_us) else None


def _statistics(footer: pq.FileMetaData, group: int, at: int, name: str) -> pq.Statistics | None:
    """What the footer says about a column in a row group; nothing about columns of several levels."""
    column = footer.row_group(group).column(at)
    return column.statistics if column.path_in_schema == name else None
