"""Rehearsals: every kernel of a program once, on a row nobody counts, so that its machine code is loaded in time."""

from typing import Any

import numpy as np
import pyarrow as pa

from shoal.kernels.aggregate import FOREVER_US, INSTANCE, NEVER_US, AggregateKernel
from shoal.kernels.block import Block
from shoal.kernels.evaluate import positions
from shoal.query.program import Program


def rehearse(program: Program) -> int:
    """Run all kernels on one made-up row each; returns how many there were."""
    positions(np.zeros(1, np.int64), [0])
    kernels = [lane.kernel for lane in program.lanes if lane.kernel]
    for kernel in kernels:
        state = kernel.open()
        kernel.process(state, _row(kernel))
        kernel.close_until(state, NEVER_US)
        kernel.close_until(state, FOREVER_US)
    return len(kernels)


def _row(kernel: AggregateKernel) -> Block:
    columns: dict[str, Any] = {kernel.time: np.zeros(1, np.int64), INSTANCE: np.zeros(1, np.int64)}
    for name, type_ in kernel.shape.types:
        columns[name] = (
            pa.array([""]) if type_ == "string" else np.zeros(1, np.float64 if type_ == "float64" else np.int64)
        )
    return Block(columns, 1)
