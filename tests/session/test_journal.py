"""The journal as a file: it survives crashes, and says what is wrong with it."""

from pathlib import Path

import pytest
from tests.control.test_story import STORY

from shoal.errors import ConfigError
from shoal.session.journal import NAME, JournalFile, read_journal


def test_what_is_written_is_read(tmp_path: Path) -> None:
    JournalFile(str(tmp_path / "run")).add(STORY[:4])
    JournalFile(str(tmp_path / "run")).add(STORY[4:])
    assert read_journal(str(tmp_path / "run")) == STORY


def test_a_line_that_a_crash_has_cut_off_is_left_out(tmp_path: Path) -> None:
    JournalFile(str(tmp_path)).add(STORY)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:-20])
    assert read_journal(str(tmp_path)) == STORY[:-1]
    JournalFile(str(tmp_path)).add(STORY[:1])
    assert read_journal(str(tmp_path)) == [*STORY[:-1], STORY[0]]


def test_no_journal_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no journal; a run with --checkpoint DIR or --journal DIR keeps one"):
        read_journal(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", r"line 1 of .*journal.jsonl is no entry of a journal: '\[1\]'"),
        ('{"kind":"moon"}', "a journal has entries of kind begun, decided.*; got 'moon'"),
        ('{"kind":"refused","at_s":1}', "a journal's entry of kind refused cannot be understood: .*missing"),
    ],
)
def test_a_line_that_is_no_entry_is_a_clear_error(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / NAME).write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        read_journal(str(tmp_path))


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"^journal .*file/journal.jsonl cannot be written: "):
        JournalFile(str(tmp_path / "file"))
