"""SQL scripts as jobs: where rows come from and go to."""

import os
from pathlib import Path

import pytest

from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.files import Files
from shoal.errors import ConfigError, GraphError
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.session.run import start
from shoal.session.script import job_from_sql, sink_of

QUERY = "INSERT INTO fast SELECT ts, speed FROM cars WHERE speed > 30;"


def table(**options: str) -> str:
    said = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE cars (ts TIMESTAMP(3), speed DOUBLE, WATERMARK FOR ts AS ts) WITH ({said});"


def result(path: str, name: str = "fast", **options: str) -> str:
    said = ", ".join(f"'{key}' = '{value}'" for key, value in {"connector": "files", "path": path, **options}.items())
    return f"CREATE TABLE {name} (ts TIMESTAMP(3), speed DOUBLE) WITH ({said});"


def test_a_source_is_what_the_options_say() -> None:
    text = table(connector="files", path="/data/cars", format="arrow", follow="false", rows_per_epoch="5000") + QUERY
    job = job_from_sql(text, "cars")
    assert job.sources == {"cars": Files("/data/cars", format="arrow", follow=False, rows_per_epoch=5000)}
    assert list(job.graph.queries) == ["fast"]


def test_parquet_files_are_followed_unless_told_otherwise() -> None:
    job = job_from_sql(table(connector="files", path="/data/cars") + QUERY, "cars")
    assert job.sources == {"cars": Files("/data/cars")}


def test_the_partitions_of_files_are_those_of_the_option() -> None:
    job = job_from_sql(table(connector="files", path="/data/cars", partition="^(car-[0-9]+)") + QUERY, "cars")
    assert job.sources == {"cars": Files("/data/cars", partition="^(car-[0-9]+)")}
    assert job.sources["cars"].partition_of("/data/cars/car-7.2.csv") == "car-7"


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        pytest.param({"partition": "^(car-[0-9]+)"}, [(10, 3), (110, 2)], id="of each car, so no row is late"),
        pytest.param({}, [(10, 1), (110, 2)], id="of all files, so rows of the second car are late"),
    ],
)
def test_rows_are_late_by_the_watermark(
    tmp_path: Path, options: dict[str, str], counted: list[tuple[int, int]]
) -> None:
    for number, (car, seconds) in enumerate([(1, [1, 101]), (2, [2, 3, 102])]):
        rows = "".join(f"1970-01-01 00:0{second // 60}:{second % 60:02},40\n" for second in seconds)
        path = tmp_path / f"car-{car}.csv"
        path.write_text(f"ts,speed\n{rows}")
        os.utime(path, (number, number))
    asked = (
        "INSERT INTO n SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), "
        "INTERVAL '10' SECOND)) GROUP BY window_start, window_end;"
    )
    known = {"connector": "files", "path": str(tmp_path), "format": "csv", "follow": "false", "rows_per_epoch": "1"}
    run = start(job_from_sql(table(**known, **options) + asked, "cars"), on="reference")
    run.wait()
    found = run.sink.table("n").to_pylist()  # type: ignore[attr-defined]
    assert sorted((int(row["window_end"].timestamp()), row["n"]) for row in found) == counted


def test_a_given_source_goes_before_the_options() -> None:
    mine = object()
    job = job_from_sql(table(connector="kafka") + QUERY, "cars", sources={"cars": mine, "ships": object()})
    assert job.sources == {"cars": mine}


def test_a_given_stream_needs_a_given_source() -> None:
    stream = Stream("cars", {"ts": "timestamp", "speed": "float64"}, time="ts")
    with pytest.raises(GraphError, match="no source for stream cars"):
        job_from_sql(QUERY, "cars", streams={"cars": stream})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"connector": "kafka", "topic": "x"}, "must be 'files', with 'path' and 'format'", id="kafka"),
        pytest.param({"path": "x"}, "got 'none'", id="no connector"),
        pytest.param({"connector": "files"}, "needs the option 'path'", id="no path"),
        pytest.param({"connector": "files", "path": "x", "speed": "1"}, "no option 'speed'", id="an unknown option"),
        pytest.param({"connector": "files", "path": "x", "follow": "yes"}, "'true' or 'false'", id="no truth"),
        pytest.param({"connector": "files", "path": "x", "rows_per_epoch": "many"}, "a number", id="no number"),
        pytest.param({"connector": "files", "path": "x", "partition": "("}, "a regular expression", id="no pattern"),
        pytest.param({"connector": "files", "path": "x", "format": "json"}, "parquet, arrow, csv", id="another format"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        job_from_sql(table(**options) + QUERY, "cars")


def test_a_sink_is_what_the_options_of_result_tables_say(tmp_path: Path) -> None:
    head = table(connector="files", path="/data/cars")
    assert sink_of(parse_script(head + QUERY)) is None
    script = parse_script(head + result(str(tmp_path), format="parquet") + QUERY)
    assert sink_of(script) == ParquetSink(str(tmp_path))


def test_result_tables_share_a_directory_of_parquet_files() -> None:
    head = table(connector="files", path="/data/cars")
    both = result("/a") + result("/b", "slow") + QUERY + "INSERT INTO slow SELECT ts, speed FROM cars"
    with pytest.raises(ConfigError, match="the same 'path'; got /a and /b"):
        sink_of(parse_script(head + both))
    with pytest.raises(ConfigError, match="must be parquet; got 'csv'"):
        sink_of(parse_script(head + result("/a", format="csv") + QUERY))
