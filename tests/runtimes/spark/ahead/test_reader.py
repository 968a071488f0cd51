"""The reader: what one process has made ahead any process takes, and nobody waits for somebody who waits."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Semaphore

import pytest
from tests.small_city import city, city_events

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import RawBatch, Slice, Wanted
from shoal.errors import SourceError
from shoal.runtimes.spark.ahead import reader as module
from shoal.runtimes.spark.ahead.early_pass import digest
from shoal.runtimes.spark.ahead.reader import Reader
from shoal.runtimes.spark.ahead.shelf import Shelf
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks.slice_pass import SlicePass
from shoal.workloads.traffic.queries import STREAM

PROGRAM = compile_graph(city().job.graph)


@dataclass(frozen=True)
class Counted(Generator):
    """City events; notes every slice that is read, and reads none before it may."""

    notes: list[str] | None = None
    reading: Semaphore | None = None
    may: Event | None = None
    fails: bool = False

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch]:
        """The rows of a slice."""
        assert self.notes is not None
        self.notes.append(piece.where)
        if self.reading is not None and self.may is not None:
            self.reading.release()
            assert self.may.wait(60)
        if self.fails:
            raise SourceError("no such file")
        first = piece.data["first"]
        yield RawBatch(city_events().batch(first, first + piece.rows).select(list(wanted.read)), piece.where, first)


def slice_pass(source: Counted, first: int = 0, epoch: int = 1) -> SlicePass:
    """A pass over 100 events."""
    plan = EpochPlan(
        epoch=epoch,
        graph=PROGRAM.graph.digest,
        workers=2,
        binding=(0,) * len(PROGRAM.instances),
        watermarks_us={},
        states=(),
        now_us=4 * 10**18,
    )
    return SlicePass(PROGRAM, plan, STREAM, source, Slice(f"from {first}", 100, {"first": first}))


def next_epoch(each: SlicePass) -> SlicePass:
    return replace(each, plan=replace(each.plan, epoch=each.plan.epoch + 1))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_another_process_takes_what_was_made_ahead(shelf: Shelf) -> None:
    source = Counted(city_events(), 100, notes=[])
    ahead = slice_pass(source)
    begun = Reader().begin(shelf, ahead)
    assert begun is not None
    begun.result(60)
    found = Reader().gathered(shelf, next_epoch(ahead))
    assert source.notes == ["from 0"]
    assert (found.rows, found.read) == (ahead.gathered().rows, 100)
    assert found.cost_s > 0


def test_a_slice_that_was_not_made_ahead_is_read_by_its_task(shelf: Shelf) -> None:
    source = Counted(city_events(), 100, notes=[])
    begun = Reader().begin(shelf, slice_pass(source))
    assert begun is not None
    begun.result(60)
    assert Reader().gathered(shelf, next_epoch(slice_pass(source, 100))).read == 100
    assert source.notes == ["from 0", "from 100"]


def test_two_processes_that_take_the_slice_the_other_one_works_on_both_get_it(shelf: Shelf) -> None:
    may, reading, notes = Event(), Semaphore(0), list[str]()
    source = Counted(city_events(), 100, notes=notes, reading=reading, may=may)
    passes = [slice_pass(source, first) for first in (0, 100)]
    readers = [Reader(), Reader()]
    for reader, each in zip(readers, passes, strict=True):
        reader.begin(shelf, each)
    for _ in passes:
        assert reading.acquire(timeout=60)
    with ThreadPoolExecutor(2) as tasks:
        taken = [
            tasks.submit(reader.gathered, shelf, next_epoch(each))
            for reader, each in zip(readers, reversed(passes), strict=True)
        ]
        may.set()
        assert [each.result(60).read for each in taken] == [100, 100]
    assert sorted(notes) == ["from 0", "from 100"]


def test_a_source_that_fails_ahead_is_left_to_the_task(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    failing = slice_pass(Counted(city_events(), 100, notes=[], fails=True))
    reader = Reader()
    with caplog.at_level(logging.DEBUG, "shoal"):
        begun = reader.begin(shelf, failing)
        assert begun is not None
        begun.result(60)
    assert "from 0 was not read ahead: no such file" in caplog.text
    with pytest.raises(SourceError, match="no such file"):
        reader.gathered(shelf, next_epoch(failing))


def test_a_slice_whose_epoch_has_begun_is_not_made_any_more(shelf: Shelf) -> None:
    source, reader = Counted(city_events(), 100, notes=[]), Reader()
    reader.gathered(shelf, slice_pass(source, 100, epoch=2))
    begun = reader.begin(shelf, slice_pass(source))
    assert begun is not None
    begun.result(60)
    assert source.notes == ["from 100"]


def test_a_result_that_is_too_large_is_not_kept(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    ahead = slice_pass(Counted(city_events(), 100, notes=[]))
    begun = Reader().begin(shelf, ahead)
    assert begun is not None
    begun.result(60)
    assert shelf.taken(2, digest(ahead)) is None


def test_nothing_is_begun_with_user_code(shelf: Shelf) -> None:
    source = Counted(city_events(), 100, notes=[])
    assert Reader().begin(shelf, replace(slice_pass(source), code="a digest")) is None
    assert source.notes == []
