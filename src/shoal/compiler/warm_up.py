"""Warm-up: runs every kernel of a program once on a made-up row, so that its machine code is loaded in time.

Its results become rows of result tables, too: Arrow takes milliseconds for its first ones.
"""

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program
from shoal.errors import RunError
from shoal.kernels.aggregate import sliding
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.index import Index
from shoal.kernels.columns.numbering import numbered
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US, NEVER_US
from shoal.model.query.schema import TIME


def warm_up(program: Program) -> int:
    """Run every kernel on one made-up row per input; returns the number of kernels."""
    Index([0]).positions(np.zeros(1, np.int64))
    numbered(np.zeros(1, np.int64))
    sliding.load_loops()
    lanes = [lane for lane in program.lanes if lane.kernel]
    for lane in lanes:
        with contextlib.suppress(RunError):  # user code need not work on a made-up row
            _warm_up(lane)
    return len(lanes)


def _warm_up(lane: Lane) -> None:
    kernel = lane.kernel
    if kernel is None:
        return
    kernel.load()
    ports = sorted({feed.port for feed in lane.feeds})
    for port in ports:
        kernel.late(port, _row(lane, port), NEVER_US)
    fresh = kernel.merged([kernel.lift(port, _row(lane, port)) for port in ports])
    state, _ = kernel.advance(fresh, {}, NEVER_US, NEVER_US)
    state, _ = kernel.advance(state, fresh, NEVER_US, NEVER_US)
    _, results = kernel.advance(state, {}, NEVER_US, FOREVER_US)
    results = lane.with_constants(results)
    for outlet in lane.outlets:
        whole = {field.name for field in outlet.schema.fields} <= set(results.columns)
        if whole and not outlet.steps:  # steps may have effects that users see
            pa.Table.from_batches([outlet.rows(results)])


def _row(lane: Lane, port: int) -> Block:
    columns: dict[str, Any] = {}
    for name, type_ in lane.types[port]:
        columns[name] = _ZEROS.get(type_, np.zeros(1, np.int64))
    kernel_columns = lane.kernel.reads(port) if lane.kernel else ()
    columns |= {name: np.zeros(1, np.int64) for name in kernel_columns if name not in columns}
    return Block({**columns, INSTANCE: np.zeros(1, np.int64), TIME: np.zeros(1, np.int64)}, 1)


_ZEROS: dict[str, Any] = {
    "string": pa.array(["POLYGON ((0 0, 1 0, 0 1, 0 0))"]),  # a text that shapes can be read from, too
    "float64": np.zeros(1),
    "bool": np.zeros(1, bool),
    "list<int64>": pa.array([[0]], pa.list_(pa.int64())),
    "list<float64>": pa.array([[0.0]], pa.list_(pa.float64())),
}
