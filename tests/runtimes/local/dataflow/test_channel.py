"""Channels deliver every event once, in order and unchanged, in memory that is reused."""

import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_expressions import Draw
from tests.runtimes.local.channel_model import LAYOUTS, Model, Read, Write

from shoal.kernels.columns.block import Block
from shoal.runtimes.local.dataflow.channel import FEWEST_ROWS, PASSED_ROWS, Channel, Packet, Stamp
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Layout, Pool, Sizes


class Prompt:
    """An allocator that makes chunks as soon as they are requested."""

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        pool.add(pool.make(layout, rows))


class Asleep:
    """An allocator that never makes a chunk."""

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        pass


ENTRIES = st.integers(1, 8)
KEEPERS = st.sampled_from([Prompt(), Asleep()])


@st.composite
def scripts(draw: Draw, block_rows: st.SearchStrategy[int]) -> tuple[Sizes, list[Write | Read]]:
    """Sizes of a channel, and writes and reads that often hit the ends of its blocks and chunks."""
    rows = draw(block_rows)
    few = st.integers(1, 3)
    sizes = draw(st.builds(Sizes, st.just(rows), few, few, st.sampled_from(["block", "block", "queue"]), ENTRIES))
    layouts = st.just("numbers") if draw(st.booleans()) else st.sampled_from(sorted(LAYOUTS))
    lengths = st.integers(0, rows) | st.just(rows) | st.integers(0, 3 * rows)
    write = st.builds(Write, lengths, layouts, st.booleans(), st.booleans(), st.integers(0, 1 << 16))
    step = write | st.builds(Read, st.integers(1, 4 * rows))
    # a few steps or many: Hypothesis makes short lists, and cannot shorten what has a least length
    return sizes, draw(st.lists(step, max_size=10) | st.lists(step, min_size=30, max_size=60))


def check(script: tuple[Sizes, list[Write | Read]], allocator: Any) -> None:
    sizes, steps = script
    model = Model(Channel(sizes, Pool(sizes, allocator)), sizes)
    for step in steps:
        if isinstance(step, Write):
            model.write(step)
        else:
            model.take(step)
        model.check()
    model.finish()


@settings(max_examples=300, deadline=None)
@given(scripts(st.integers(1, 64) | st.integers(1, 4)), KEEPERS)
def test_every_event_is_read_once_in_order_and_as_it_was_written(
    script: tuple[Sizes, list[Write | Read]], allocator: Any
) -> None:
    check(script, allocator)


@settings(max_examples=50, deadline=None)
@given(scripts(st.integers(FEWEST_ROWS + 1, 5 * FEWEST_ROWS)), KEEPERS)
def test_the_same_holds_while_blocks_grow(script: tuple[Sizes, list[Write | Read]], allocator: Any) -> None:
    check(script, allocator)


@settings(max_examples=100, deadline=None)
@given(scripts(st.integers(1, 64)), KEEPERS, st.integers(1, 40))
def test_the_same_holds_where_events_that_last_are_passed_on(
    script: tuple[Sizes, list[Write | Read]], allocator: Any, passed_rows: int
) -> None:
    with patch("shoal.runtimes.local.dataflow.channel.PASSED_ROWS", passed_rows):
        check(script, allocator)


def test_many_events_that_last_are_not_copied() -> None:
    sizes = Sizes()
    channel = Channel(sizes, Pool(sizes, Asleep()))  # type: ignore[arg-type]
    column = np.arange(PASSED_ROWS)
    channel.write(Block({"n": column}, column.size), Stamp(1, 0.0), lasting=True)
    channel.write(Block({"n": column}, column.size), Stamp(2, 0.0))
    packets = [channel.read(column.size), channel.read(column.size)]
    is_same = [each is not None and np.shares_memory(each.block.columns["n"], column) for each in packets]
    assert is_same == [True, False]


