"""Fragments are listed, each once; `--benchmark-enable` measures how long a million take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.kernels.rows import LEFT, RIGHT, kernel

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import count, mean
from shoal.model.query.window import hop

MEASURED_ROWS, CHECKED_ROWS = 1_000_000, 10_000
PER_KEY = 8


def panes() -> Flow:
    return LEFT.key_by("k", "n").window(hop(PER_KEY, 1)).aggregate(rows=count(), average=mean("x"))


def join_rows() -> Flow:
    return LEFT.join(RIGHT, on="k", within_s=(-3600, 3600))


def events(rows: int) -> Block:
    """Events of which no two have the same key and second."""
    row = np.arange(rows)
    key, second = row // PER_KEY, row % PER_KEY
    texts = pa.array(key).cast(pa.string())
    times = second * 1_000_000
    columns = {"ts": times, "k": texts, "n": key, "x": row / 7, INSTANCE: key % 64}
    return Block(columns, rows)


@pytest.mark.parametrize("flow", [panes, join_rows])
def test_fragments_are_listed_each_once(benchmark: BenchmarkFixture, flow: Callable[[], Flow]) -> None:
    rows = MEASURED_ROWS if benchmark.enabled else CHECKED_ROWS
    made: Any = kernel(flow())
    state = made.open()
    state.tables = made.lift(0, events(rows))
    found = benchmark(made.fragments, state)
    assert len(found) == np.unique(found.ids).size == rows
