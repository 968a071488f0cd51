"""Chunks are aligned pieces that do not overlap; a pool reuses them and has them made in advance."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.kernels.columns.block import Block
from shoal.runtimes.local.memory.blocks import ALIGNMENT, Chunk, ChunkAllocator, Layout, Pool, Sizes, layout_of

TYPES = ("|b1", "|i1", "<i4", "<i8", "<f4", "<f8", "<M8[us]")
LAYOUTS = st.lists(st.sampled_from(TYPES), max_size=5).map(
    lambda types: tuple((f"column {index}", type_) for index, type_ in enumerate(types))
)
ONE: Layout = (("n", "<i8"),)
OTHER: Layout = (("n", "<f8"),)


class Notes:
    """An allocator that only records requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[Layout, int]] = []

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        self.asked.append((layout, rows))


def pool_of(sizes: Sizes) -> tuple[Pool, Notes]:
    notes = Notes()
    return Pool(sizes, notes), notes  # type: ignore[arg-type]


def taken(pool: Pool, layout: Layout = ONE, rows: int = 8) -> Chunk:
    chunk = pool.take(layout, rows)
    assert chunk is not None
    return chunk


@settings(deadline=None)
@given(LAYOUTS, st.integers(1, 200), st.integers(1, 4))
def test_columns_begin_at_cache_lines_and_no_two_overlap(layout: Layout, rows: int, blocks: int) -> None:
    chunk = Chunk(layout, rows, blocks)
    assert len(chunk.blocks) == blocks
    columns = [columns[name] for columns in chunk.blocks for name, _ in layout]
    assert [column.dtype.str for column in columns] == [type_ for _, type_ in layout] * blocks
    assert all(column.shape == (rows,) and column.flags.c_contiguous for column in columns)
    assert all(column.ctypes.data % ALIGNMENT == 0 for column in columns)
    spans = sorted((column.ctypes.data, column.ctypes.data + column.nbytes) for column in columns)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_a_chunk_is_one_piece_of_memory() -> None:
    chunk = Chunk((("a", "<i8"), ("b", "|b1")), 100, 3)
    pieces = {id(column.base) for columns in chunk.blocks for column in columns.values()}
    assert len(pieces) == 1


def test_a_chunk_that_was_given_back_is_taken_again() -> None:
    pool, _ = pool_of(Sizes(8, 1, 3))
    first, second = taken(pool), taken(pool)
    assert first is not second
    pool.give_back(second)
    pool.give_back(first)
    assert taken(pool) is second
    assert taken(pool) is first
    assert pool.made_on_demand == 2


def test_a_chunk_comes_back_as_unread() -> None:
    pool, _ = pool_of(Sizes(8, 2, 3))
    chunk = taken(pool)
    chunk.read = 2
    pool.give_back(chunk)
    assert chunk.read == 0


@pytest.mark.parametrize(("active_chunks", "rows", "most"), [(1, 8, 2), (3, 8, 3), (3, 4, 6), (1, 1, 8)])
def test_a_channel_has_only_so_many_chunks(active_chunks: int, rows: int, most: int) -> None:
    pool, notes = pool_of(Sizes(8, 2, active_chunks))
    chunks = [taken(pool, rows=rows) for _ in range(most)]
    assert pool.take(ONE, rows) is None
    assert pool.active == most
    assert len(notes.asked) < most
    pool.give_back(chunks[0])
    assert pool.active == most - 1
    assert taken(pool, rows=rows) is chunks[0]


@pytest.mark.parametrize(
    ("layout", "rows", "fits"),
    [
        pytest.param(ONE, 8, True, id="the same"),
        pytest.param(ONE, 4, True, id="fewer events"),
        pytest.param(ONE, 9, False, id="more events"),
        pytest.param(OTHER, 8, False, id="another layout"),
    ],
)
def test_a_chunk_is_used_again_only_where_it_fits(layout: Layout, rows: int, fits: bool) -> None:
    pool, _ = pool_of(Sizes(16, 1, 4))
    chunk = taken(pool, ONE, 8)
    pool.give_back(chunk)
    again = taken(pool, layout, rows)
    assert (again is chunk) == fits
    assert (again.layout, pool.made_on_demand) == (layout, 1 if fits else 2)
    pool.give_back(again)
    assert taken(pool, layout, rows) is again


def test_a_chunk_that_was_dropped_makes_room_for_another() -> None:
    pool, _ = pool_of(Sizes(8, 1, 2))
    taken(pool), taken(pool)
    assert pool.take(OTHER, 8) is None
    pool.drop()
    assert taken(pool, OTHER).layout == OTHER
    assert pool.active == 2


def test_the_keeper_makes_the_next_chunk_ahead() -> None:
    allocator = ChunkAllocator()
    pool = Pool(Sizes(8, 2, 3), allocator)
    taken(pool)
    assert pool.made_on_demand == 1
    allocator.close()  # ends when all requested chunks are made
    ahead = taken(pool)
    assert pool.made_on_demand == 1
    assert (ahead.layout, ahead.rows, len(ahead.blocks)) == (ONE, 8, 2)
    assert not allocator._thread.is_alive()
    taken(pool)
    assert pool.made_on_demand == 2  # no thread is left to make one in advance


def test_a_pool_asks_for_one_chunk_at_a_time_and_never_for_more_than_it_may_have() -> None:
    pool, notes = pool_of(Sizes(8, 1, 3))
    taken(pool)
    assert notes.asked == [(ONE, 8)]
    pool.add(pool.make(ONE, 8))
    pool.add(pool.make(ONE, 8))
    taken(pool)
    assert notes.asked == [(ONE, 8)]  # one is left
    taken(pool)
    assert pool.made_on_demand == 1
    assert pool.take(ONE, 8) is None
    pool, notes = pool_of(Sizes(8, 1, 2))
    taken(pool)
    pool.add(pool.make(ONE, 8))
    taken(pool)
    assert notes.asked == [(ONE, 8)]


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        pytest.param({"n": np.arange(2), "x": np.zeros(2)}, (("n", "<i8"), ("x", "<f8")), id="numbers"),
        pytest.param({"n": np.arange(2), "s": pa.array(["a", "b"])}, None, id="a text"),
        pytest.param({"s": np.array(["a", None], object)}, None, id="objects"),
        pytest.param({"n": np.zeros((2, 2))}, None, id="a matrix"),
    ],
)
def test_only_plain_columns_have_a_layout(columns: dict[str, object], layout: Layout | None) -> None:
    assert layout_of(Block(columns, 2)) == layout


def test_a_channel_holds_as_much_as_its_chunks() -> None:
    assert Sizes(block_rows=10, chunk_blocks=3, active_chunks=2).capacity == 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"block_rows": 0}, "block_rows must be at least 1; got 0", id="blocks of nothing"),
        pytest.param({"chunk_blocks": 0}, "chunk_blocks must be at least 1; got 0", id="chunks of nothing"),
        pytest.param({"active_chunks": -1}, "active_chunks must be at least 1; got -1", id="no chunks"),
        pytest.param({"entry_rows": 0}, "entry_rows must be at least 1; got 0", id="entries of nothing"),
        pytest.param({"memory": "heap"}, "memory must be block or queue; got 'heap'", id="an unknown memory"),
    ],
)
def test_sizes_that_hold_nothing_are_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sizes(**given)  # type: ignore[arg-type]
