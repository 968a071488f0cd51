"""Admission: a bad row becomes a dead letter that says what, where and why; all others get in."""

import datetime as dt
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.connectors.intake import COLUMNAR, Format, take_in, write

from shoal.connectors.admission import admit, dead_letters
from shoal.connectors.formats.format import FORMATS
from shoal.connectors.sources.source import RawBatch, Wanted
from shoal.errors import SchemaError
from shoal.kernels.columns.block import arrow_schema
from shoal.model.query.schema import Schema

T0 = dt.datetime(2024, 1, 1)  # noqa: DTZ001  (Shoal's times have no zone)
T0_US = 1_704_067_200_000_000
TIMES = pa.array([T0, T0, T0], pa.timestamp("us"))


def times(values: list[int], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))


REFUSED = [
    pytest.param("int64 not null", pa.array([1, None, 3]), ["null"], "column 'x' is null", id="a null key"),
    pytest.param(
        "float64",
        pa.array(["1.5", "abc", "2"]),
        ["type"],
        "column 'x' must be float64; got a text that does not fit",
        id="a text where a number belongs",
    ),
    pytest.param(
        "int64",
        pa.array([1.0, 1.5, 3.0]),
        ["type"],
        "column 'x' must be int64; got a float64 that does not fit",
        id="a fraction where an integer belongs",
    ),
    pytest.param(
        "int64",
        pa.array([1, 2**63, 3], pa.uint64()),
        ["type"],
        "column 'x' must be int64; got a uint64 that does not fit",
        id="an integer that is too large",
    ),
    pytest.param(
        "bool",
        pa.array(["TRUE", "maybe", "0"]),
        ["type"],
        "column 'x' must be bool; got a text that does not fit",
        id="a text that is no boolean",
    ),
    pytest.param(
        "timestamp",
        pa.array(["2024-01-01T00:00:00Z", "yesterday", "2024-01-01"]),
        ["type"],
        "column 'x' must be timestamp; got a text that does not fit",
        id="a text that is no time",
    ),
    pytest.param(
        "timestamp",
        times([0, 253_402_300_800_000, 0], "ms"),
        ["range"],
        "column 'x' must lie in the years 1 to 9999",
        id="a time after the year 9999",
    ),
    pytest.param(
        "timestamp",
        times([0, -(2**60), 0], "ms", "UTC"),
        ["range"],
        "column 'x' must be timestamp; got a timestamp[ms, tz=UTC] that does not fit",
        id="a time beyond any calendar",
    ),
    pytest.param(
        "string",
        pa.array([b"a", b"\xff", b"b"]).view(pa.string()),
        ["type"],
        "column 'x' must be string; got a text that does not fit",
        id="a text that is not UTF-8",
    ),
]


@pytest.mark.parametrize("format_", COLUMNAR)
@pytest.mark.parametrize(("declared", "column", "reasons", "detail"), REFUSED)
def test_only_the_bad_row_is_refused(
    tmp_path: Path, format_: Format, declared: str, column: pa.Array, reasons: list[str], detail: str
) -> None:
    write(tmp_path / f"a.{format_}", {"ts": TIMES, "x": column, "unread": [1, 2, 3]})
    taken = take_in(tmp_path, {"ts": "timestamp", "x": declared}, format_=format_)
    assert len(taken.rows) == 2
    assert taken.reasons == reasons
    (letter,) = taken.letters
    assert letter["stream"] == "cars"
    assert letter["detail"] == detail
    assert letter["place"] == f"{tmp_path}/a.{format_}, row 1"
    assert json.loads(letter["row"])["ts"] == "2024-01-01T00:00:00.000000"


CSV_REFUSED = [
    pytest.param("int64 not null", "", "null", id="an empty field where a number must be"),
    pytest.param("string not null", "", "null", id="an empty field where a text must be"),
    pytest.param("timestamp not null", "", "null", id="an empty field where a time must be"),
    pytest.param("int64", '""', "type", id="an empty text where a number belongs"),
    pytest.param("int64", "abc", "type", id="a word where a number belongs"),
    pytest.param("int64", "1.5", "type", id="a fraction where an integer belongs"),
    pytest.param("int64", "9223372036854775808", "type", id="an integer that is too large"),
    pytest.param("bool", "yes", "type", id="a word that is no boolean"),
    pytest.param("timestamp", "32.12.2024", "type", id="a text that is no time"),
    pytest.param("timestamp", "253402300800000000", "range", id="a time after the year 9999"),
]


