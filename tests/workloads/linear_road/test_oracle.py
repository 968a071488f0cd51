"""The Linear Road oracle against plain Python, and against roads small enough to check by hand."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError, SourceError
from shoal.workloads.linear_road.events import SCHEMA, LinearRoadEvents
from shoal.workloads.linear_road.oracle import SCHEMAS, expected

SECOND = 1_000_000
Row = dict[str, int]


def report(time_s: float, vid: int = 1, speed: int = 0, **position: int) -> Row:
    """A position report, in the third segment of the first lane by default."""
    row = {"xway": 0, "lane": 1, "dir": 0, "pos": 2 * 5280 + 7, **position}
    return {
        "ts": round(time_s * SECOND), "type": 0, "vid": vid, "speed": speed, "seg": row["pos"] // 5280, **row
    }  # fmt: skip


def table(rows: Iterable[Row]) -> pa.Table:
    """Events as a table, in the generator's types."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def results(rows: Iterable[Row]) -> dict[str, list[tuple[Any, ...]]]:
    """The oracle's results as rows; times in seconds."""
    return {name: _tuples(result) for name, result in expected(table(rows)).items()}


def _tuples(result: pa.Table) -> list[tuple[Any, ...]]:
    ends = pa.array([end // SECOND for end in result["window_end"].cast(pa.int64()).to_pylist()])
    return [tuple(row.values()) for row in result.set_column(3, "window_end", ends).to_pylist()]


def in_plain_python(rows: Iterable[Row]) -> dict[str, list[tuple[Any, ...]]]:
    """The definition of the query, window by window."""
    reports = [row for row in rows if row["type"] == 0]
    accidents = _accidents(reports)
    affected = Counter[tuple[int, ...]](
        (xway, way, seg - back if way == 0 else seg + back, -(-end // 60) * 60)
        for xway, way, seg, end, _ in accidents
        for back in range(5)
    )
    vehicles = defaultdict[tuple[int, ...], dict[int, list[int]]](lambda: defaultdict(list))
    for row in reports:
        end = (row["ts"] // SECOND // 60 + 1) * 60
        vehicles[row["xway"], row["dir"], row["seg"], end][row["vid"]].append(row["speed"])
    speed = {key: fmean(fmean(speeds) for speeds in of.values()) for key, of in vehicles.items()}
    tolls = []
    for key in sorted(vehicles):
        *segment, end = key
        recent = [(*segment, end - back) for back in range(0, 300, 60)]
        lav, cars = fmean(speed[minute] for minute in recent if minute in speed), len(vehicles[key])
        toll = 2 * (cars - 50) ** 2 if lav < 40 and cars > 50 and not affected[key] else 0
        tolls.append((*key, lav, cars, toll, affected[key]))
    return {"tolls": tolls, "accidents": accidents}


def _accidents(reports: list[Row]) -> list[tuple[int, ...]]:
    reported = Counter(
        (row["xway"], row["lane"], row["dir"], row["pos"], end, row["vid"])
        for row in reports
        for end in range((row["ts"] // SECOND // 30 + 1) * 30, row["ts"] // SECOND + 121, 30)
        if row["lane"] in (1, 2, 3)
    )
    stopped = Counter(key[:-1] for key, number in reported.items() if number >= 4)
    return sorted(
        (xway, way, pos // 5280, end, number) for (xway, _, way, pos, end), number in stopped.items() if number >= 2
    )


def assert_same(got: dict[str, list[tuple[Any, ...]]], wanted: dict[str, list[tuple[Any, ...]]]) -> None:
    """Compare results exactly, but for average speeds, which may differ by rounding."""
    assert got["accidents"] == wanted["accidents"]
    without_lav = [[row[:4] + row[5:] for row in result["tolls"]] for result in (got, wanted)]
    assert without_lav[0] == without_lav[1]
    assert [row[4] for row in got["tolls"]] == pytest.approx([row[4] for row in wanted["tolls"]], rel=1e-12)


# Around the Unix epoch, so that times before it are drawn too; few vehicles and positions, so that accidents happen.
random_rows = st.lists(
    st.builds(
        report,
        st.integers(-20, 20).map(lambda half: half * 15) | st.floats(-300, 300),
        vid=st.integers(1, 3),
        speed=st.integers(0, 100),
        xway=st.integers(0, 1),
        lane=st.sampled_from([1, 1, 1, 0, 4]),
        dir=st.integers(0, 1),
        pos=st.sampled_from([5279, 5280]),
    ),
    max_size=80,
)


@settings(deadline=None, max_examples=40)
@given(random_rows)
def test_sql_and_plain_python_agree(rows: list[Row]) -> None:
    assert_same(results(rows), in_plain_python(rows))


def test_sql_and_plain_python_agree_on_generated_roads_with_tolls_and_accidents() -> None:
    events = LinearRoadEvents(1, 2000, seed=3).batch(0, 40_000)
    rows = pa.table(events).set_column(0, "ts", events["ts"].cast(pa.int64())).to_pylist()
    got = {name: _tuples(result) for name, result in expected(pa.table(events)).items()}
    assert_same(got, in_plain_python(rows))
    assert got["accidents"]
    assert any(toll for *_, toll, _ in got["tolls"])


def test_the_default_roads_have_tolls_accidents_and_tolls_waived_for_them() -> None:
    result = expected(pa.table(LinearRoadEvents().batch(0, 200_000)))
    tolls = result["tolls"].to_pylist()
    dear = [row for row in tolls if row["lav"] < 40 and row["cars"] > 50]
    assert sum(row["toll"] > 0 for row in tolls) > 100
    assert sum(row["accidents"] > 0 for row in dear) > 10
    assert {row["vehicles"] for row in result["accidents"].to_pylist()} == {2, 3}
    assert {row["dir"] for row in result["accidents"].to_pylist()} == {0, 1}


def test_two_vehicles_that_stand_for_four_reports_are_an_accident() -> None:
    rows = [report(time_s, vid) for vid in (1, 2) for time_s in range(vid, 150 + vid, 30)]
    assert results(rows)["accidents"] == [(0, 0, 2, 120, 2), (0, 0, 2, 150, 2)]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param([report(time_s, 2) for time_s in (0, 30, 60)], id="three reports are too few"),
        pytest.param([report(time_s, 2) for time_s in (0, 30, 60, 120)], id="a window does not hold its end"),
        pytest.param([report(time_s, 2, pos=2 * 5280 + 8) for time_s in (0, 30, 60, 90)], id="one foot on"),
        pytest.param([report(time_s, 2, lane=2) for time_s in (0, 30, 60, 90)], id="another lane"),
        pytest.param([report(time_s, 2, dir=1) for time_s in (0, 30, 60, 90)], id="the other direction"),
        pytest.param([report(time_s, 2, xway=1) for time_s in (0, 30, 60, 90)], id="another expressway"),
        pytest.param([{**report(time_s, 2), "type": 2} for time_s in (0, 30, 60, 90)], id="no position reports"),
    ],
)
def test_a_vehicle_that_stands_alone_is_no_accident(second: list[Row]) -> None:
    first = [report(time_s, 1) for time_s in (0, 30, 60, 90)]
    assert results([*first, *second])["accidents"] == []


def test_vehicles_that_stand_in_the_exit_lane_are_no_accident() -> None:
    assert results([report(time_s, vid, lane=4) for vid in (1, 2) for time_s in (0, 30, 60, 90)])["accidents"] == []


def test_a_minute_averages_vehicles_and_not_reports_and_five_minutes_average_minutes() -> None:
    rows = [report(0, 1, 10), report(30, 1, 20), report(1, 2, 45), report(130, 3, 60), report(425, 3, 70)]
    assert results(rows)["tolls"] == [
        (0, 0, 2, 60, 30.0, 2, 0, 0),
        (0, 0, 2, 180, 45.0, 1, 0, 0),
        (0, 0, 2, 480, 70.0, 1, 0, 0),
    ]


@pytest.mark.parametrize(
    ("cars", "speed", "toll"),
    [
        pytest.param(53, 39, 18, id="crowded and slow"),
        pytest.param(50, 39, 0, id="fifty cars are no crowd"),
        pytest.param(53, 40, 0, id="forty is not slow"),
    ],
)
def test_tolls_are_due_where_it_is_crowded_and_slow(cars: int, speed: int, toll: int) -> None:
    assert [row[6] for row in results(report(1, vid, speed) for vid in range(cars))["tolls"]] == [toll]


@pytest.mark.parametrize(("way", "free"), [(0, {11, 10, 9, 8, 7}), (1, {11, 12, 13, 14, 15})])
def test_an_accident_waives_the_toll_of_its_segment_and_the_four_before_it(way: int, free: set[int]) -> None:
    crash = [
        report(time_s, vid, 0, dir=way, pos=11 * 5280, lane=3) for vid in (901, 902) for time_s in (30, 60, 90, 120)
    ]
    # Its windows end at 150 s only, so it is known in the minute that ends at 180 s.
    crowd = [
        report(time_s, 60 * seg + car, 5, dir=way, pos=seg * 5280)
        for seg in range(5, 18)
        for car in range(52)
        for time_s in (100, 179)
    ]
    tolls = {(row[2], row[3]): row[6:] for row in results([*crash, *crowd])["tolls"] if row[5] > 50}
    assert {seg for (seg, end), (toll, _) in tolls.items() if end == 180 and toll == 0} == free
    assert all(toll > 0 for (_, end), (toll, _) in tolls.items() if end == 120)
    assert {accidents for (_, end), (toll, accidents) in tolls.items() if toll == 0} == {1}


def test_no_events_give_empty_results_of_the_right_types() -> None:
    assert expected(table([])) == {name: schema.empty_table() for name, schema in SCHEMAS.items()}


def test_the_oracle_reads_files_and_refuses_what_is_none(tmp_path: Path) -> None:
    rows = pa.table(LinearRoadEvents(1, 100).batch(0, 1000))
    pq.write_table(rows, tmp_path / "a.parquet")
    assert expected(f"{tmp_path}/*.parquet") == expected(rows)
    with pytest.raises(SourceError, match="cannot read"):
        expected(tmp_path / "missing.parquet")
    with pytest.raises(SchemaError, match="lack speed; got"):
        expected(rows.drop_columns("speed"))
