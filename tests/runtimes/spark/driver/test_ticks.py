"""Ticks: when the driver asks for an epoch without rows, and how a reader turns that into an offset."""

from pathlib import Path

from tests.runtimes.local.row_source import RowSource

from shoal.kernels.columns.block import arrow_schema
from shoal.model.query.schema import Schema
from shoal.runtimes.spark.driver.ticks import Ticks
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.runtimes.spark.tasks.source import ShoalStreamReader, SourceFeed, asked_epoch
from shoal.storage.directory import Directory


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_an_epoch_is_asked_for_after_a_second_of_silence_if_something_waits(tmp_path: Path) -> None:
    clock, directory = Clock(), Directory(str(tmp_path))
    ticks = Ticks([str(tmp_path)], clock)
    moments = ((0.0, True, None), (0.9, True, None), (1.0, False, None), (1.9, True, None), (2.0, True, 8))
    for now_s, waits, asked in moments:
        clock.now_s = now_s
        ticks.ask(7, lambda waits=waits: waits)  # type: ignore[misc]
        assert asked_epoch(directory) == asked


def test_it_is_asked_for_once_and_withdrawn_when_it_is_committed(tmp_path: Path) -> None:
    clock, directory = Clock(), Directory(str(tmp_path))
    ticks = Ticks([str(tmp_path)], clock)
    clock.now_s = 5.0
    ticks.ask(-1, lambda: True)
    clock.now_s = 6.0
    ticks.ask(-1, lambda: True)
    assert asked_epoch(directory) == 0
    ticks.ask(0, lambda: True)
    assert asked_epoch(directory) is None


def test_a_new_run_withdraws_what_the_last_one_asked_for(tmp_path: Path) -> None:
    Directory(str(tmp_path)).write("tick", b"3")
    Ticks([str(tmp_path)])
    assert asked_epoch(Directory(str(tmp_path))) is None


def test_without_a_source_of_ours_there_are_no_ticks() -> None:
    clock = Clock()
    ticks = Ticks([], clock)
    clock.now_s = 5.0
    ticks.ask(0, lambda: True)
    ticks.withdraw()


def test_a_reader_returns_what_is_asked_for_only_if_it_has_no_rows(tmp_path: Path) -> None:
    schema = Schema.of({"ts": "timestamp", "k": "int64"})
    source = RowSource([{"ts": 0, "k": 1}, {"ts": 1, "k": 2}], arrow_schema(schema), at_once=1)
    reader = ShoalStreamReader(SourceFeed("cars", source, str(tmp_path), parallelism=2))
    directory = Directory(Checkpoint(str(tmp_path)).source_location("cars"))
    directory.write("tick", b"4")
    start = reader.initialOffset()
    first = reader.latestOffset(start, None)
    last = reader.latestOffset(first, None)
    assert (first, last) == ({"position": 1, "ended": False}, {"position": 2, "ended": True})
    asked = reader.latestOffset(last, None)
    assert asked == {**last, "tick": 4}
    assert reader.latestOffset(asked, None) == asked
    directory.delete(["tick"])
    assert reader.latestOffset(asked, None) == asked
    [piece] = reader.partitions(last, asked)
    assert (piece.tick, piece.slice.rows, piece.ended) == (True, 0, True)
    assert not any(each.tick for each in reader.partitions(start, first))
