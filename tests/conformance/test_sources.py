"""What every source must do; a new source is one more line in `SOURCES`."""

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as Generated
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources import files, generator, live_cursor
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.live_cursor import LiveCursor, read_pieces
from shoal.connectors.sources.source import DRAIN, Cursor, Offset, RawBatch, Slice, Source, Wanted
from shoal.connectors.sources.step_queue import StepQueue
from shoal.storage.directory import Directory

ROWS = 237
FORMAT = Literal["parquet", "arrow", "csv"]


def events(start: int, stop: int) -> pa.RecordBatch:
    numbers = pa.array(range(start, stop), pa.int64())
    return pa.record_batch({"n": numbers, "label": pa.array([f"event {n}" for n in range(start, stop)], pa.string())})


@dataclass(frozen=True)
class Counter:
    """Event n holds the number n."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        return events(start, stop)


def write(path: Path, format_: FORMAT, rows: pa.RecordBatch, unit_rows: int) -> None:
    """A file whose units have a few rows each; a file without rows has no unit at all."""
    table = pa.Table.from_batches([rows])
    if format_ == "parquet":
        with pq.ParquetWriter(path, table.schema) as writer:
            if table.num_rows:
                writer.write_table(table, row_group_size=unit_rows)
    elif format_ == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=unit_rows)
    else:
        pacsv.write_csv(table, path)


def a_directory(format_: FORMAT, directory: Path) -> Files:
    """Seven files of different sizes, two of them without rows."""
    cuts = [0, 50, 50, 51, 120, 120, 200, ROWS]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        write(directory / f"{number}.{format_}", format_, events(start, stop), unit_rows=7 + 5 * number)
    return Files(str(directory), format=format_, follow=False)


class CountingProgram:
    """A program that gives the events in 24 steps, some of them without rows."""

    def steps(self, replayed: int) -> Generated[pa.RecordBatch, None, None]:
        for start in range(0, ROWS, 11):
            yield events(start, min(ROWS, start + 11))
            if start % 5 == 0:
                yield events(0, 0)

    def close(self) -> None:
        """Nothing to stop."""


class PatientCursor(LiveCursor):
    """Waits until the program has ended, so that offsets do not depend on how fast it is."""

    def _running(self) -> StepQueue:
        queue = super()._running()
        queue._thread.join()
        return queue


@dataclass(frozen=True)
class Live:
    """What a running program gives."""

    rows_per_epoch: int = ROWS

    def start(self) -> Offset:
        return {"step": 0, "ended": False}

    def cursor(self, directory: str) -> LiveCursor:
        return PatientCursor(CountingProgram, Directory(directory), self.rows_per_epoch, "program")

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        return read_pieces(piece, Wanted(tuple(columns), pa.schema([])), "program")


SOURCES: dict[str, Callable[[Path], Source]] = {
    "generator": lambda _: Generator(Counter(), events=ROWS),
    "parquet files": lambda directory: a_directory("parquet", directory),
    "arrow files": lambda directory: a_directory("arrow", directory),
    "csv files": lambda directory: a_directory("csv", directory),
    "running program": lambda _: Live(),
}


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A source of events 0 .. 236, in order."""
    return SOURCES[request.param](tmp_path_factory.mktemp("input"))


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Let a few rows be worth a task of their own."""
    patch.setattr(files, "SLICE_ROWS", 3)
    patch.setattr(generator, "SLICE_ROWS", 3)
    patch.setattr(generator, "BATCH_ROWS", 10)
    patch.setattr(live_cursor, "PIECE_ROWS", 20)


@pytest.fixture(scope="module", autouse=True)
def small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        yield


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Pool]:
    """Another process."""
    with get_context("spawn").Pool(1) as pool:
        yield pool


def read(source: Source, slices: Sequence[Slice]) -> list[int]:
    numbers: list[int] = []
    for piece in slices:
        for raw in source.read(piece, ["n", "label"]):
            assert isinstance(raw, RawBatch)
            numbers += raw.batch.column("n").cast(pa.int64()).to_pylist()
    return numbers


def limited(source: Source, rows: int | None, files_: int | None) -> Source:
    if isinstance(source, Files):
        return replace(source, rows_per_epoch=rows, files_per_epoch=files_)
    assert isinstance(source, Generator | Live)
    return replace(source, rows_per_epoch=rows or ROWS)


def epochs(source: Source, cursor: Cursor) -> list[tuple[Offset, Offset]]:
    """Offsets of all epochs up to the end of the stream."""
    stretches, at = [], source.start()
    while not at["ended"]:
        end = cursor.latest(at)
        stretches.append((at, end))
        at = end
    return stretches


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_sequence_of_epochs_reads_every_row_once_and_in_order(source: Source, data: st.DataObject) -> None:
    limits = st.none() | st.integers(1, ROWS)
    numbers: list[int] = []
    with tempfile.TemporaryDirectory() as directory:
        cursor, at = source.cursor(directory), source.start()
        while not at["ended"]:
            if data.draw(st.booleans(), "restart"):
                now = limited(source, data.draw(limits, "rows"), data.draw(limits, "files"))
                cursor = now.cursor(directory)
            end = cursor.latest(at)
            slices = cursor.slices(at, end, data.draw(st.integers(1, 9), "parallelism"))
            numbers += read(source, slices)
            at = end
    assert numbers == list(range(ROWS))


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 2 * ROWS), parallelism=st.integers(1, 50))
def test_an_epoch_has_at_least_one_slice_and_at_most_one_per_task(source: Source, rows: int, parallelism: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cursor = limited(source, rows, None).cursor(directory)
        for start, end in epochs(source, cursor):
            assert 1 <= len(cursor.slices(start, end, parallelism)) <= parallelism


def test_a_restart_cuts_the_same_slices(source: Source, tmp_path: Path) -> None:
    bounded = limited(source, 40, None)
    cursor = bounded.cursor(str(tmp_path))
    stretches = epochs(source, cursor)
    planned = [cursor.slices(start, end, 3) for start, end in stretches]
    again = source.cursor(str(tmp_path))
    assert len(planned) > 3
    assert [again.slices(start, end, 3) for start, end in stretches] == planned


def read_from_scratch(source: Source, directory: str, start: Offset, end: Offset) -> tuple[Sequence[Slice], list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        slices = source.cursor(directory).slices(start, end, 3)
        return slices, read(source, slices)


def test_another_process_reads_the_same_rows_from_the_same_offsets(
    source: Source, tmp_path: Path, elsewhere: Pool
) -> None:
    cursor = limited(source, 40, None).cursor(str(tmp_path))
    start, end = epochs(source, cursor)[2]
    here = cursor.slices(start, end, 3)
    there, numbers = elsewhere.apply(read_from_scratch, (source, str(tmp_path), start, end))
    assert there == here
    assert numbers == read(source, here) != []


def test_slices_travel_as_bytes(source: Source, tmp_path: Path) -> None:
    cursor = source.cursor(str(tmp_path))
    start, end = epochs(source, cursor)[0]
    slices = cursor.slices(start, end, 2)
    assert read(pickle.loads(pickle.dumps(source)), pickle.loads(pickle.dumps(slices))) == read(source, slices)


def test_only_the_named_columns_are_read(source: Source, tmp_path: Path) -> None:
    cursor = source.cursor(str(tmp_path))
    start, end = epochs(source, cursor)[0]
    batches = [raw for piece in cursor.slices(start, end, 1) for raw in source.read(piece, ["label"])]
    assert {name for raw in batches if isinstance(raw, RawBatch) for name in raw.batch.schema.names} == {"label"}


def test_rows_know_their_numbers(source: Source, tmp_path: Path) -> None:
    cursor = limited(source, 60, None).cursor(str(tmp_path))
    first_of: dict[str, int] = {}
    for start, end in epochs(source, cursor):
        for piece in cursor.slices(start, end, 4):
            for raw in source.read(piece, ["n"]):
                assert isinstance(raw, RawBatch)
                for at, n in enumerate(raw.batch.column("n").cast(pa.int64()).to_pylist()):
                    assert raw.number(at) == n - first_of.setdefault(raw.where, n)


def test_a_drained_stream_ends_where_it_stands(source: Source, tmp_path: Path) -> None:
    cursor = limited(source, 40, None).cursor(str(tmp_path))
    at = cursor.latest(source.start())
    Directory(str(tmp_path)).write(DRAIN, b"")
    end = cursor.latest(at)
    assert end == {**at, "ended": True}
    assert read(source, cursor.slices(at, end, 4)) == []


def test_a_stream_that_has_ended_stays_ended(source: Source, tmp_path: Path) -> None:
    cursor = source.cursor(str(tmp_path))
    end = epochs(source, cursor)[-1][1]
    assert cursor.latest(end) == end
    assert source.cursor(str(tmp_path)).latest(end) == end
