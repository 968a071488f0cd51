"""Tables of state: splitting, sending and concatenating them loses nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.ragged import Ragged
from shoal.kernels.columns.table import INSTANCE, RowTable, concat_rows, from_arrow, objects, to_arrow
from shoal.kernels.kernel import concat_blocks, kept
from shoal.kernels.row_kernel import concatenated_rows

COLUMNS = [
    pytest.param(np.array([1, -(2**63), 2**63 - 1]), id="integers"),
    pytest.param(np.array([0.5, -0.0, np.inf]), id="floats"),
    pytest.param(np.array([True, False, True]), id="booleans"),
    pytest.param(np.arange(6.0).reshape(3, 2), id="rows of floats"),
    pytest.param(np.arange(6, dtype=np.uint8).reshape(3, 2), id="rows of bytes"),
    pytest.param(pa.array(["a", "", "日本"]), id="texts"),
    pytest.param(pa.array(["a", "b", "a"]).dictionary_encode(), id="texts with a dictionary"),
    pytest.param(pa.array([[1], [], [2, 3]], pa.list_(pa.int64())), id="lists"),
    pytest.param(Ragged.of([np.array([1, 2]), np.array([3]), np.array([4])]), id="sets of integers"),
    pytest.param(Ragged.of([np.array(["a", "a\0"], object), np.array([""], object)] * 2)[:3], id="sets of texts"),
    pytest.param(objects([{"a": [1, 0.5]}, [], "text"]), id="a user's states"),
    pytest.param(objects([None, 1, None]), id="a user's states, some of them nothing"),
]


def plainly(column: Any) -> list[Any]:
    values = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    return [value.tolist() if isinstance(value, np.ndarray | np.generic) else value for value in values]


def travelled(array: pa.Array) -> pa.Array:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([array], names=["it"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_next_batch().column(0)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_survives_its_journey_through_arrow(column: Any) -> None:
    arrived = from_arrow(travelled(to_arrow(column)))
    assert plainly(arrived) == plainly(column)
    assert type(arrived) is type(column) or isinstance(arrived, pa.Array)
    if isinstance(column, np.ndarray):
        assert (arrived.dtype, arrived.shape) == (column.dtype, column.shape)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_part_of_a_column_survives_as_well(column: Any) -> None:
    arrived = from_arrow(travelled(to_arrow(column).slice(1, 2)))
    assert plainly(arrived) == plainly(column)[1:]


@pytest.mark.parametrize("column", COLUMNS)
def test_an_empty_column_stays_empty(column: Any) -> None:
    empty = RowTable({INSTANCE: np.arange(3), "it": column}).take(np.zeros(0, np.int64))
    arrived = RowTable.from_arrow(empty.to_arrow())
    assert len(arrived) == 0
    assert len(arrived["it"]) == 0


def table(instances: list[int], texts: list[str]) -> RowTable:
    return RowTable({INSTANCE: np.array(instances, np.int64), "k": pa.array(texts, pa.string())})


def test_a_table_is_made_of_the_columns_that_are_needed() -> None:
    block = Block({INSTANCE: np.array([3, 4]), "a": np.array([1, 2]), "b": np.array([5, 6])}, 2)
    made = RowTable.of(block, ["b"])
    assert list(made.columns) == [INSTANCE, "b"]
    assert made.instance.tolist() == [3, 4]
    assert made.block.length == len(made) == 2
    assert made.nbytes == 32


def test_a_selection_of_all_rows_is_the_table_itself() -> None:
    whole = table([0, 1], ["a", "b"])
    assert whole.where(np.array([True, True])) is whole
    assert whole.where(np.array([False, True])).instance.tolist() == [1]
    assert len(whole.where(np.array([False, False]))) == 0


def test_a_table_with_other_columns_leaves_the_first_as_it_was() -> None:
    whole = table([0, 1], ["a", "b"])
    longer = whole.with_columns(n=np.array([7, 8])).with_instances(np.array([5, 6]))
    assert (longer["n"].tolist(), longer.instance.tolist()) == ([7, 8], [5, 6])
    assert (list(whole.columns), whole.instance.tolist()) == ([INSTANCE, "k"], [0, 1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "b"])), max_size=12), st.integers(0, 12))
def test_concatenated_parts_are_the_whole(rows: list[tuple[int, str]], cut: int) -> None:
    parts = [table([i for i, _ in part], [k for _, k in part]) for part in (rows[:cut], rows[cut:], [])]
    whole = concat_rows(parts)
    assert (whole is None) == (not rows)
    if whole is not None:
        assert list(zip(whole.instance.tolist(), whole["k"].to_pylist(), strict=True)) == rows


def test_texts_with_and_without_a_dictionary_are_concatenated() -> None:
    one = RowTable({INSTANCE: np.array([0]), "k": pa.array(["a"]).dictionary_encode()})
    both = concat_rows([one, table([1], ["b"])])
    assert both is not None
    assert both["k"].to_pylist() == ["a", "b"]


def test_tables_of_each_number_are_concatenated_and_empty_ones_dropped() -> None:
    several = [{0: table([0], ["a"]), 2: table([], [])}, {0: table([1], ["b"]), 1: table([2], ["c"])}]
    assert {number: len(each) for number, each in concatenated_rows(several).items()} == {0: 2, 1: 1}
    assert list(kept({0: None, 1: table([], []), 2: table([1], ["x"])})) == [2]
    assert concatenated_rows([]) == {}


def test_blocks_of_results_are_concatenated() -> None:
    block = table([0, 1], ["a", "b"]).block
    assert concat_blocks([]).length == 0
    assert concat_blocks([block]) is block
    assert concat_blocks([block, block]).columns["k"].to_pylist() == ["a", "b", "a", "b"]
