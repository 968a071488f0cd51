"""Dead letters, counted: how many rows of which stream were refused, for which reason, with an example of each."""

from collections.abc import Sequence

import pyarrow as pa

from shoal.model.control.messages import RefusedRows

_KEYS = ["stream", "reason", "column"]
_EXAMPLE = ["detail", "place", "row"]


def refused_rows(letters: Sequence[pa.RecordBatch]) -> tuple[RefusedRows, ...]:
    """The dead letters of an epoch by stream, reason and column, each kind with its first letter as an example."""
    if not letters:
        return ()
    table = pa.Table.from_batches(letters)
    firsts = [(name, "first") for name in _EXAMPLE]
    # one thread: the first letter depends on the order
    counted = table.group_by(_KEYS, use_threads=False).aggregate([("stream", "count"), *firsts])
    return tuple(
        RefusedRows(
            stream=each["stream"],
            reason=each["reason"],
            column=each["column"],
            rows=each["stream_count"],
            detail=each["detail_first"],
            place=each["place_first"],
            row=each["row_first"],
        )
        for each in counted.to_pylist()
    )
