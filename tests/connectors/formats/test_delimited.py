"""CSV files: what a header, a quote, a line end and a byte may be, and what becomes of rows that are none."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.connectors.intake import Taken, take_in, write

from shoal.connectors.formats import delimited
from shoal.connectors.formats.delimited import Csv
from shoal.connectors.sources.source import RawBatch, Wanted
from shoal.errors import SourceError

SCHEMA = {"n": "int64", "s": "string"}


def taken(tmp_path: Path, content: str | bytes) -> Taken:
    write(tmp_path / "a.csv", content)
    return take_in(tmp_path, SCHEMA, format_="csv")


def origins(found: Taken) -> list[str]:
    return [letter["place"].rpartition("/")[2] for letter in found.letters]


GOOD = [
    pytest.param("n,s\n1,a\n2,b\n", id="plain"),
    pytest.param("n,s\n1,a\n2,b", id="no line end after the last row"),
    pytest.param("n,s\r\n1,a\r\n2,b\r\n", id="line ends of Windows"),
    pytest.param("n,s\r1,a\r2,b\r", id="line ends of old Macs"),
    pytest.param("\ufeffn,s\n1,a\n2,b\n", id="a byte order mark"),
    pytest.param('\ufeff"n","s"\n1,a\n2,b\n', id="a byte order mark before a quote"),
    pytest.param("s,other,n\na,x,1\nb,,2\n", id="columns in another order"),
    pytest.param('"s","x,\ny",n\na,,1\nb,,2\n', id="a comma and a line end in the header"),
    pytest.param("\n\nn,s\n\n1,a\n\n2,b\n\n", id="blank lines"),
    pytest.param('n,s,"5"" pipe"\n1,a,5" wide\n2,b,\n', id="a lone quote inside of a field"),
]


@pytest.mark.parametrize("content", GOOD)
def test_a_file_may_be_written_in_many_ways(tmp_path: Path, content: str) -> None:
    found = taken(tmp_path, content)
    assert found.rows == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    assert found.letters == []


def test_quoted_values_may_hold_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    found = taken(tmp_path, 'n,s\n1,"a, ""b""\r\nc"\n"2",""\n')
    assert found.rows == [{"n": 1, "s": 'a, "b"\r\nc'}, {"n": 2, "s": ""}]


def test_a_row_with_too_few_or_too_many_fields_is_refused_alone(tmp_path: Path) -> None:
    found = taken(tmp_path, "n,s\n0,a\n1\n2,b,c\n\n3,d\nx,e\n5\n")
    assert [row["n"] for row in found.rows] == [0, 3]
    assert sorted(zip(origins(found), found.reasons, strict=True)) == [
        ("a.csv, row 1", "malformed"),
        ("a.csv, row 2", "malformed"),
        ("a.csv, row 4", "type"),
        ("a.csv, row 5", "malformed"),
    ]
    details = {letter["place"][-1]: (letter["detail"], json.loads(letter["row"])) for letter in found.letters}
    assert details["1"] == ("the row must have 2 fields; got 1", {"line": "1"})
    assert details["2"] == ("the row must have 2 fields; got 3", {"line": "2,b,c"})


def test_a_file_of_nothing_but_bad_rows_is_not_a_bad_file(tmp_path: Path) -> None:
    found = taken(tmp_path, "n,s\n1\n2\n")
    assert (found.rows, found.bad) == ([], [])
    assert origins(found) == ["a.csv, row 0", "a.csv, row 1"]


def test_bytes_that_are_not_utf8_spoil_their_row_only(tmp_path: Path) -> None:
    found = taken(tmp_path, b"n,s,unread\n0,\xc3\xa9,x\n1,caf\xe9,x\n2,b,\xff\n3,\xfe,x,y\n4,c,x\n")
    assert found.rows == [{"n": 0, "s": "é"}, {"n": 2, "s": "b"}, {"n": 4, "s": "c"}]
    letters = {letter["place"][-1]: letter for letter in found.letters}
    assert set(letters) == {"1", "3"}
    assert letters["1"]["detail"] == "column 's' is not UTF-8"
    assert json.loads(letters["1"]["row"]) == {"n": "1", "s": "caf\\xe9"}
    assert json.loads(letters["3"]["row"]) == {"line": "3,\\xfe,x,y"}


def test_half_a_character_at_the_end_is_not_utf8(tmp_path: Path) -> None:
    found = taken(tmp_path, b"n,s\n1,a\n2,\xc3")
    assert [row["n"] for row in found.rows] == [1]
    assert found.reasons == ["malformed"]


BAD = [
    pytest.param("\n\n", "it has no header line", id="blank"),
    pytest.param(",,\n1,2,3\n", "it has no header line", id="a header without names"),
    pytest.param("n;s\n1;a\n", "it lacks column 'n', 's'; it has n;s", id="semicolons"),
    pytest.param("n,s\n1,a\n".encode("utf-16"), "its header is not UTF-8 text", id="UTF-16"),
    pytest.param('n,s\n0,a\n1,"b\n2,c\n', "a quote is never closed, in row 1", id="an open quote in the last column"),
    pytest.param('n,s\n0,a\n"1,b\n2,c\n', "a quote is never closed, in row 1", id="an open quote in the first column"),
    pytest.param('n,"s\n0,a\n', "it lacks column 's'", id="an open quote in the header"),
]


@pytest.mark.parametrize(("content", "reason"), BAD)
def test_a_file_that_cannot_be_split_into_rows_is_bad(tmp_path: Path, content: str | bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=f"as csv: {reason}"):
        taken(tmp_path, content)


def test_a_row_longer_than_a_block_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 20)
    with pytest.raises(SourceError, match="a row is longer than 1 MiB"):
        taken(tmp_path, f"n,s\n1,a\n2,{'x' * (3 << 20)}\n")


fields = st.text(st.sampled_from('ab1, "\n;é€'), max_size=5)
rows = st.lists(st.lists(fields, min_size=1, max_size=4), max_size=12)


def quoted(row: list[str]) -> str:
    return ",".join('"' + value.replace('"', '""') + '"' for value in row)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, end=st.sampled_from(["\n", "\r\n"]), block=st.integers(64, 200))
def test_every_row_comes_out_once_with_its_number_and_its_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[list[str]], end: str, block: int
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", block)
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["x,y", *map(quoted, rows), ""]).encode())
    good: dict[int, Any] = {}
    malformed: dict[int, Any] = {}
    for raw in Csv().read(str(path), [0], 0, Wanted(("x", "y"), pa.schema([]))):
        assert isinstance(raw, RawBatch)
        for at, row in enumerate(raw.batch.to_pylist()):
            (malformed if raw.malformed else good)[raw.number(at)] = list(row.values())
    assert good == {number: row for number, row in enumerate(rows) if len(row) == 2}
    assert malformed == {number: [quoted(row)] for number, row in enumerate(rows) if len(row) != 2}


def test_malformed_rows_follow_the_batch_they_stood_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    lines = ["1" if number % 40 == 7 else f"{number},a" for number in range(200)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["n,s", *lines]))
    batches = list(Csv().read(str(path), [0], 0, Wanted(("n",), pa.schema([]))))
    positions = [raw.number(0) for raw in batches]
    assert len([raw for raw in batches if raw.malformed]) == 5
    assert all(abs(raw.number(0) - at) < 40 for raw, at in zip(batches, sorted(positions), strict=True))
    good = [raw.batch.column(0) for raw in batches if not raw.malformed]
    assert pa.chunked_array(good).to_pylist() == [str(number) for number in range(200) if number % 40 != 7]


class Counting:
    """A handler of malformed rows."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, row: Any) -> str:
        self.rows += 1
        return "skip"


@pytest.mark.parametrize("whole", [True, False], ids=["read to its end", "closed after a block"])
def test_no_thread_of_arrow_has_a_file_that_was_read(
    tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that lets go of a Python object while Python exits aborts the process."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 17)
    write(tmp_path / "a.csv", "n,s\n" + ("1,a\n" * 20_000 + "2\n") * 4)
    alone, held = sys.getrefcount(Counting()), 0
    for _ in range(100):
        skip = Counting()
        batches = delimited._open(str(tmp_path / "a.csv"), ["n"], skip)
        assert next(batches).num_rows
        assert not whole or sum(batch.num_rows for batch in batches)
        batches.close()
        assert skip.rows
        held += sys.getrefcount(skip) > alone + 1  # the variable
    assert held == 0
