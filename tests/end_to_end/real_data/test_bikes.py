"""Queries over a dirty day of bike trips have the results of DuckDB on every runtime, with nulls left in."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.end_to_end.real_data.against_duckdb import Case
from tests.end_to_end.real_data.bikes import IN_DUCKDB, PYTHON, REFUSED, SQL, STREAMS, VIEWS

from shoal.connectors.sources.files import Files
from shoal.workloads.bikes.dirty import ROWS, DirtyDay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BIKES = Case(STREAMS, PYTHON, SQL, VIEWS, IN_DUCKDB)
SLICE = 3000
Day = tuple[dict[str, Files], dict[str, pa.Table]]


def written(directory: Path, rows: int) -> Day:
    """Sources of a day, a file per epoch, and what DuckDB makes of it."""
    DirtyDay(rows=rows).write(directory)
    sources = {
        name: Files(str(directory / name), format="csv", follow=False, files_per_epoch=1) for name in ("trips", "docks")
    }
    return sources, BIKES.expected(str(directory))


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return written(tmp_path_factory.mktemp("day"), SLICE)


@pytest.fixture(scope="module")
def whole_day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    return written(tmp_path_factory.mktemp("whole_day"), ROWS)


@pytest.mark.parametrize("on", ["reference", "local"])
def test_a_dirty_day_has_the_results_of_duckdb(on: str, day: Day) -> None:
    sources, expected = day
    assert BIKES.compare(expected, sources, on, workers=2) == REFUSED


@pytest.mark.slow
@pytest.mark.parametrize("on", ["reference", "local"])
def test_a_whole_dirty_day_has_the_results_of_duckdb(on: str, whole_day: Day) -> None:
    sources, expected = whole_day
    assert BIKES.compare(expected, sources, on, workers=2) == REFUSED


@pytest.mark.slow
def test_a_whole_dirty_day_has_the_results_of_duckdb_on_spark(whole_day: Day, spark: "SparkSession") -> None:
    sources, expected = whole_day
    assert BIKES.compare(expected, sources, "spark", workers=2, spark=spark) == REFUSED
