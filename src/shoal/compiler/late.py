"""Late rows: dead letters for rows that an operator can no longer count."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from shoal.compiler.lane import Lane
from shoal.compiler.program import Input
from shoal.connectors.admission import Refusal, dead_letters
from shoal.connectors.sources.source import RawBatch
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE, to_arrow
from shoal.model.query.schema import TIME


def late_letters(lane: Lane, late: Block, inputs: Mapping[str, Input]) -> pa.RecordBatch:
    """Dead letters for late rows, each with the operator that could no longer count it.

    Where a row stood in its file is no longer known, so its place is its stream.
    """
    if lane.kernel is None:
        raise TypeError("a lane without a kernel has no late rows")
    names = [name for name in late.columns if name not in (INSTANCE, TIME)]
    arrays = [to_arrow(late.columns[name]) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    for name in {inputs[stream].time for stream in lane.streams} & set(names):
        at = names.index(name)
        batch = batch.set_column(at, name, batch.column(at).view(pa.timestamp("us")))
    stream = ", ".join(sorted(lane.streams))
    numbers, reason = late.columns[INSTANCE], lane.kernel.late_reason
    refusals = [
        Refusal("late", f"operator {lane.instances[number]} {reason}", np.flatnonzero(numbers == number))
        for number in np.unique(numbers).tolist()
    ]
    letters, place = dead_letters(stream, RawBatch(batch, ""), refusals), f"stream {stream}"
    return letters.set_column(letters.schema.names.index("place"), "place", pa.array([place] * letters.num_rows))
