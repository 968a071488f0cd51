"""Points of a file in the format of GeoLife: in the order of their times, with subscriptions to the places visited."""

import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.errors import ConfigError, ShoalError
from shoal.workloads.geo_pubsub.feed import FIRST, POINTS
from shoal.workloads.geo_pubsub.geolife import GeolifePlaces, GeolifePoints, geolife
from shoal.workloads.geo_pubsub.oracle import expected_in_duckdb

HEADER = "lat,lng,datetime,uid"
HOME, WORK, ONCE = "40.0012,116.3012", "39.9012,116.4012", "-22.1,-113.5"
ROWS = [
    f"{HOME},2008-10-23 05:53:05,001",
    f"{HOME},2008-10-23 23:00:00,001",
    f"{WORK},2008-10-23 12:00:00,001",
    f"{HOME},2008-10-24 06:00:00,005",
    f"{ONCE},2008-10-23 12:00:00,005",
    f"{WORK},2008-10-24 07:00:00,001",
]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "sample.txt.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *ROWS]).encode()))
    return str(path)


def test_points_come_in_the_order_of_their_times_with_the_hour_as_value(file: str) -> None:
    points = GeolifePoints(file)
    rows = points.batch(0, points.number).to_pylist()
    assert [row["ts"].isoformat()[8:16] for row in rows] == [
        "23T05:53", "23T12:00", "23T12:00", "23T23:00", "24T06:00", "24T07:00",
    ]  # fmt: skip
    assert [row["point"] for row in rows] == list(range(6))
    assert [row["value"] for row in rows] == [5, 12, 12, 23, 6, 7]
    assert (rows[1]["x"], rows[1]["y"], rows[2]["x"]) == (116.4012, 39.9012, -113.5)
    assert points.batch(2, 4) == points.batch(0, 6).slice(2, 2)


def test_event_time_and_index_go_together(file: str) -> None:
    points = GeolifePoints(file)
    assert points.seconds_at(1) == 6 * 3600 + 7 * 60 - 5
    assert [points.index_at(seconds) for seconds in (0, 1, 6 * 3600 + 7 * 60, 1e6)] == [0, 1, 3, 6]
    places = GeolifePlaces(file, 2)
    assert [places.index_at(seconds) for seconds in (0, 1)] == [0, 2]


def test_subscriptions_are_the_places_with_the_most_points(file: str) -> None:
    assert [GeolifePlaces(file, wanted).number for wanted in (1, 2, 9)] == [1, 2, 3]
    home, work = GeolifePlaces(file, 2).batch(0, 2).to_pylist()
    for place, (x, y) in ((home, (116.3025, 40.0025)), (work, (116.4025, 39.9025))):
        box = [place[name] for name in ("min_x", "min_y", "max_x", "max_y")]
        assert box == pytest.approx([x - 0.00375, y - 0.00375, x + 0.00375, y + 0.00375])
        assert (place["action"], place["ts"].isoformat()) == ("insert", "2008-10-23T05:53:05")
    assert (home["least"], work["least"]) == (0, 1)


def test_a_feed_has_the_points_that_are_wanted_and_its_oracle_their_visits(file: str) -> None:
    feed = geolife(file, number=5, places=2)
    assert feed.rows == {POINTS: 5, FIRST: 2}
    assert not feed.changing
    assert feed.space == pytest.approx((-113.505, -22.105, 116.4062, 40.0062))
    found = feed.expected()["matches"]
    assert Counter(found["subscription"].to_pylist()) == {0: 3, 1: 1}
    assert geolife(file, number=1000, places=2).rows[POINTS] == 6


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param("lat,lng\n1,2", id="columns are missing"),
        pytest.param(f"{HEADER}\n1,2,yesterday,1", id="no time"),
        pytest.param(HEADER, id="no points"),
        pytest.param(f"{HEADER}\n1,,2008-10-23 05:53:05,1", id="a null"),
    ],
)
def test_a_file_that_is_none_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(ShoalError, match=f"^geo-pubsub points must .*{path}"):
        geolife(str(path), 1, 1)
    with pytest.raises(ShoalError, match=r"^geo-pubsub points must be a CSV file .* cannot read"):
        geolife(str(tmp_path / "nowhere.csv"), 1, 1)


def test_a_number_of_places_below_one_is_rejected(file: str) -> None:
    with pytest.raises(ConfigError, match=r"^geo-pubsub places must be at least 1; got 0"):
        geolife(file, 1, 0)


def test_visits_are_the_same_in_duckdb(file: str) -> None:
    points, places = (
        pa.table(stream.batch(0, stream.number)) for stream in (GeolifePoints(file), GeolifePlaces(file, 3))
    )
    feed = geolife(file, 6, 3)
    assert feed.expected() == expected_in_duckdb(points, places)
    assert feed.expected()["matches"].num_rows == 6
