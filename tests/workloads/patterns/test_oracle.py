"""The pattern oracles against cases small enough to check by hand, and against a regular expression."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError, SourceError
from shoal.workloads.bikes.events import BikesEvents
from shoal.workloads.buses.events import BusesEvents
from shoal.workloads.patterns.oracle import bikes_expected, buses_expected

HOUR = 3600
DAY = 24 * HOUR
HOME, AWAY = 3116, 72


def trip(time_s: int, end: int = AWAY, bike: int = 1, start: int = 5, duration: int = 100) -> dict[str, Any]:
    """A bike trip that ends `time_s` seconds after the epoch."""
    return {
        "ts": time_s * 1_000_000, "bikeid": bike, "start_station_id": start, "end_station_id": end,
        "duration": duration, "user_type": "Subscriber",
    }  # fmt: skip


def position(time_s: int, block: int = 67_001, delay: int = 0, vehicle: int = 1, by: str = "PO") -> dict[str, Any]:
    """A bus report `time_s` seconds after the epoch."""
    return {
        "ts": time_s * 1_000_000, "line_id": 1, "direction": 0, "vehicle_id": vehicle, "operator": by,
        "block_id": block, "delay": delay, "latitude": 53.0, "longitude": -6.0, "congestion": 0,
    }  # fmt: skip


def in_seconds(result: pa.Table) -> list[tuple[Any, ...]]:
    """A result as rows; times in seconds from the epoch."""
    keys, first, last, *rest = (column.to_pylist() for column in _numbers(result).columns)
    times = ([time // 1_000_000 for time in column] for column in (first, last))
    return list(zip(keys, *times, *rest, strict=True))


def _numbers(result: pa.Table) -> pa.Table:
    for number in (1, 2):
        result = result.set_column(number, result.column_names[number], result.column(number).cast(pa.int64()))
    return result


def returns(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The result of the bike query."""
    return in_seconds(bikes_expected(pa.Table.from_pylist(rows, schema=BikesEvents.schema()))["returns"])


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([trip(1), trip(2)], [], id="no B"),
        pytest.param([trip(1, HOME)], [], id="a B alone has no A before it"),
        pytest.param([trip(1, start=9), trip(2, HOME)], [(1, 1, 2, 1, 9, 100)], id="one A and a B"),
        pytest.param(
            [trip(1, duration=10), trip(2, duration=20), trip(3, HOME, duration=40)],
            [(1, 1, 3, 2, 5, 30)],
            id="the B is not counted",
        ),
        pytest.param(
            [trip(1, HOME), trip(2, HOME), trip(3), trip(4, HOME)],
            [(1, 1, 2, 1, 5, 100), (1, 3, 4, 1, 5, 100)],
            id="a B may be an A, and no row is in two matches",
        ),
        pytest.param([trip(0), trip(DAY, HOME)], [(1, 0, DAY, 1, 5, 100)], id="a day is in time"),
        pytest.param([trip(0), trip(DAY + 1, HOME)], [], id="a second more is not"),
        pytest.param(
            [trip(0), trip(10), trip(DAY + 5, HOME)],
            [(1, 10, DAY + 5, 1, 5, 100)],
            id="a match begins with the first row that is in time",
        ),
        pytest.param(
            [trip(3, HOME), trip(1, start=7), trip(2)],
            [(1, 1, 3, 2, 7, 200)],
            id="rows are taken in the order of time",
        ),
        pytest.param(
            [trip(1, HOME, start=8), trip(1, AWAY, start=6)],
            [(1, 1, 1, 1, 6, 100)],
            id="rows of one time in the order of their columns",
        ),
        pytest.param(
            [trip(1, bike=2), trip(2, bike=1), trip(3, HOME, bike=2), trip(4, HOME, bike=1)],
            [(1, 2, 4, 1, 5, 100), (2, 1, 3, 1, 5, 100)],
            id="bikes have nothing to do with each other",
        ),
    ],
)
def test_returns_of_bikes(rows: list[dict[str, Any]], wanted: list[tuple[Any, ...]]) -> None:
    assert returns(rows) == wanted


