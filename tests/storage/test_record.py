"""Records: a damaged file is found by its checksum, and the error names the file and the field."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import CheckpointError
from shoal.storage.codec import Codec
from shoal.storage.record import Record, sealed


@dataclass(frozen=True)
class Note:
    epoch: int
    tables: tuple[str, ...] = ()


RECORD = Record(Codec([Note], format=2))
PLACE = "/run/epochs/3"
NOTES = st.builds(Note, st.integers(), st.lists(st.text(), max_size=3).map(tuple))


@settings(deadline=None)
@given(note=NOTES)
def test_what_is_written_is_read(note: Note) -> None:
    assert RECORD.decode(RECORD.encode(note), PLACE) == note


@settings(deadline=None)
@given(note=NOTES, data=st.data())
def test_no_damage_goes_unnoticed(note: Note, data: st.DataObject) -> None:
    content = RECORD.encode(note)
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    flipped = bytes([content[at] ^ (1 << data.draw(st.integers(0, 7)))])
    spoiled = content[:at] if cut else content[:at] + flipped + content[at + 1 :]
    with pytest.raises(CheckpointError, match=f"^checkpoint file {PLACE} is damaged: its checksum does not match; "):
        RECORD.decode(spoiled, PLACE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"format":2,"kind":"note","epoch":"3"}', "is damaged: field epoch must be int; got str; restore it from a"),
        (b'{"format":2,"kind":"note"}', "is damaged: field epoch is missing; restore it from a copy"),
        (b'{"format":2,"kind":"plan","epoch":3}', "is damaged: field kind must be note; got 'plan'; restore it"),
        (b'{"format":1,"kind":"note","epoch":3}', "has format 1; this version reads format 2"),
        (b"[]", "is damaged: it must be object; got array; restore it from a copy"),
    ],
    ids=["wrong type", "missing field", "other kind", "other format", "no object"],
)
def test_a_whole_file_with_wrong_content_is_an_error_that_names_file_and_field(text: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=f"^{re.escape(f'checkpoint file {PLACE} {message}')}"):
        RECORD.decode(sealed(text), PLACE)


def test_the_subject_and_the_hint_are_the_users() -> None:
    record = Record(Codec([Note], format=2), subject="file log", hint="remove it")
    with pytest.raises(CheckpointError, match=r"^file log /x is damaged: its checksum does not match; remove it$"):
        record.decode(b"", "/x")
