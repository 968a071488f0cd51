"""The user's own streaming DataFrame as a source: the same results as from one of Shoal's."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.small_city import REGIONS, city_events, result_tables

from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.generator import Generator
from shoal.errors import GraphError, RunError, SchemaError
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count
from shoal.model.query.window import tumbling
from shoal.runtimes.spark.state.checkpoint import Checkpoint, Manifest
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import SCHEMA, STREAM, queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "ts timestamp, vehicle long, region long, vehicle_type string, speed double"
FILES = 4
FILE_ROWS = 2_000
WRITTEN = 1_700_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Vehicle reports in Parquet files as Spark itself would write them: with times in UTC."""
    directory = tmp_path / "events"
    directory.mkdir()
    for number in range(FILES):
        write_file(directory, number)
    return directory


def write_file(directory: Path, number: int) -> None:
    events = pa.table(city_events().batch(number * FILE_ROWS, (number + 1) * FILE_ROWS))
    plain = pa.schema(
        [
            (field.name, pa.string() if field.name == "vehicle_type" else field.type)
            for field in events.schema
            if field.name != "ts"
        ]
    )
    schema = pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), *plain])
    hidden = directory / f".part-{number}"
    pq.write_table(events.cast(schema), hidden)
    os.utime(hidden, (WRITTEN + number, WRITTEN + number))  # Spark reads files in the order of their times
    hidden.rename(directory / f"part-{number}.parquet")


def frame(spark: "SparkSession", directory: Path) -> "DataFrame":
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(directory))


def job(source: "DataFrame") -> Job:
    return Job.of("frames", queries(REGIONS), {STREAM: source})


def drain(run: Run, event: EpochCommitted) -> None:
    run.drain()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_draining_reads_what_is_there_and_closes_every_window(
    zone: str, spark: "SparkSession", directory: Path
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        run = start(job(frame(spark, directory)), spark=spark)
        tally = run.wait(drain)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert tally.epochs == FILES + 1
    assert run.consumed == FILES * FILE_ROWS
    assert differences(result_tables(run), expected(f"{directory}/*.parquet")) == []


def test_a_run_goes_on_after_a_restart_with_what_has_come_since(
    spark: "SparkSession", directory: Path, tmp_path: Path
) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": ParquetSink(str(tmp_path / "results"))}
    start(job(frame(spark, directory)), spark=spark, **kept).wait(lambda run, _: run.stop())
    write_file(directory, FILES)
    run = start(job(frame(spark, directory)), spark=spark, **kept)
    run.wait(drain)
    assert run.consumed == (FILES + 1) * FILE_ROWS
    assert differences(result_tables(run), expected(f"{directory}/*.parquet")) == []


def test_an_interrupted_flush_is_repeated_with_the_same_input(
    spark: "SparkSession", directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "sink": ParquetSink(str(tmp_path / "results"))}
    wanted = expected(f"{directory}/*.parquet")
    write = Checkpoint.write_manifest

    def fail_in_the_flush(self: Checkpoint, manifest: Manifest) -> None:
        if manifest.final:
            raise OSError("no space left on device")
        write(self, manifest)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write_manifest", fail_in_the_flush)
        with pytest.raises(RunError, match="no space left on device"):
            start(job(frame(spark, directory)), spark=spark, **kept).wait(drain)
    write_file(directory, FILES)
    run = start(job(frame(spark, directory)), spark=spark, **kept)
    assert run.wait().epochs == 1
    assert run.consumed == FILES * FILE_ROWS
    assert differences(result_tables(run), wanted) == []


def test_a_dataframe_and_a_generator_run_in_one_job(spark: "SparkSession", directory: Path) -> None:
    taxis = Stream("taxis", SCHEMA, time="ts")
    counted = taxis.key_by("region").window(tumbling(60)).aggregate(n=count()).sink("taxis")
    generated = Generator(city_events(seed=5), events=3_000, rows_per_epoch=1_000)
    both = Job.of("both", [*queries(REGIONS), counted], {STREAM: frame(spark, directory), "taxis": generated})
    run = start(both, spark=spark)
    run.wait(drain)
    assert differences(result_tables(run), expected(f"{directory}/*.parquet")) == []
    assert sum(result_tables(run)["taxis"]["n"].to_pylist()) == run.consumed - FILES * FILE_ROWS > 0


def test_a_dataframe_that_does_not_stream_is_refused(spark: "SparkSession", directory: Path) -> None:
    with pytest.raises(GraphError, match="source of stream 'vehicles' must be a streaming DataFrame"):
        start(job(spark.read.parquet(str(directory))), spark=spark)


def test_a_dataframe_without_a_column_is_one_clear_error(spark: "SparkSession", directory: Path) -> None:
    run = start(job(frame(spark, directory).drop("speed")), spark=spark)
    with pytest.raises(SchemaError, match="DataFrame for stream vehicles lacks column 'speed'; it has ts, vehicle"):
        run.wait(drain)
