"""The journal as a file: it survives crashes, and says what is wrong with it."""

import math
from pathlib import Path

import pytest
from tests.control.test_story import STORY

from shoal.control.journal import Begun, Entry, Lost, Refused
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


def test_a_run_reads_what_earlier_runs_have_written_as_far_as_it_can(tmp_path: Path) -> None:
    assert JournalFile(str(tmp_path)).entries() == []
    JournalFile(str(tmp_path)).add(STORY[:2])
    with (tmp_path / NAME).open("a") as file:
        file.write('{"format":2,"kind":"lost"}\n')
    assert JournalFile(str(tmp_path)).entries() == STORY[:2]


def test_a_journal_of_before_formats_had_numbers_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"kind":"lost","at_s":2.5,"workers":[1],"reason":"it died","moved":3}\n')
    assert read_journal(str(tmp_path)) == [Lost(2.5, (1,), "it died", 3)]


def test_a_setting_without_limit_and_a_line_separator_in_a_text_come_back(tmp_path: Path) -> None:
    entries: list[Entry] = [
        Begun(1.0, "a\u2028b", "local", "guarded", 1, 1, {"most_rest_s": math.inf, "trigger": "periodic:1"}),
        Refused(2.0, "Rebind", "first\nsecond"),
    ]
    JournalFile(str(tmp_path)).add(entries)
    assert read_journal(str(tmp_path)) == entries


def test_no_journal_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no journal; a run with --checkpoint DIR or --journal DIR keeps one"):
        read_journal(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "line 1 of .*journal.jsonl is damaged: it must be object; got array"),
        ('{"kind":"moon"}', "line 1 of .* is damaged: field kind must be begun, decided.*; got 'moon'"),
        ('{"kind":"refused","at_s":1}', "line 1 of .* is damaged: field command is missing"),
        ('{"kind":"lost","at_s":1,"workers":["a"],"reason":"","moved":0}', r"field workers\[0\] must be int; got str"),
        ('{"format":2,"kind":"lost"}', "line 1 of .* has format 2; this version reads format 1"),
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
