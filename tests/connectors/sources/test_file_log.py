"""The file log: its entries survive restarts and crashes, and stay few."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sources import file_log as filelog
from shoal.connectors.sources.file_log import FileLog, LoggedFile
from shoal.errors import CheckpointError
from shoal.storage.directory import Directory


class CrashingDirectory(Directory):
    """Dies instead of its n-th change."""

    def __init__(self, uri: str, changes: int) -> None:
        super().__init__(uri)
        self.changes = changes

    def write(self, name: str, content: bytes) -> None:
        self._count()
        super().write(name, content)

    def delete(self, names: object) -> None:
        for name in names:  # type: ignore[attr-defined]
            self._count()
            super().delete([name])

    def _count(self) -> None:
        self.changes -= 1
        if self.changes < 0:
            raise KeyboardInterrupt


def file(number: int) -> LoggedFile:
    return LoggedFile(f"/in/{number}", number, number, (number, 1), "odd" if number % 2 else "")


@pytest.fixture
def small_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filelog, "MERGED_ENTRIES", 3)


def test_a_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    log = FileLog(directory)
    log.append([file(0), file(1)])
    log.append([file(2)])
    assert FileLog(directory).files == log.files == [file(0), file(1), file(2)]


def test_entries_are_merged_now_and_then(tmp_path: Path, small_merges: None) -> None:
    log = FileLog(Directory(str(tmp_path)))
    for number in range(400):
        log.append([file(number)])
    assert len(list(tmp_path.iterdir())) <= 400 // 4 + 4
    again = FileLog(Directory(str(tmp_path)))
    assert again.files == [file(number) for number in range(400)]
    again.append([file(400)])
    assert len(list(tmp_path.iterdir())) == 1
    assert FileLog(Directory(str(tmp_path))).files == [file(number) for number in range(401)]


@settings(max_examples=60, deadline=None)
@given(crashes=st.lists(st.integers(0, 12), max_size=6))
def test_a_crash_at_any_change_loses_no_file_and_repeats_none(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filelog, "MERGED_ENTRIES", 3)
        uri = str(tmp_path_factory.mktemp("log"))
        for changes in [*crashes, 1000]:
            log = FileLog(CrashingDirectory(uri, changes))
            try:
                while len(log.files) < 20:
                    log.append([file(len(log.files))])
            except KeyboardInterrupt:
                continue
        assert FileLog(Directory(uri)).files == [file(number) for number in range(20)]


@pytest.mark.parametrize("content", [b"", b"[{", b'[{"path": 1}]', b"[1]"])
def test_a_damaged_entry_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "files-0000000000.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"file log .*/files-0000000000.json is damaged"):
        FileLog(Directory(str(tmp_path)))


def test_a_missing_entry_is_an_error(tmp_path: Path) -> None:
    log = FileLog(Directory(str(tmp_path)))
    log.append([file(0), file(1)])
    log.append([file(2)])
    (tmp_path / "files-0000000000.json").unlink()
    with pytest.raises(CheckpointError, match=r"must continue with file 0; got files-0000000002\.json"):
        FileLog(Directory(str(tmp_path)))
