"""The result buffer: in order, bounded, and its room is free only when the sink has the rows."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.runtimes.local.dataflow.result_buffer import ResultBuffer, Waiting

ROW_BYTES = 8


def rows(number: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(number), pa.int64())})


@given(st.integers(1, 400), st.lists(st.integers(1, 30) | st.just(0), max_size=40))
def test_rows_leave_in_the_order_they_came_and_count_until_they_are_released(most: int, steps: list[int]) -> None:
    """A step puts as many rows in, or takes some out if it is 0."""
    buffer = ResultBuffer(most)
    put, released = list[int](), list[Waiting]()
    for number in steps:
        if number:
            buffer.put("t", rows(number), taken_s=0.0)
            put.append(number)
        else:
            held = buffer.nbytes
            taken = buffer.take()
            assert buffer.nbytes == held
            assert len(taken) <= 1 or sum(each.nbytes for each in taken) <= most // 2
            buffer.release(taken)
            released += taken
        assert buffer.nbytes == ROW_BYTES * (sum(put) - sum(each.rows.num_rows for each in released))
        assert buffer.full == (buffer.nbytes >= most)
        assert buffer.empty == (len(put) == len(released))
    assert [each.rows.num_rows for each in released] == put[: len(released)]


def test_a_batch_larger_than_the_buffer_is_taken_alone() -> None:
    buffer = ResultBuffer(10 * ROW_BYTES)
    for number in (1000, 1):
        buffer.put("t", rows(number), taken_s=0.0)
    taken = buffer.take()
    assert [each.rows.num_rows for each in taken] == [1000]
    buffer.release(taken)
    assert not buffer.full
    assert not buffer.empty


def test_a_buffer_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="sink_buffer_bytes must be at least 1; got 0"):
        ResultBuffer(0)
