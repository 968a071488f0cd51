"""Sinks of a run: what is refused, whose results a directory holds, and tables without rows."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from shoal import Files, Job, MemorySink, ParquetSink, Stream, col, count, start, tumbling
from shoal.connectors.result_directory import Opening
from shoal.errors import ConfigError, SourceError

CARS = Stream("cars", {"ts": "timestamp", "speed": "float64"}, time="ts")
COLUMNS = {"n": pa.schema([("query", pa.string()), ("n", pa.int64())])}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "cars").mkdir()
    (tmp_path / "cars/one.csv").write_text("ts,speed\n2026-01-01,10.0\n2026-01-02,20.0\n")
    queries = [
        CARS.window(tumbling("1 day")).aggregate(n=count()).sink("n"),
        CARS.filter(col("speed") > 1e6).sink("impossible"),
    ]
    return Job.of("cars", queries, {"cars": Files(str(tmp_path / "cars"), format="csv", follow=False)})


def ran(job: Job, sink: Any, on: str = "reference") -> Any:
    run = start(job, on=on, sink=sink)
    run.wait()
    return run.sink


@pytest.mark.parametrize("on", ["reference", "local"])
def test_a_query_without_results_has_an_empty_table_with_its_columns(job: Job, on: str, tmp_path: Path) -> None:
    memory, stored = ran(job, None, on), ran(job, ParquetSink(str(tmp_path / "results")), on)
    for sink in (memory, stored):
        assert sink.table("impossible").num_rows == 0
        assert sink.table("impossible").schema.names == ["query", "ts", "speed"]
        assert sink.table("n").num_rows == 2
    directory = tmp_path / "results/impossible"
    assert ds.dataset(directory).to_table().schema == memory.table("impossible").schema
    with duckdb.connect() as database:
        assert database.sql(f"SELECT count(speed) FROM read_parquet('{directory}/*.parquet')").fetchall() == [(0,)]


def test_results_of_another_run_are_refused_replaced_or_kept(job: Job, tmp_path: Path) -> None:
    path = str(tmp_path / "results")
    ran(job, ParquetSink(path))
    with pytest.raises(ConfigError, match=r"results holds results of another run \(impossible, n\); use another"):
        ran(job, ParquetSink(path))
    assert ran(job, ParquetSink(path, existing="append")).table("n").num_rows == 4
    assert ran(job, ParquetSink(path, existing="append")).table("n").num_rows == 6
    (tmp_path / "results/n/notes.txt").write_text("of someone else")
    assert ran(job, ParquetSink(path, existing="overwrite")).table("n").num_rows == 2
    assert (tmp_path / "results/n/notes.txt").exists()


def test_a_run_that_goes_on_from_its_checkpoint_writes_to_its_own_results(tmp_path: Path) -> None:
    def written(checkpoint: str, epoch: int, *, resumed: bool, existing: Any = "refuse") -> ParquetSink:
        opening = Opening(COLUMNS, checkpoint, resumed=resumed)
        sink = ParquetSink(str(tmp_path), existing=existing).opened(opening)
        sink.begin(opening)
        sink.write("n", epoch, pa.table({"query": ["n"], "n": [epoch]}, COLUMNS["n"]))
        return sink

    written("/a", 0, resumed=False)
    written("/a", 0, resumed=False)  # died before its first epoch was committed
    assert written("/a", 1, resumed=True, existing="overwrite").table("n")["n"].to_pylist() == [0, 1]
    with pytest.raises(ConfigError, match="holds results of another run"):
        written("/b", 0, resumed=True)
    written("/b", 0, resumed=False, existing="append")
    assert sorted(written("/b", 1, resumed=True).table("n")["n"].to_pylist()) == [0, 0, 1, 1]


def test_results_written_before_there_were_records_are_gone_on_with(tmp_path: Path) -> None:
    ParquetSink(str(tmp_path)).write("n", 0, pa.table({"n": [1]}))
    assert ParquetSink(str(tmp_path)).opened(Opening(COLUMNS, "/a", resumed=True)).run == 0
    with pytest.raises(ConfigError, match="holds results of another run"):
        ParquetSink(str(tmp_path)).opened(Opening(COLUMNS))


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        pytest.param("/data/results", r"got '/data/results'; write sink=ParquetSink\('/data/results'\)", id="a path"),
        pytest.param(3, r"or have their method write; got 3$", id="a number"),
        pytest.param(ParquetSink(f"{__file__}/x"), "must be a directory, and .*test_results.py is a file", id="a file"),
    ],
)
def test_what_is_no_sink_is_refused(sink: Any, message: str, job: Job) -> None:
    with pytest.raises(ConfigError, match=message):
        start(job, on="reference", sink=sink)


def test_a_sink_that_only_writes_is_a_sink(job: Job) -> None:
    class Written:
        def __init__(self) -> None:
            self.rows = 0

        def write(self, table: str, epoch: int, rows: pa.Table) -> None:
            self.rows += rows.num_rows

    assert ran(job, Written()).rows == 2


def test_a_source_directory_that_does_not_exist_is_found_before_the_run_starts(tmp_path: Path) -> None:
    job = Job.of("cars", [CARS.sink("all")], {"cars": Files(str(tmp_path / "none"))})
    with pytest.raises(SourceError, match=r"source directory .*none does not exist"):
        start(job, on="reference", sink=MemorySink())
