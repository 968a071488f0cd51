"""Sinks: Parquet files that others read, and addresses."""

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink, directory_name, sink_from_uri
from shoal.errors import ConfigError
from shoal.storage import directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "speed[1] / región"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a table with two epochs, and what a crash in the third has left."""
    sink = ParquetSink(str(tmp_path))
    for epoch in (0, 1):
        sink.write(TABLE, epoch, result(epoch))
    with monkeypatch.context() as patch:
        patch.setattr(directory, "_move", crash)
        with pytest.raises(KeyboardInterrupt):
            sink.write(TABLE, 2, result(2))
    return tmp_path / directory_name(TABLE)


def result(epoch: int) -> pa.Table:
    return pa.table(
        {
            "end": pa.array([epoch * 1_000_000]).view(pa.timestamp("us")),
            "region": pa.array(["north"]).dictionary_encode(),
            "top": [[epoch + 0.5]],
        }
    )


def crash(*_: object) -> None:
    raise KeyboardInterrupt


def test_pyarrow_reads_a_table_as_a_dataset(written: Path) -> None:
    assert ds.dataset(written).to_table().column("top").to_pylist() == [[0.5], [1.5]]


def test_duckdb_reads_a_table(written: Path) -> None:
    query = f"select epoch_us(\"end\"), region, top from read_parquet('{written}/*.parquet') order by 1"
    with duckdb.connect() as connection:
        assert connection.execute(query).fetchall() == [(0, "north", [0.5]), (1_000_000, "north", [1.5])]


@pytest.mark.slow
def test_spark_reads_a_table(written: Path, spark: "SparkSession") -> None:
    found = spark.read.parquet(str(written)).orderBy("end")
    assert [(row["region"], row["top"]) for row in found.collect()] == [("north", [0.5]), ("north", [1.5])]


def test_the_remains_of_a_crash_are_no_rows(written: Path) -> None:
    assert len(list(written.iterdir())) == 3
    assert ParquetSink(str(written.parent)).table(TABLE).num_rows == 2


def test_a_table_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name of a table must not be empty"):
        ParquetSink(str(tmp_path)).write("", 0, pa.table({"n": [1]}))


def test_the_console_shows_the_first_rows_and_says_how_many_more_there_are() -> None:
    stream = io.StringIO()
    ConsoleSink(rows=2, stream=stream).write("t", 7, pa.table({"n": [1, 2, 3]}))
    assert stream.getvalue() == "-- t, epoch 7: 3 rows\n   n=1\n   n=2\n   ... 1 more\n"


@pytest.mark.parametrize(
    ("uri", "sink"),
    [
        ("parquet:out", ParquetSink("out")),
        ("parquet:file:///data/out", ParquetSink("file:///data/out")),
        ("parquet:s3://bucket/out", ParquetSink("s3://bucket/out")),
        ("memory:", MemorySink()),
    ],
)
def test_a_sink_has_an_address(uri: str, sink: object) -> None:
    assert sink_from_uri(uri) == sink


def test_the_console_has_an_address() -> None:
    assert isinstance(sink_from_uri("console:"), ConsoleSink)


@pytest.mark.parametrize("uri", ["", "parquet", "parquet:", "console:x", "memory:x", "kafka://broker", "out"])
def test_an_unknown_address_is_rejected_with_the_known_ones(uri: str) -> None:
    with pytest.raises(ConfigError, match="sink must be parquet:DIR, console: or memory:; got"):
        sink_from_uri(uri)


@pytest.mark.parametrize("uri", ["parquet:ftp://host/out", "parquet:file://out", "parquet:/", "parquet:s3://"])
def test_an_address_that_cannot_be_written_to_is_rejected_before_the_run(uri: str) -> None:
    with pytest.raises(ConfigError, match="must"):
        sink_from_uri(uri)


def test_no_thread_of_arrow_has_a_file_that_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that lets go of a Python object while Python exits aborts the process."""
    sink = ParquetSink(str(tmp_path))
    sink.write("t", 0, pa.table({"n": range(1000), "m": range(1000)}))
    content = bytearray(directory.Directory(str(tmp_path)).read("t/epoch-0000000000.parquet"))
    handed_out: list[bytes] = []

    def read(_: directory.Directory, name: str) -> bytes:
        handed_out.append(bytes(content))
        return handed_out[-1]

    monkeypatch.setattr(directory.Directory, "read", read)
    alone, held = sys.getrefcount(read(directory.Directory(str(tmp_path)), "")), 0
    for _ in range(200):
        assert sink.table("t").num_rows == 1000
        held += sys.getrefcount(handed_out[-1]) > alone
    assert held == 0
