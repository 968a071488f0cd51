"""Blocks and kernels for tests of kernels over rows: the last operator of a flow, and plain rows as its input."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.naive_expressions import order_of

from shoal.compiler.build import kernel_of
from shoal.kernels.columns.block import ARROW_TYPES, Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream

TYPES = {"ts": "timestamp", "k": "string", "n": "int64", "x": "float64"}
LEFT, RIGHT = Stream("left", TYPES, time="ts"), Stream("right", TYPES, time="ts")
US = 1e-6
Row = tuple[Any, ...]
"""Values of `TYPES`, in order; omitted values are 0 or empty."""


def kernel(flow: Flow) -> Any:
    """The kernel of a flow's last operator."""
    operator = flow.operators[-1]
    before = {each.id: each for each in flow.operators}[operator.inputs[0]]
    return kernel_of(operator, before if before.kind == "window" else None, "", by_instance=True)


def block(rows: Sequence[Row], instance: int = 0) -> Block:
    """Rows as a block of one instance."""
    filled = [(*row, *("", 0, 0.0)[len(row) - 1 :]) for row in rows]
    columns = {
        name: pa.array([row[at] for row in filled], ARROW_TYPES[type_])  # type: ignore[index]
        for at, (name, type_) in enumerate(TYPES.items())
    }
    made = Block.from_arrow(pa.RecordBatch.from_pydict(columns))
    return Block({**made.columns, INSTANCE: np.full(len(rows), instance)}, len(rows))


def rows(results: Block, *names: str) -> list[Row]:
    """Some columns of results as sorted plain rows, nulls first and NaN last."""
    if not results.length:
        return []
    columns = [results.columns[name] for name in names]
    plain = zip(*(c.tolist() if isinstance(c, np.ndarray) else c.to_pylist() for c in columns), strict=True)
    return sorted(plain, key=lambda row: [order_of(value) for value in row])


def results_of(flow: Flow, *inputs: Sequence[Row], until_us: int = FOREVER_US) -> Block:
    """The results for rows that arrive in one block, one list per input."""
    made = kernel(flow)
    state = made.open()
    for port, each in enumerate(inputs):
        made.process(state, block(each), port)
    results: Block = made.close_until(state, until_us)
    return results


def sizes(state: Any) -> Mapping[int, int]:
    """The number of rows of each table of a state."""
    return {number: len(table) for number, table in state.tables.items()}
