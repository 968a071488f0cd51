"""A dirty day of bike trips has the faults that it promises, and no others."""

import csv
import datetime as dt
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.workloads.bikes.dirty import BROKEN, DOCKS, MOST_LATE_S, ROWS, TRIPS, DirtyDay

untimed = settings(deadline=None, max_examples=10)  # the first example may compile
days = st.builds(DirtyDay, rows=st.integers(100, 2000), seed=st.integers(0, 2**63 - 1))


def whole(lines: list[str]) -> list[dict[str, str]]:
    """The rows of a file as they are written, without those that are broken."""
    rows = [dict(zip(TRIPS, fields, strict=True)) for fields in csv.reader(lines) if len(fields) == len(TRIPS)]
    return [row for row in rows if row["bike_id"] and row["birth_year"] != "n/a" and "min" not in row["minutes"]]


@untimed
@given(days)
def test_all_but_the_broken_rows_have_values_of_their_types(day: DirtyDay) -> None:
    rows = whole(day.trips())
    assert len(rows) == day.rows - len(BROKEN)
    for row in rows:
        assert dt.datetime.fromisoformat(row["ended_at"]).tzinfo is not None
        assert float(row["minutes"]) > 0
        assert float(row["birth_year"] or 1980).is_integer()
        assert all(row[name] for name in TRIPS if name not in ("end_station", "birth_year"))


def most_late_s(rows: list[dict[str, str]]) -> float:
    """How far the latest row is behind the newest one before it."""
    newest, most = -math.inf, 0.0
    for row in rows:
        at = dt.datetime.fromisoformat(row["ended_at"]).timestamp()
        newest, most = max(newest, at), max(most, newest - at)
    return most


@untimed
@given(days)
def test_no_row_is_more_than_93_minutes_out_of_order(day: DirtyDay) -> None:
    assert 0 < most_late_s(whole(day.trips())) <= MOST_LATE_S


def test_a_published_day_has_nulls_copies_and_names_of_many_alphabets() -> None:
    lines = DirtyDay().trips()
    rows = whole(lines)
    assert len(lines) == ROWS
    assert most_late_s(rows) > MOST_LATE_S - 60
    assert len(lines) - len(set(lines)) == 266
    assert {name: sum(not row[name] for row in rows) for name in TRIPS if any(not row[name] for row in rows)} == {
        "end_station": 1333,
        "birth_year": 7314,
    }
    stations = {row["start_station"] for row in rows}
    assert {"東京駅 I", "Plaza Mayor, norte II", 'The "Old" Mill III', "Łódź Fabryczna IV"} <= stations
    assert any(row["ended_at"].endswith("+02:00") for row in rows)
    assert any(row["birth_year"].endswith(".0") for row in rows)


def test_a_day_is_written_as_files_of_both_streams(tmp_path: Path) -> None:
    day = DirtyDay(rows=200, seed=3)
    day.write(tmp_path)
    files = {path.relative_to(tmp_path).as_posix(): path.read_text().splitlines() for path in tmp_path.glob("*/*")}
    assert sorted(files) == ["docks/1.csv", *(f"trips/{number}.csv" for number in range(1, 5))]
    assert [line for number in range(1, 5) for line in files[f"trips/{number}.csv"][1:]] == day.trips()
    assert files["docks/1.csv"] == [",".join(DOCKS), *day.docks()]


@pytest.mark.parametrize("wrong", [{"rows": 99}, {"seed": -1}])
def test_settings_beyond_their_limits_are_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"dirty bikes {next(iter(wrong))} must be a whole number from"):
        DirtyDay(**wrong)
