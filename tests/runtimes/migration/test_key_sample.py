"""What is learned of a stream from a sample of its keys, in bounded memory."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.rows import LEFT, Row, block, kernel

from shoal.kernels.columns.block import Block
from shoal.kernels.worth import NOTHING_LEARNED
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.window import tumbling
from shoal.runtimes.migration.key_sample import KeySample

S = 1_000_000
PATTERN: Any = kernel(
    LEFT.key_by("k").match(
        "A B", within_s=10, define={"A": col("n") == 1, "B": col("n") == 2}, measures={"ended": "last(ts)"}
    )
)
ROWS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcdefgh"), st.integers(1, 3)), max_size=60)


def blocks_of(rows: list[Row], size: int) -> list[Block]:
    """Rows in the order of their time, in blocks."""
    timed = [(at * S, *rest) for at, *rest in sorted(rows)]
    return [block(timed[start : start + size]) for start in range(0, len(timed), size)]


def sampled(made: Any, blocks: list[Block], most_rows: int) -> KeySample:
    sample = KeySample(made, most_rows)
    for each in blocks:
        sample.take(0, each)
        assert sample.rows < most_rows
    return sample


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(1, 20))
def test_a_stream_that_fits_into_a_sample_is_learned_from_as_a_whole(rows: list[Row], size: int) -> None:
    whole = PATTERN.learn(NOTHING_LEARNED, 0, block([(at * S, *rest) for at, *rest in sorted(rows)]))
    assert sampled(PATTERN, blocks_of(rows, size), most_rows=1_000).learned == whole


@settings(deadline=None, max_examples=50)
@given(ROWS, st.integers(1, 20), st.integers(1, 16))
def test_samples_are_bounded_and_equal_input_gives_equal_samples(rows: list[Row], size: int, most_rows: int) -> None:
    one, other = (sampled(PATTERN, blocks_of(rows, size), most_rows) for _ in range(2))
    assert (one.learned, one.every) == (other.learned, other.every)


def test_a_sample_of_some_keys_covers_the_time_that_a_match_takes_and_tells_how_many_complete() -> None:
    """400 keys begin a match each 40 s, and three of four complete it: 1,000 rows of all keys cover less than 10 s."""
    keys = np.arange(400)
    rows: list[Row] = []
    for start in range(0, 200, 40):
        rows += [(start + key / 20, f"key {key}", 1) for key in keys.tolist()]
        rows += [(start + key / 20 + 5, f"key {key}", 2) for key in keys.tolist() if key % 4]
    timed = [(round(at * S), *rest) for at, *rest in sorted(rows)]
    sample = sampled(PATTERN, [block(timed[at : at + 50]) for at in range(0, len(timed), 50)], most_rows=200)
    assert sample.every > 1
    begun, completed = sample.learned.reached
    assert begun > 200
    assert completed / begun == pytest.approx(0.75, abs=0.1)


def test_a_key_that_fills_a_sample_alone_is_not_collected_forever() -> None:
    rows = [block([(n, "a", 1) for n in range(start, start + 10)]) for start in range(0, 200, 10)]
    sample = sampled(PATTERN, rows, most_rows=40)
    assert sample.learned == NOTHING_LEARNED


def test_nothing_is_collected_for_a_kernel_that_learns_nothing() -> None:
    counts = kernel(LEFT.key_by("k").window(tumbling(10)).aggregate(rows=count()))
    sample = sampled(counts, [block([(1, "a")])], most_rows=10)
    assert (sample.rows, sample.learned) == (0, NOTHING_LEARNED)
