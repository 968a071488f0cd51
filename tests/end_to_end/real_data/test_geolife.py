"""Queries over recorded GPS points have the results of DuckDB on every runtime."""

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.end_to_end.real_data.against_duckdb import Case
from tests.end_to_end.real_data.geolife import IN_DUCKDB, PRELUDE, PYTHON, SQL, STREAMS, VIEWS

from shoal.connectors.sources.files import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parents[4] / "shared" / "data" / "geolife_sample.txt.gz"
GEOLIFE = Case(STREAMS, PYTHON, SQL, VIEWS, IN_DUCKDB, PRELUDE)
DAY = "2008-12-06"
"""Both people are in the same cells on that day, and far away."""
FILES = 4
Points = tuple[dict[str, Files], dict[str, pa.Table]]

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason=f"needs {RECORDED.name} in shared/data beside the clone")


def written(directory: Path, day: str = "") -> Points:
    """The recorded lines, or those of a day, in four files of one epoch each, and what DuckDB makes of them."""
    header, *lines = gzip.decompress(RECORDED.read_bytes()).decode().splitlines()
    lines = [line for line in lines if line.split(",")[2].startswith(day)]
    (directory / "points").mkdir()
    for number in range(FILES):
        part = lines[len(lines) * number // FILES : len(lines) * (number + 1) // FILES]
        (directory / "points" / f"{number}.csv").write_text("\n".join([header, *part, ""]))
    source = Files(str(directory / "points"), format="csv", follow=False, files_per_epoch=1)
    return {"points": source}, GEOLIFE.expected(str(directory))


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Points:
    return written(tmp_path_factory.mktemp("some"), DAY)


@pytest.fixture(scope="module")
def all_points(tmp_path_factory: pytest.TempPathFactory) -> Points:
    return written(tmp_path_factory.mktemp("all"))


@pytest.mark.parametrize("on", ["reference", "local"])
def test_recorded_points_have_the_results_of_duckdb(on: str, points: Points) -> None:
    sources, expected = points
    assert GEOLIFE.compare(expected, sources, on, workers=2) == {}


@pytest.mark.slow
@pytest.mark.parametrize("on", ["reference", "local"])
def test_all_recorded_points_have_the_results_of_duckdb(on: str, all_points: Points) -> None:
    sources, expected = all_points
    assert GEOLIFE.compare(expected, sources, on, workers=2) == {}


@pytest.mark.slow
def test_all_recorded_points_have_the_results_of_duckdb_on_spark(all_points: Points, spark: "SparkSession") -> None:
    sources, expected = all_points
    assert GEOLIFE.compare(expected, sources, "spark", workers=2, spark=spark) == {}
