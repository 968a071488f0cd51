"""Numbers in columns of times: read in the unit that is declared, refused if none is and they would lie in 1970."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.language.yaml.graph_texts import SHORT

from shoal import Files, Job, Stream, start
from shoal.errors import ConfigError
from shoal.session.graphfile import job_from_graph
from shoal.session.script import job_from_sql

CARS = Stream("cars", {"ts": "timestamp", "n": "int64"}, time="ts")
SECONDS = 1_496_275_211
TIME = dt.datetime.fromisoformat("2017-06-01T00:00:11")


def read(job: Job) -> tuple[list[dt.datetime], dict[str, int]]:
    """The times that got in, and the numbers of dead letters."""
    run = start(job, on="reference")
    tally = run.wait()
    return run.sink.table("all")["ts"].to_pylist(), dict(tally.refusals)  # type: ignore[attr-defined]


def files(directory: Path, **options: Any) -> Job:
    return Job.of("cars", [CARS.sink("all")], {"cars": Files(str(directory), follow=False, **options)})


@pytest.mark.parametrize(
    ("number", "unit"), [(SECONDS, "s"), (SECONDS * 1_000, "ms"), (SECONDS * 1_000_000, "us"), (SECONDS * 10**9, "ns")]
)
def test_seconds_in_a_file_are_not_times_in_1970(number: int, unit: str, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(f"ts,n\n{number},1\n2017-06-01T00:00:11Z,2\n20170601T000011Z,3\n")
    assert read(files(tmp_path, format="csv", time_unit=unit)) == ([TIME] * 3, {})
    undeclared, refusals = read(files(tmp_path, format="csv"))
    assert undeclared == [TIME] * (3 if unit == "us" else 2)
    assert refusals == {"us": {}, "ns": {"range": 1}}.get(unit, {"unit": 1})


def test_a_column_of_seconds_in_parquet_is_refused_too_and_true_times_of_1970_are_not(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [SECONDS, 5], "n": [1, 2]}), tmp_path / "one.parquet")
    assert read(files(tmp_path)) == ([], {"unit": 2})
    assert read(files(tmp_path, time_unit="us"))[1] == {}
    (tmp_path / "one.parquet").unlink()
    pq.write_table(pa.table({"ts": pa.array([5, 0], pa.timestamp("s")), "n": [1, 2]}), tmp_path / "two.parquet")
    assert len(read(files(tmp_path))[0]) == 2


def test_a_table_in_sql_declares_its_unit(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(f"ts,n\n{SECONDS},1\n")
    text = f"""CREATE TABLE cars (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = 'files',
        'path' = '{tmp_path}', 'format' = 'csv', 'follow' = 'false', 'time_unit' = 's');
        INSERT INTO "all" SELECT ts, n FROM cars"""
    assert read(job_from_sql(text, "cars")) == ([TIME], {})


def test_a_unit_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"time_unit of .* must be one of s, ms, us, ns; got 'sec'"):
        files(tmp_path, time_unit="sec")


def test_a_dataset_of_a_graph_file_declares_its_unit(tmp_path: Path) -> None:
    (tmp_path / "cars").mkdir()
    (tmp_path / "cars/one.csv").write_text(f"ts,road,speed\n{SECONDS},1,90.0\n")
    path = tmp_path / "cars.yaml"
    path.write_text(SHORT + "datasets: [{file: cars, format: csv, time-unit: s}]")
    run = start(job_from_graph(path), on="reference")
    assert dict(run.wait().refusals) == {}
    assert run.sink.table("busy")["n"].to_pylist() == [1]  # type: ignore[attr-defined]