@pytest.mark.parametrize(("declared", "value", "reason"), CSV_REFUSED)
def test_only_the_bad_row_of_a_csv_file_is_refused(tmp_path: Path, declared: str, value: str, reason: str) -> None:
    kind = declared.split(maxsplit=1)[0]
    good = {"int64": "7", "float64": "7", "string": "7", "bool": "1", "timestamp": "1704067200000000"}[kind]
    lines = ["ts,x", f"2024-01-01,{good}", f"2024-01-01,{value}", f"2024-01-01,{good}"]
    write(tmp_path / "a.csv", "\n".join(lines))
    taken = take_in(tmp_path, {"ts": "timestamp", "x": declared}, format_="csv")
    assert len(taken.rows) == 2
    assert taken.reasons == [reason]
    assert taken.letters[0]["place"] == f"{tmp_path}/a.csv, row 1"
    assert json.loads(taken.letters[0]["row"]) == {
        "ts": "2024-01-01",
        "x": value.strip('"') or (None if not value else ""),
    }


@pytest.mark.parametrize("format_", COLUMNAR)
def test_an_event_too_far_ahead_of_the_clock_is_refused(tmp_path: Path, format_: Format) -> None:
    write(tmp_path / f"a.{format_}", {"ts": times([T0_US, T0_US + 11, T0_US + 10])})
    taken = take_in(tmp_path, {"ts": "timestamp"}, format_=format_, not_after_us=T0_US + 10)
    assert taken.reasons == ["future"]
    assert taken.letters[0]["detail"] == "event time 'ts' is too far ahead of the clock"
    assert taken.letters[0]["row"] == '{"ts": "2024-01-01T00:00:00.000011"}'


def test_a_row_with_several_faults_is_refused_once() -> None:
    batch = pa.record_batch({"ts": times([0, T0_US]), "x": pa.array([None, 1.5]), "y": pa.array([None, np.nan])})
    required = pa.field("x", pa.int64(), nullable=False)
    expected = pa.schema([("ts", pa.timestamp("us")), required, ("y", pa.float64())])
    admitted = admit(RawBatch(batch, "here"), expected, "ts", 0)
    assert admitted.batch.num_rows == 0
    assert [(refusal.reason, refusal.rows.tolist()) for refusal in admitted.refusals] == [("null", [0]), ("type", [1])]


def test_rows_are_shown_as_they_came() -> None:
    batch = pa.record_batch(
        {
            "ns": times([1], "ns"),
            "zoned": times([0], "ms", "Asia/Tokyo"),
            "far": times([2**62]),
            "date": pa.array([dt.date(2024, 2, 29)]),
            "nan": pa.array([np.nan]),
            "inf": pa.array([-np.inf]),
            "bytes": pa.array([b"\xff1"]),
            "broken": pa.array([b"\xff2"]).view(pa.string()),
            "entry": pa.array(["é"]).dictionary_encode(),
            "nested": pa.array([{"a": [1, None], "t": dt.date(2024, 1, 1)}]),
            "none": pa.nulls(1),
        }
    )
    refusals = admit(RawBatch(batch, "here"), pa.schema([("none", pa.int64())]), "none", None).refusals
    (letter,) = dead_letters("cars", RawBatch(batch, "here", first_row=40), refusals).to_pylist()
    assert letter["place"] == "here, row 40"
    assert json.loads(letter["row"]) == {
        "ns": "1970-01-01T00:00:00.000000001",
        "zoned": "1970-01-01T00:00:00.000Z",
        "far": "4611686018427387904 us since 1970",
        "date": "2024-02-29",
        "nan": "nan",
        "inf": "-inf",
        "bytes": "\\xff1",
        "broken": "\\xff2",
        "entry": "é",
        "nested": {"a": [1, None], "t": "2024-01-01"},
        "none": None,
    }


def test_a_null_among_the_entries_of_a_dictionary_is_a_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    admitted = admit(RawBatch(pa.record_batch({"x": column}), "here"), pa.schema([("x", pa.string())]), "x", None)
    assert [refusal.rows.tolist() for refusal in admitted.refusals] == [[1]]
    assert admitted.batch.column(0).to_pylist() == ["a", "a"]


def test_nulls_and_nan_get_in_where_they_may_be() -> None:
    batch = pa.record_batch({"ts": times([0, 1]), "x": pa.array([None, 1]), "y": pa.array([None, np.nan])})
    expected = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("y", pa.float64())])
    admitted = admit(RawBatch(batch, "here"), expected, "ts", 5)
    assert admitted.refusals == []
    assert [column.null_count for column in admitted.batch.columns] == [0, 1, 1]


