"""Files: which are read, in which order, how much at a time, and at what price."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources.file_log import FileLog, LoggedFile
from shoal.connectors.sources.files import SCAN_INTERVAL_S, FileCursor, Files
from shoal.connectors.sources.source import BadFile, Offset, RawBatch, Slice
from shoal.errors import CheckpointError, ConfigError, SourceError
from shoal.storage.directory import Directory


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "inbox"
    directory.mkdir()
    return directory


def put(inbox: Path, name: str, *rows: int, age_s: float = 0.0, group: int = 1000) -> None:
    """A Parquet file of numbers."""
    pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), inbox / name, row_group_size=group)
    os.utime(inbox / name, (1e9 - age_s, 1e9 - age_s))


def cursor_of(source: Files, inbox: Path, clock: Callable[[], float]) -> FileCursor:
    return FileCursor(source, Directory(str(inbox.parent / "checkpoint")), clock)


def values(source: Files, slices: Sequence[Slice]) -> list[int]:
    batches = [raw for piece in slices for raw in source.read(piece, ["n"])]
    return [n for raw in batches if isinstance(raw, RawBatch) for n in raw.batch.column("n").to_pylist()]


def advance(source: Files, cursor: FileCursor, at: Offset) -> tuple[Offset, list[int]]:
    end = cursor.latest(at)
    return end, values(source, cursor.slices(at, end, 3))


def test_the_oldest_file_comes_first_and_names_settle_ties(inbox: Path, clock: Clock) -> None:
    put(inbox, "a.parquet", 3, age_s=1)
    put(inbox, "c.parquet", 1, age_s=9)
    put(inbox, "b.parquet", 2, age_s=1.5)
    put(inbox, "b2.pq", 4, age_s=1)
    source = Files(str(inbox))
    assert advance(source, cursor_of(source, inbox, clock), source.start())[1] == [1, 2, 3, 4]


def test_a_new_file_is_read_after_all_known_files_whatever_its_age(inbox: Path, clock: Clock) -> None:
    put(inbox, "b.parquet", 1)
    source = Files(str(inbox))
    cursor = cursor_of(source, inbox, clock)
    at, first = advance(source, cursor, source.start())
    put(inbox, "z.parquet", 3, age_s=50)
    put(inbox, "a.parquet", 2, age_s=99)
    clock.now_s += SCAN_INTERVAL_S
    assert (first, advance(source, cursor, at)[1]) == ([1], [2, 3])


def test_hidden_and_foreign_names_and_directories_are_left_alone(inbox: Path, clock: Clock) -> None:
    put(inbox, "a.parquet", 1)
    for name in (".b.parquet", "_c.parquet", "d.parquet.tmp", "e.PARQUET", "f.csv", "_SUCCESS", "g"):
        put(inbox, name, 9)
    (inbox / "h.parquet").mkdir()
    source = Files(str(inbox))
    assert advance(source, cursor_of(source, inbox, clock), source.start())[1] == [1]


def test_a_directory_with_foreign_files_only_is_an_error_unless_it_is_followed(inbox: Path, clock: Clock) -> None:
    put(inbox, "a.csv", 1)
    put(inbox, "_SUCCESS", 1)
    message = r"has no file whose name ends in \.parquet or \.pq; it has 1 of other names, for example a\.csv"
    with pytest.raises(SourceError, match=message):
        cursor_of(Files(str(inbox), follow=False), inbox, clock).latest({"file": 0, "unit": 0, "ended": False})
    source = Files(str(inbox))
    assert cursor_of(source, inbox, clock).latest(source.start()) == source.start()


def test_an_empty_directory_ends_a_stream_that_does_not_follow(inbox: Path, clock: Clock) -> None:
    source = Files(str(inbox), follow=False)
    assert cursor_of(source, inbox, clock).latest(source.start())["ended"]


def test_a_stream_that_follows_waits(inbox: Path, clock: Clock) -> None:
    source = Files(str(inbox))
    cursor = cursor_of(source, inbox, clock)
    put(inbox, "a.parquet", 1)
    at = cursor.latest(source.start())
    assert not at["ended"]
    assert cursor.latest(at) == at


@pytest.mark.parametrize("made", [True, False], ids=["a file", "nothing"])
def test_a_source_must_be_a_directory(inbox: Path, clock: Clock, made: bool) -> None:
    if made:
        put(inbox, "a.parquet", 1)
    source = Files(str(inbox / "a.parquet"))
    with pytest.raises(SourceError, match=f"source directory {inbox}/a.parquet must be a readable directory"):
        cursor_of(source, inbox, clock).latest(source.start())


units = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=8)


@settings(max_examples=150, deadline=None)
@given(units=units, rows=st.none() | st.integers(1, 20), number=st.none() | st.integers(1, 3))
def test_an_epoch_keeps_its_limits(
    tmp_path_factory: pytest.TempPathFactory, units: list[list[int]], rows: int | None, number: int | None
) -> None:
    """No more rows than allowed unless one unit alone has more, and no more files; nothing left out."""
    inbox = tmp_path_factory.mktemp("limits") / "inbox"
    inbox.mkdir()
    source = Files(str(inbox), rows_per_epoch=rows, files_per_epoch=number, follow=False)
    directory = Directory(str(inbox.parent / "checkpoint"))
    FileLog(directory).append([LoggedFile(f"{at}", 1, 0, tuple(sizes)) for at, sizes in enumerate(units)])
    cursor, at = FileCursor(source, directory), source.start()
    taken: list[tuple[str, int]] = []
    while not at["ended"]:
        end = cursor.latest(at)
        (piece,) = cursor.slices(at, end, 1)
        parts = [(part["path"], unit) for part in piece.data["parts"] for unit in part["units"]]
        sizes = [units[int(path)][unit] for path, unit in parts]
        assert rows is None or sum(sizes) <= rows or len([size for size in sizes if size]) == 1
        assert number is None or len({path for path, _ in parts}) <= number
        assert parts or end["ended"]
        taken, at = taken + parts, end
    assert taken == [(f"{at}", unit) for at, sizes in enumerate(units) for unit in range(len(sizes))]


def test_a_restart_goes_on_where_it_was_and_sees_no_file_twice(inbox: Path, clock: Clock) -> None:
    put(inbox, "b.parquet", 1, 2, 3, 4, group=2)
    source = Files(str(inbox), rows_per_epoch=2)
    at, first = advance(source, cursor_of(source, inbox, clock), source.start())
    put(inbox, "a.parquet", 5, 6, age_s=99)
    cursor = cursor_of(source, inbox, clock)
    at, second = advance(source, cursor, at)
    assert (first, second, advance(source, cursor, at)[1]) == ([1, 2], [3, 4], [5, 6])


def test_a_file_that_vanishes_while_the_directory_is_read_is_no_file(
    inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(inbox, "a.parquet", 1)
    put(inbox, "b.parquet", 2)

    class Vanishing:
        """A directory entry whose file is removed before it is read."""

        def __init__(self, entry: "os.DirEntry[str]") -> None:
            self.name, self.path, self.is_file = entry.name, entry.path, entry.is_file

        def stat(self) -> os.stat_result:
            return Path(self.path + ("gone" if self.name == "a.parquet" else "")).stat()

    class Scan(AbstractContextManager[Iterator[Vanishing]]):
        def __enter__(self) -> Iterator[Vanishing]:
            with scandir(inbox) as entries:
                return iter([Vanishing(entry) for entry in entries])

        def __exit__(self, *_: object) -> None:
            return

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda _: Scan())
    source = Files(str(inbox))
    assert advance(source, cursor_of(source, inbox, clock), source.start())[1] == [2]


def test_offsets_beyond_the_log_are_of_another_checkpoint(inbox: Path, clock: Clock) -> None:
    source = Files(str(inbox))
    with pytest.raises(CheckpointError, match="must name at least 3 files; got 0"):
        cursor_of(source, inbox, clock).slices(source.start(), {"file": 3, "unit": 0, "ended": False}, 1)


def test_a_directory_is_scanned_at_most_four_times_a_second(
    inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def counted(path: str) -> "os._ScandirIterator[str]":
        looks.append(path)
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", counted)
    source = Files(str(inbox))
    cursor = cursor_of(source, inbox, clock)
    for _ in range(1000):
        cursor.latest(source.start())
        clock.now_s += 0.01
    assert 35 <= len(looks) <= 40


def test_a_slow_directory_is_scanned_less_often(inbox: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def slow(path: str) -> "os._ScandirIterator[str]":
        looks.append(path)
        clock.now_s += 1.0
        return scandir(path)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", slow)
    source = Files(str(inbox))
    cursor = cursor_of(source, inbox, clock)
    while clock.now_s < 200.0:
        cursor.latest(source.start())
        clock.now_s += 0.01
    assert len(looks) <= 5


def test_ten_thousand_files_are_no_burden(inbox: Path, clock: Clock) -> None:
    for number in range(10_000):
        (inbox / f"{number:05d}.csv").write_bytes(b"n\n1\n")
    source = Files(str(inbox), format="csv", files_per_epoch=100)
    cursor = cursor_of(source, inbox, clock)
    began = time.process_time()
    at = source.start()
    for _ in range(100):
        end = cursor.latest(at)
        assert sum(len(piece.data["parts"]) for piece in cursor.slices(at, end, 8)) == 100
        at = end
        clock.now_s += 1
    assert at["file"] == 10_000
    assert time.process_time() - began < 8


def test_slices_of_a_file_with_many_units_are_cut_in_linear_time(inbox: Path) -> None:
    directory = Directory(str(inbox.parent / "checkpoint"))
    count = 100_000
    FileLog(directory).append([LoggedFile("big", 1, 0, (1,) * count)])
    source = Files(str(inbox), follow=False)
    began = time.process_time()
    end = {"file": 1, "unit": 0, "ended": True}
    slices = FileCursor(source, directory).slices(source.start(), end, 4)
    assert [piece.rows for piece in slices] == [count // 4] * 4
    assert [piece.data["parts"][0]["first_row"] for piece in slices] == [0, 25_000, 50_000, 75_000]
    assert time.process_time() - began < 2


@pytest.mark.parametrize("path", ["inbox", "./inbox", "file:{}/inbox", "file://{}/inbox"])
def test_a_path_means_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert Files(path.format(tmp_path)).path == f"{tmp_path}/inbox"


REFUSED = [
    pytest.param({"format": "xml"}, "format of 'in' must be one of parquet, arrow, csv; got 'xml'", id="a format"),
    pytest.param({"on_bad_file": "skip"}, "on_bad_file must be 'fail' or 'dead-letter'; got 'skip'", id="a rule"),
    pytest.param({"rows_per_epoch": 0}, "rows_per_epoch of 'in' must be at least 1; got 0", id="no rows"),
    pytest.param({"files_per_epoch": -1}, "files_per_epoch of 'in' must be at least 1; got -1", id="no files"),
    pytest.param({"path": "s3://b/in"}, "must be a path or a file:// URI; got 's3://b/in'", id="another system"),
    pytest.param({"path": "file://in"}, "must hold an absolute path, as in file:///data; got 'file://in'", id="a host"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_invalid_options_are_rejected_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Files(**{"path": "in", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["fail", "dead-letter"])
def test_a_file_that_changes_after_it_was_read_is_reported_once(rule: Any, inbox: Path, clock: Clock) -> None:
    put(inbox, "a.parquet", 1)
    put(inbox, "b.parquet", 2)
    source = Files(str(inbox), on_bad_file=rule)
    cursor = cursor_of(source, inbox, clock)
    at, read = advance(source, cursor, source.start())
    assert read == [1, 2]
    put(inbox, "a.parquet", *range(5_000))
    put(inbox, "c.parquet", 3)
    clock.now_s += 60
    end = cursor.latest(at)
    found = [raw for piece in cursor.slices(at, end, 3) for raw in source.read(piece, ["n"])]
    assert [raw.batch.column("n").to_pylist() for raw in found if isinstance(raw, RawBatch)] == [[3]]
    (report,) = [raw for raw in found if isinstance(raw, BadFile)]
    assert report.where == str(inbox / "a.parquet")
    assert re.match(r"it had \d+ bytes and has \d+ after it was read; what is new in it is not read", report.reason)
    for later in (cursor, cursor_of(source, inbox, clock)):  # the second is that of a restart
        put(inbox, "a.parquet", 9, 9, 9)
        clock.now_s += 60
        assert later.latest(end) == end


def test_a_file_that_is_touched_after_it_was_read_is_reported(inbox: Path, clock: Clock) -> None:
    put(inbox, "a.parquet", 1)
    source = Files(str(inbox))
    cursor = cursor_of(source, inbox, clock)
    at, _ = advance(source, cursor, source.start())
    os.utime(inbox / "a.parquet", (2e9, 2e9))
    clock.now_s += 60
    (report,) = [raw for piece in cursor.slices(at, cursor.latest(at), 1) for raw in source.read(piece, ["n"])]
    assert isinstance(report, BadFile)
    assert report.reason.startswith("it was written again after it was read")
