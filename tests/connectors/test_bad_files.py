"""Bad files: one clear error, or one dead letter, as the user asked."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from tests.connectors.intake import COLUMNAR, Format, take_in, write

from shoal.connectors.formats import format as formats
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import BadFile, RawBatch
from shoal.errors import SourceError

SCHEMA = {"ts": "timestamp", "speed": "float64"}
GOOD = {"ts": pa.array([0, 1]).view(pa.timestamp("us")), "speed": pa.array([1.5, 2.5])}
GOOD_CSV = "ts,speed\n1970-01-01,1.5\n1970-01-01,2.5\n"
ALL: tuple[Format, ...] = (*COLUMNAR, "csv")


def write_good(path: Path) -> None:
    write(path, GOOD_CSV if path.suffix == ".csv" else GOOD)


def truncated(path: Path) -> None:
    write_good(path)
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.touch()


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def without_speed(path: Path) -> None:
    write(path, "ts,sped\n1970-01-01,1\n" if path.suffix == ".csv" else {"ts": GOOD["ts"], "sped": GOOD["speed"]})


def without_speed_and_rows(path: Path) -> None:
    write(path, "ts,sped\n" if path.suffix == ".csv" else {"ts": GOOD["ts"][:0], "sped": GOOD["speed"][:0]})


def with_speed_twice(path: Path) -> None:
    table = pa.Table.from_arrays([GOOD["ts"], GOOD["speed"], GOOD["speed"]], names=["ts", "speed", "speed"])
    if path.suffix == ".csv":
        write(path, "ts,speed,speed\n1970-01-01,1,2\n")
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)


BAD = [
    pytest.param(COLUMNAR, truncated, "", id="truncated"),
    pytest.param(ALL, empty, "it is empty (0 bytes)", id="without a byte"),
    pytest.param(ALL, garbage, "", id="of another kind"),
    pytest.param(ALL, without_speed, "it lacks column 'speed'; it has ts, sped", id="without a column"),
    pytest.param(ALL, without_speed_and_rows, "it lacks column 'speed'; it has ts, sped", id="without column and rows"),
    pytest.param(ALL, with_speed_twice, "it has more than one column 'speed'; it has ts, speed, speed", id="doubled"),
]
CASES = [
    pytest.param(format_, *case.values[1:], id=f"{format_} {case.id}")
    for case in BAD
    for format_ in case.values[0]  # type: ignore[union-attr]
]


@pytest.mark.parametrize(("format_", "spoil", "reason"), CASES)
def test_a_bad_file_stops_the_run_with_one_error(
    tmp_path: Path, format_: Format, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(tmp_path / f"b.{format_}")
    with pytest.raises(SourceError) as raised:
        take_in(tmp_path, SCHEMA, format_=format_)
    message = str(raised.value)
    assert message.startswith(f"cannot read {tmp_path}/b.{format_} as {format_}: {reason}")
    assert message.endswith("or set on_bad_file='dead-letter' to skip such files")
    assert "\n" not in message


@pytest.mark.parametrize(("format_", "spoil", "reason"), CASES)
def test_a_bad_file_becomes_one_dead_letter_on_request(
    tmp_path: Path, format_: Format, spoil: Callable[[Path], None], reason: str
) -> None:
    write_good(tmp_path / f"a.{format_}")
    spoil(tmp_path / f"b.{format_}")
    write_good(tmp_path / f"c.{format_}")
    taken = take_in(tmp_path, SCHEMA, format_=format_, on_bad_file="dead-letter")
    assert len(taken.rows) == 4
    (bad,) = taken.bad
    assert bad.where == f"{tmp_path}/b.{format_}"
    assert bad.reason.startswith(reason)
    assert bad.reason


@pytest.mark.parametrize("format_", ALL)
def test_a_file_without_rows_is_not_bad(tmp_path: Path, format_: Format) -> None:
    if format_ == "csv":
        for number, header in enumerate(["ts,speed", "ts,speed\n", "ts,speed\r\n\r\n\n"]):
            write(tmp_path / f"{number}.csv", header)
    else:
        write(tmp_path / f"none.{format_}", {name: column[:0] for name, column in GOOD.items()})
    if format_ == "parquet":
        pq.ParquetWriter(tmp_path / "no row group.parquet", pa.table(GOOD).schema).close()
    taken = take_in(tmp_path, SCHEMA, format_=format_)
    assert (taken.rows, taken.letters, taken.bad) == ([], [], [])


@pytest.mark.parametrize("format_", COLUMNAR)
def test_more_columns_than_declared_do_not_matter(tmp_path: Path, format_: Format) -> None:
    write(tmp_path / f"a.{format_}", {"extra": pa.array([None, {"a": 1}]), **GOOD, "more": pa.array(["x", "y"])})
    assert len(take_in(tmp_path, SCHEMA, format_=format_).rows) == 2


def test_a_column_that_no_query_reads_may_be_missing_or_bad(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "ts,speed\n1970-01-01,abc\n")
    write(tmp_path / "b.csv", "ts\n1970-01-01\n")
    assert len(take_in(tmp_path, SCHEMA, format_="csv", columns=["ts"]).rows) == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("format_", ALL)
def test_a_file_that_may_not_be_read_is_bad(tmp_path: Path, format_: Format) -> None:
    path = tmp_path / f"a.{format_}"
    write_good(path)
    path.chmod(0)
    with pytest.raises(SourceError, match=f"cannot read .*a.{format_} as {format_}: permission denied; "):
        take_in(tmp_path, SCHEMA, format_=format_)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_an_error_of_the_operating_system_is_reported_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fail(*_: object) -> None:
        raise error

    write_good(tmp_path / "a.parquet")
    monkeypatch.setattr(pq, "read_metadata", fail)
    with pytest.raises(SourceError, match=rf"a\.parquet as parquet: {str(error.strerror).lower()}; "):
        take_in(tmp_path, SCHEMA, format_="parquet")


def numbers(path: Path, rows: int, group: int) -> None:
    pq.write_table(
        pa.table({"n": np.arange(rows)}), path, row_group_size=group, compression="none", use_dictionary=False
    )


def first_epoch(source: Files, tmp_path: Path, change: Callable[[], None]) -> list[RawBatch | BadFile]:
    """Plan an epoch, let something happen, then read it."""
    cursor = source.cursor(str(tmp_path / "_cursor"))
    end = cursor.latest(source.start())
    slices = cursor.slices(source.start(), end, 1)
    change()
    return [raw for piece in slices for raw in source.read(piece, ["n"])]


CHANGES = [
    pytest.param(lambda path: numbers(path, 200, 50), "it had .* bytes when it was found and has .* now", id="longer"),
    pytest.param(lambda path: os.utime(path, ns=(0, 0)), "it was written again after it was found", id="rewritten"),
    pytest.param(lambda path: path.unlink(), "it no longer exists", id="removed"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_a_file_that_changes_after_it_was_found_is_bad(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "a.parquet"
    numbers(path, 100, 50)
    strict = Files(str(tmp_path), follow=False)
    with pytest.raises(SourceError, match=rf"cannot read {path} as parquet: {reason}"):
        first_epoch(strict, tmp_path, lambda: change(path))
    numbers(path, 100, 50)
    lenient = Files(str(tmp_path), follow=False, on_bad_file="dead-letter")
    (bad,) = first_epoch(lenient, tmp_path / "again", lambda: change(path))
    assert isinstance(bad, BadFile)


def test_what_was_read_before_the_damage_counts_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_ROWS", 1000)
    path = tmp_path / "a.parquet"
    numbers(path, 3000, 1000)
    content = bytearray(path.read_bytes())
    offset = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    content[offset : offset + 40] = b"\xff" * 40
    path.write_bytes(content)
    lenient = Files(str(tmp_path), follow=False, on_bad_file="dead-letter")
    good, bad = first_epoch(lenient, tmp_path, lambda: None)
    assert isinstance(good, RawBatch)
    assert good.batch.column("n").to_pylist() == list(range(1000))
    assert isinstance(bad, BadFile)
    assert bad.where == f"{path}, from row 1000 on"
    with pytest.raises(SourceError, match="as parquet from row 1000 on: "):
        first_epoch(Files(str(tmp_path), follow=False), tmp_path, lambda: None)


def test_rows_of_an_arrow_file_outlive_its_reading(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"n": np.arange(1000)}), str(tmp_path / "a.arrow"), compression="uncompressed")
    source = Files(str(tmp_path), format="arrow", follow=False)
    (raw,) = first_epoch(source, tmp_path, lambda: None)
    (tmp_path / "a.arrow").unlink()
    assert isinstance(raw, RawBatch)
    assert raw.batch.column("n").to_pylist() == list(range(1000))


def test_a_dictionary_that_names_a_text_twice_is_put_right(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["car", "bus", "car"]))
    batch = pa.record_batch({"kind": column})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), batch.schema) as writer:
        writer.write_batch(batch)
    source = Files(str(tmp_path), format="arrow", follow=False)
    cursor = source.cursor(str(tmp_path / "_cursor"))
    (piece,) = cursor.slices(source.start(), cursor.latest(source.start()), 1)
    (raw,) = source.read(piece, ["kind"])
    assert isinstance(raw, RawBatch)
    assert raw.batch.column("kind").dictionary.to_pylist() == ["car", "bus"]
    assert raw.batch.column("kind").to_pylist() == ["car", "bus", "car"]
