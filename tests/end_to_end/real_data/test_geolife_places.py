"""Recorded GPS points through fences and near each other: every runtime says what DuckDB says."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.end_to_end.real_data.test_geolife import DAY, RECORDED
from tests.small_city import result_tables

from shoal.connectors.sources.files import Files
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import circle
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AREAS = 20
METRES, NEAR, SECONDS = 400.0, 1000.0, 3600
POINTS = Stream("points", {"ts": "timestamp", "uid": "int64", "lon": "float64", "lat": "float64"}, time="ts")
FENCES = Stream("areas", {"ts": "timestamp", "area": "int64", "lon": "float64", "lat": "float64"}, time="ts")
BEIJING = Grid((115.8, 39.5, 117.0, 40.5), 120, 100, "degrees")
PLACE = ("lon", "lat")
EVENTS = POINTS.geofence(
    FENCES.with_columns(metres=METRES),
    circle("lon", "lat", "metres"),
    object="uid",
    id="area",
    grid=BEIJING,
    at=PLACE,
    dwell_s="10 min",
    partitions=4,
)
PAIRS = POINTS.near(
    POINTS,
    within=NEAR,
    within_s=(-SECONDS, SECONDS),
    grid=BEIJING,
    at=PLACE,
    where=col("uid") < col("uid_right"),
    groups=4,
)
APART = """(2 * 6371008.8 * asin(least(1, sqrt(power(sin(radians(b.lat - a.lat) / 2), 2)
    + cos(radians(a.lat)) * cos(radians(b.lat)) * power(sin(radians(b.lon - a.lon) / 2), 2)))))"""
IN_DUCKDB = {
    "events": f"""
        WITH moments AS (SELECT uid, ts, area, bool_or({APART} <= {METRES}) AS inside
            FROM points AS a, (SELECT area, lon, lat FROM areas) AS b GROUP BY uid, ts, area),
        steps AS (SELECT *, coalesce(lag(inside) OVER (PARTITION BY uid, area ORDER BY ts), false) AS was FROM moments),
        stays AS (SELECT *, sum((inside AND NOT was)::INT)
            OVER (PARTITION BY uid, area ORDER BY ts) AS stay FROM steps),
        timed AS (SELECT *, min(ts) FILTER (inside) OVER (PARTITION BY uid, area, stay) AS entered FROM stays)
        SELECT uid, area, 'enter' AS event, ts AS happened, ts AS entered FROM timed WHERE inside AND NOT was
        UNION ALL SELECT uid, area, 'leave', ts, entered FROM timed WHERE was AND NOT inside
        UNION ALL SELECT uid, area, 'dwell', min(ts), entered FROM timed
            WHERE inside AND ts - entered >= INTERVAL 10 MINUTE GROUP BY uid, area, entered""",
    "pairs": f"""SELECT a.uid, b.uid AS uid_right, a.ts, b.ts AS ts_right FROM points AS a, points AS b
        WHERE a.uid < b.uid AND b.ts BETWEEN a.ts - INTERVAL {SECONDS} SECOND AND a.ts + INTERVAL {SECONDS} SECOND
        AND {APART} <= {NEAR}""",
}
pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason=f"needs {RECORDED.name} in shared/data beside the clone")


def recorded(day: str) -> dict[str, pa.Table]:
    """All points, or those of a day, in the order of time, and fences around some of them."""
    types = {"lat": pa.float64(), "lng": pa.float64(), "datetime": pa.timestamp("us"), "uid": pa.int64()}
    read = csv.read_csv(RECORDED, convert_options=csv.ConvertOptions(column_types=types))
    read = read.filter(pc.starts_with(read["datetime"].cast(pa.string()), day)).sort_by("datetime")
    points = pa.table({"ts": read["datetime"], "uid": read["uid"], "lon": read["lng"], "lat": read["lat"]})
    chosen = points.take([points.num_rows * number // AREAS for number in range(AREAS)])
    first = pa.array([points["ts"][0]] * AREAS, pa.timestamp("us"))
    areas = pa.table({"ts": first, "area": pa.array(range(AREAS)), "lon": chosen["lon"], "lat": chosen["lat"]})
    return {"points": points, "areas": areas}


def compared(names: Sequence[str], day: str, directory: Path, on: str, **options: Any) -> list[str]:
    """How results differ from those of DuckDB, which has some of each kind."""
    tables = recorded(day)
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        expected = {name: connection.sql(text).to_arrow_table() for name, text in IN_DUCKDB.items() if name in names}
    assert set(expected["events"]["event"].to_pylist()) == {"enter", "leave", "dwell"}
    assert all(table.num_rows for table in expected.values())
    sources = {}
    for name, table in tables.items():
        (directory / name).mkdir(parents=True)
        pq.write_table(table, directory / name / "1.parquet")
        sources[name] = Files(str(directory / name), follow=False)
    queries = [EVENTS.sink("events"), PAIRS.select("uid", "uid_right", "ts", "ts_right").sink("pairs")]
    queries = [query for query in queries if query.name in names]
    run = start(Job.of("places", queries, sources), on=on, workers=2, **options)
    run.wait()
    named = {name: table.add_column(0, "query", [[name] * table.num_rows]) for name, table in expected.items()}
    return differences(result_tables(run), named)


@pytest.mark.parametrize("on", ["local", pytest.param("reference", marks=pytest.mark.slow)])
def test_a_day_of_points_has_the_events_and_pairs_of_duckdb(on: str, tmp_path: Path) -> None:
    assert compared(["events", "pairs"], DAY, tmp_path, on) == []


@pytest.mark.slow
def test_all_points_have_the_events_of_duckdb(tmp_path: Path) -> None:
    assert compared(["events"], "", tmp_path, "local") == []


@pytest.mark.slow
def test_a_day_of_points_has_the_events_and_pairs_of_duckdb_on_spark(tmp_path: Path, spark: "SparkSession") -> None:
    assert compared(["events", "pairs"], DAY, tmp_path, "spark", spark=spark) == []