def test_results_of_one_turn_are_not_divided() -> None:
    sizes = Sizes()
    channel = Channel(sizes, Pool(sizes, Prompt()), to_sink=True)  # type: ignore[arg-type]
    column = np.arange(2 * FEWEST_ROWS)[FEWEST_ROWS // 2 :]
    for _ in range(3):
        channel.write(Block({"n": column}, column.size), Stamp(1, 0.0), lasting=True)
    for _ in range(3):
        packet = channel.read(10 * column.size)
        assert packet is not None
        assert packet.block.columns["n"].tolist() == column.tolist()
        assert not np.shares_memory(packet.block.columns["n"], column)  # a sink may keep them, but not all of the state


@settings(max_examples=50, deadline=None)
@given(scripts(st.integers(1, 64)))
def test_a_reader_gets_only_the_columns_it_wants(script: tuple[Sizes, list[Write | Read]]) -> None:
    sizes, steps = script
    channel = Channel(sizes, Pool(sizes, Prompt()), frozenset({"n", "nobody has this"}))  # type: ignore[arg-type]
    model = Model(channel, sizes)
    numbers: list[int] = []
    for step in steps:
        if isinstance(step, Write):
            model.write(step)
    while (packet := channel.read(50)) is not None:
        assert set(packet.block.columns) == ({"n"} if packet.block.length else set())
        numbers += packet.block.columns["n"].tolist() if packet.block.length else []
    assert numbers == list(range(model.rows))


def test_events_of_one_block_are_read_together_however_often_they_were_written() -> None:
    sizes = Sizes(block_rows=10, chunk_blocks=2, active_chunks=2)
    channel = Channel(sizes, Pool(sizes, Prompt()))  # type: ignore[arg-type]
    for n in range(10):
        channel.write(Block({"n": np.array([n])}, 1), Stamp(n, float(n)))
        channel.write(Block({}, 0), Stamp(n, float(n)))
    packet = channel.read(100)
    assert packet is not None
    assert packet.block.columns["n"].tolist() == list(range(10))
    assert packet.stamp == Stamp(9, 0.0)
    assert packet.shared


@pytest.mark.parametrize("sizes", [Sizes(4, 2, 2), Sizes(4, 2, 2, "queue", 4)], ids=["in blocks", "in entries"])
def test_a_writer_that_falls_asleep_behind_its_events_is_awake_until_all_have_been_read(sizes: Sizes) -> None:
    channel = Channel(sizes, Pool(sizes, Asleep()))  # type: ignore[arg-type]
    channel.write(Block({"n": np.arange(10)}, 10), Stamp(7, 0.0, phase=1))
    while channel.waiting:
        assert not channel.asleep
        channel.read(4)
    assert channel.asleep
    channel.write(Block({}, 0), Stamp(7, 0.0, phase=2))
    channel.read(1)
    assert not channel.asleep


@pytest.mark.parametrize("sizes", [Sizes(4, 2, 2), Sizes(100, 2, 2), Sizes(4, 2, 2, "queue", 3)])
def test_what_waits_can_be_sifted_without_being_read(sizes: Sizes) -> None:
    channel = Channel(sizes, Pool(sizes, Prompt()))  # type: ignore[arg-type]
    written = np.arange(30)
    for start in range(0, 30, 6):
        stamp = Stamp(start, float(start), None, start // 6, 2 * (start // 12), portion=start // 6, idle=start == 24)
        channel.write(Block({"n": written[start : start + 6]}, 6), stamp)
    first = channel.read(6)
    assert first is not None
    taken = first.owned.columns["n"].tolist()
    read_us, phase = channel.watermark_us, channel.phase
    sifted, befores = list[int](), list[tuple[int, int]]()

    def kept(packet: Packet) -> Block:
        block = packet.block
        befores.append((block.columns["n"][0], channel.watermark_us))
        even = block.columns["n"] % 2 == 0
        sifted.extend(block.columns["n"][~even].tolist())
        return block.where(even)

    channel.rewrite(kept)
    assert (channel.watermark_us, channel.phase, channel.idle) == (read_us, phase, False)
    assert all(before_us == (n // 6 * 6 - 6 if n >= 6 else read_us) for n, before_us in befores)
    assert sifted == [n for n in range(len(taken), 30) if n % 2]
    assert channel.pending == (30 - len(taken)) // 2
    while (packet := channel.read(5)) is not None:
        taken += packet.owned.columns["n"].tolist()
        assert channel.watermark_us <= max(taken)  # no watermark comes before the rows that it excludes
    assert taken == [n for n in range(30) if n < first.block.length or n % 2 == 0]
    assert (channel.watermark_us, channel.phase, channel.pending) == (24, 4, 0)


def test_a_steady_flow_goes_through_the_same_few_chunks() -> None:
    sizes = Sizes(block_rows=4, chunk_blocks=1, active_chunks=4)
    channel = Channel(sizes, Pool(sizes, Prompt()))  # type: ignore[arg-type]
    places = set()
    for n in range(100):
        channel.write(Block({"n": np.arange(4)}, 4), Stamp(n, float(n)))
        if n >= 2:
            packet = channel.read(4)
            assert packet is not None
            assert packet.shared
            places.add(packet.block.columns["n"].ctypes.data)
    assert 1 < len(places) <= 4


def test_a_writer_that_changes_its_layout_at_the_end_of_a_chunk_gets_no_more_chunks_than_others() -> None:
    sizes = Sizes(block_rows=1, chunk_blocks=1, active_chunks=1)
    channel = Channel(sizes, Pool(sizes, Prompt()))  # type: ignore[arg-type]
    for n in range(10):
        type_ = np.int64 if n % 2 else np.float64
        channel.write(Block({"n": np.array([n], type_)}, 1), Stamp(n, float(n)))
        assert channel.read(1) is not None
    assert channel.read(1) is None
    assert channel.pool.active == 0


PATIENCE_S = 60.0


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.parametrize("memory", ["block", "queue"])
@pytest.mark.parametrize(("block_rows", "longest"), [(1, 3), (16, 40), (700, 900)])
def test_a_writer_and_a_reader_need_no_lock(memory: str, block_rows: int, longest: int, impatient: None) -> None:
    sizes = Sizes(block_rows, chunk_blocks=2, active_chunks=2, memory=memory, entry_rows=block_rows // 3 + 1)
    allocator = ChunkAllocator()
    channel = Channel(sizes, Pool(sizes, allocator))
    blocks = 1500
    lengths = np.random.default_rng(block_rows).integers(0, longest, blocks)
    total = int(lengths.sum())
    observed, wrong, changed = [0], list[str](), threading.Condition()

    def write() -> None:
        first = 0
        for number, length in enumerate(lengths.tolist()):
            with changed:
                changed.wait_for(lambda: not channel.full or wrong, PATIENCE_S)
            columns = {"n": np.arange(first, first + length), "x": np.arange(first, first + length) / 2}
            channel.write(Block(columns if length else {}, length), Stamp(number, 0.0))
            first += length
            with changed:
                changed.notify_all()

    def read() -> None:
        while channel.watermark_us < blocks - 1 or observed[0] < total:
            with changed:
                changed.wait_for(lambda: channel.waiting, PATIENCE_S)
            packet = channel.read(longest)
            with changed:
                changed.notify_all()
            if packet is not None and packet.block.length:
                wanted = np.arange(observed[0], observed[0] + packet.block.length)
                got = packet.block.columns
                if not (np.array_equal(got["n"], wanted) and np.array_equal(got["x"], wanted / 2)):
                    wrong.append(f"expected {wanted[0]} .. {wanted[-1]}, got {got['n'].tolist()}")
                    return
                observed[0] += packet.block.length

    threads = [threading.Thread(target=task, daemon=True) for task in (write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    allocator.close()
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
    assert observed == [total]
    assert channel.pending == 0