def test_buses_are_matched_per_operator_and_per_vehicle() -> None:
    rows = [
        position(0, delay=5, vehicle=1),
        position(10, delay=-20, vehicle=2),
        position(20, 67_002, delay=90, vehicle=2),
        position(30, delay=40, vehicle=3, by="CD"),
        position(HOUR, 67_002, vehicle=1),
        position(HOUR + 31, 67_002, vehicle=3, by="CD"),
    ]
    result = buses_expected(pa.Table.from_pylist(rows, schema=BusesEvents.schema()))
    assert in_seconds(result["by_operator"]) == [("PO", 0, 20, 2, -7.5, 5)]
    assert in_seconds(result["by_vehicle"]) == [(1, 0, HOUR, 1, 5.0, 5), (2, 10, 20, 1, -20.0, -20)]


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=40))
def test_without_a_limit_in_sight_it_is_the_regular_expression(homes: list[bool]) -> None:
    text = "".join("b" if home else "a" for home in homes)
    found = [(match.start(), match.end() - 1) for match in re.finditer("[ab]+?b", text)]
    rows = [trip(time_s, HOME if home else AWAY) for time_s, home in enumerate(homes)]
    assert [row[1:3] for row in returns(rows)] == found


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3 * DAY), st.booleans(), st.integers(1, 2)), max_size=30))
def test_it_is_the_search_row_by_row(trips: list[tuple[int, bool, int]]) -> None:
    rows = [trip(time_s, HOME if home else AWAY, bike) for time_s, home, bike in trips]
    groups = defaultdict[int, list[dict[str, Any]]](list)
    for row in sorted(rows, key=lambda row: tuple(row.values())):
        groups[row["bikeid"]].append(row)
    wanted = [
        (bike, first["ts"] // 1_000_000, last["ts"] // 1_000_000, number, first["start_station_id"], 100 * number)
        for bike in sorted(groups)
        for first, last, number in search(groups[bike])
    ]
    assert returns(rows) == wanted


def search(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any], int]]:
    """First row, last row and number of rows before the last, of every match."""
    found, i = [], 0
    while i < len(rows):
        in_time = (
            j
            for j in range(i + 1, len(rows))
            if rows[j]["end_station_id"] == HOME and rows[j]["ts"] - rows[i]["ts"] <= DAY * 1_000_000
        )
        j = next(in_time, None)
        if j is not None:
            found.append((rows[i], rows[j], j - i))
        i = i + 1 if j is None else j + 1
    return found


def test_generated_streams_have_matches() -> None:
    bikes = bikes_expected(pa.table(BikesEvents().batch(0, 50_000)))["returns"]
    assert bikes.num_rows > 800
    assert len(set(bikes["trips"].to_pylist())) > 5
    buses = buses_expected(pa.table(BusesEvents().batch(0, 50_000)))
    assert buses["by_operator"].num_rows > 100
    assert len(set(buses["by_operator"]["operator"].to_pylist())) == 8
    assert buses["by_vehicle"].num_rows > 100


def test_no_events_give_empty_results_of_the_right_types() -> None:
    empty = buses_expected(BusesEvents.schema().empty_table())
    some = buses_expected(pa.table(BusesEvents(vehicles=5).batch(0, 2000)))
    assert empty == {name: result.schema.empty_table() for name, result in some.items()}


def test_the_oracles_read_files_and_refuse_what_is_none(tmp_path: Path) -> None:
    bikes, buses = pa.table(BikesEvents(bikes=10).batch(0, 1000)), pa.table(BusesEvents(vehicles=5).batch(0, 1000))
    pq.write_table(bikes, tmp_path / "bikes.parquet")
    pq.write_table(buses, tmp_path / "buses.parquet")
    assert bikes_expected(f"{tmp_path}/bikes*.parquet") == bikes_expected(bikes)
    assert buses_expected(tmp_path / "buses.parquet") == buses_expected(buses)
    with pytest.raises(SourceError, match="cannot read"):
        bikes_expected(tmp_path / "missing.parquet")
    with pytest.raises(SchemaError, match="lack delay; got"):
        buses_expected(buses.drop_columns("delay"))