def test_event_time_is_never_null() -> None:
    batch = pa.record_batch({"ts": pa.array([None, 1], pa.timestamp("us"))})
    admitted = admit(RawBatch(batch, "here"), pa.schema([("ts", pa.timestamp("us"))]), "ts", 5)
    assert [(refusal.reason, refusal.rows.tolist()) for refusal in admitted.refusals] == [("null", [0])]


@pytest.mark.parametrize("format_", ["parquet", "arrow", "csv"])
def test_a_row_gets_in_or_not_whichever_columns_are_read(tmp_path: Path, format_: Format) -> None:
    schema = {"ts": "timestamp", "a": "int64", "b": "int64 not null", "c": "float64", "d": "string"}
    path = tmp_path / f"a.{format_}"
    if format_ == "csv":
        write(path, "ts,a,b,c,d\n2024-01-01,1,1,1,x\n2024-01-01,,,1,x\n2024-01-01,1,2,oops,x\n2024-01-01,,3,1,")
    else:
        columns = {"a": pa.array([1, None, 1, None], pa.int32()), "b": pa.array([1, None, 2, 3])}
        columns |= {"c": pa.array(["1", "1", "oops", "1"]), "d": pa.array(["x", "x", "x", None])}
        write(path, {"ts": pa.array([T0] * 4, pa.timestamp("us")), **columns})
    for read in (["ts"], ["ts", "a"], ["ts", "b"], ["ts", "c", "d"], list(schema)):
        taken = take_in(tmp_path, schema, format_=format_, read=read)
        assert (len(taken.rows), sorted(taken.reasons)) == (2, ["null", "type"])


def test_columns_that_always_fit_are_not_read_to_be_checked(tmp_path: Path) -> None:
    columns = {"a": pa.array([1, None], pa.int32()), "b": pa.array([1, 2]), "c": pa.array([0.5, None])}
    write(tmp_path / "a.parquet", {"ts": times([0, 1]), **columns, "d": pa.array(["x", "y"])})
    declared = arrow_schema(Schema.of({"ts": "timestamp", "a": "int64", "b": "int64 not null", "c": "float64"}))
    declared = declared.append(pa.field("d", pa.string()))
    (raw,) = FORMATS["parquet"].read(str(tmp_path / "a.parquet"), [0], 0, Wanted.of(declared, ["ts"]))
    assert raw.batch.schema.names == ["ts", "d"]


def test_infinite_numbers_get_in_without_a_warning() -> None:
    batch = pa.record_batch({"x": pa.array([np.inf, -np.inf, 1e308, 1e308])})
    assert admit(RawBatch(batch, "here"), pa.schema([("x", pa.float64())]), "x", None).refusals == []


def test_a_batch_without_rows_gets_in() -> None:
    expected = pa.schema([("ts", pa.timestamp("us")), ("x", pa.string()), ("y", pa.float64())])
    empty = pa.RecordBatch.from_pylist([], expected)
    assert admit(RawBatch(empty, "here"), expected, "ts", 5).batch.num_rows == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ts", "sped"], "DataFrame lacks column 'speed'; it has ts, sped"),
        (["ts", "speed", "speed"], "DataFrame has more than one column 'speed'; it has ts, speed, speed"),
    ],
)
def test_a_batch_without_a_column_is_an_error_that_names_what_there_is(names: list[str], message: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])] * len(names), names=names)
    with pytest.raises(SchemaError, match=message):
        admit(RawBatch(batch, "DataFrame"), pa.schema([("ts", pa.int64()), ("speed", pa.int64())]), "ts", None)


@pytest.mark.parametrize("encode", [True, False], ids=["texts in a dictionary", "plain texts"])
def test_a_clean_batch_of_a_million_rows_gets_in_at_once(encode: bool) -> None:
    rows = 1_000_000
    numbers = np.arange(rows)
    kinds = pa.DictionaryArray.from_arrays(pa.array((numbers % 3).astype(np.int8)), pa.array(["car", "bus", "van"]))
    columns = {
        "ts": pa.array(numbers).view(pa.timestamp("us")),
        "region": pa.array(numbers),
        "kind": kinds if encode else kinds.cast(pa.string()),
        "speed": pa.array(numbers * 0.5),
    }
    types = [("ts", pa.timestamp("us")), ("region", pa.int64()), ("kind", pa.string()), ("speed", pa.float64())]
    raw = RawBatch(pa.record_batch(columns), "here")
    took_s = []
    for _ in range(7):
        began = time.perf_counter()
        admitted = admit(raw, pa.schema(types), "ts", rows)
        took_s.append(time.perf_counter() - began)
        assert admitted.batch.equals(raw.batch)
    assert min(took_s) < 0.005
