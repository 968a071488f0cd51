"""The skew oracle against cases small enough to check by hand, and against the definitions row by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SchemaError, SourceError
from shoal.workloads.skew import oracle as skew_oracle
from shoal.workloads.skew.events import SkewEvents
from shoal.workloads.skew.median import BOUND, RESAMPLES, MedianBound
from shoal.workloads.skew.oracle import SCHEMAS, expected, median_bound

SECOND = 1_000_000
Row = dict[str, int]


def report(time_s: float, cell: int = 0, vehicle: int = 1, **others: int) -> Row:
    """A report `time_s` seconds after the epoch, of a vehicle that neither is fast nor brakes nor stands."""
    plain = {"x": 0, "y": 0, "speed": 2000, "braking": 0}
    return {"ts": round(time_s * SECOND), "cell": cell, "vehicle": vehicle, **plain, **others}


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SkewEvents.schema())


def result(name: str, rows: list[Row], reach_dm: int = 100, within_s: float = 2.0) -> list[tuple[int, ...]]:
    """A result table as rows, times in microseconds."""
    found = expected([name], table(rows), reach_dm, within_s)[name]
    assert found.schema == SCHEMAS[name]
    columns = [column.cast(pa.int64()).to_pylist() for column in found.columns]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(
            [report(0.0), report(0.5, vehicle=2, x=3, y=4)], [(0, SECOND, 1, 25)], id="one comes near another"
        ),
        pytest.param([report(0.0), report(0.5, x=3)], [], id="a vehicle does not meet itself"),
        pytest.param([report(0.0), report(0.5, 1, vehicle=2)], [], id="cells are apart"),
        pytest.param([report(0.0), report(0.5, vehicle=2, x=100)], [(0, SECOND, 1, 10_000)], id="just near enough"),
        pytest.param([report(0.0), report(0.5, vehicle=2, x=100, y=1)], [], id="just too far"),
        pytest.param([report(0.0), report(2.0, vehicle=2)], [(0, 3 * SECOND, 1, 0)], id="just in time"),
        pytest.param([report(0.0), report(2.000001, vehicle=2)], [], id="just too late"),
        pytest.param([report(0.5), report(0.5, vehicle=2)], [(0, SECOND, 2, 0)], id="at once counts both ways"),
        pytest.param(
            [report(0.1), report(0.2, vehicle=2), report(1.0, vehicle=3, y=2)],
            [(0, SECOND, 1, 0), (0, 2 * SECOND, 2, 4)],
            id="a pair belongs to the window of the later report",
        ),
    ],
)
def test_encounters_by_hand(rows: list[Row], found: list[tuple[int, ...]]) -> None:
    assert result("encounters", rows) == found


FAST, BRAKING, STANDING = {"speed": 3301}, {"braking": 900}, {"speed": 0}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(
            [report(0, vehicle=7, **FAST), report(1, **BRAKING), report(2, vehicle=9, **STANDING)],
            [(0, 0, 2 * SECOND, 7, 9)],
            id="fast, braking, standing",
        ),
        pytest.param([report(0, speed=3300), report(1, **BRAKING), report(2, **STANDING)], [], id="not fast enough"),
        pytest.param([report(0, **FAST), report(1, braking=899), report(2, **STANDING)], [], id="not braking enough"),
        pytest.param([report(0, **FAST), report(1, **STANDING), report(2, **BRAKING)], [], id="in the wrong order"),
        pytest.param([report(0, **FAST), report(1, **BRAKING), report(2.1, **STANDING)], [], id="too late"),
        pytest.param([report(0, **FAST), report(1, 1, **BRAKING), report(2, **STANDING)], [], id="cells are apart"),
        pytest.param(
            [report(0, **FAST), report(0.5, vehicle=2, **FAST), report(1, **BRAKING), report(2, vehicle=3, **STANDING)],
            [(0, 0, 2 * SECOND, 1, 3), (0, SECOND // 2, 2 * SECOND, 2, 3)],
            id="matches may overlap",
        ),
        pytest.param(
            [report(0, **FAST), report(0.1, braking=950, speed=0), report(1, vehicle=4, **STANDING)],
            [(0, 0, SECOND, 1, 4)],
            id="one report is not two",
        ),
        pytest.param(
            [report(0, vehicle=2, **BRAKING), report(0, vehicle=1, **FAST), report(0, vehicle=3, **STANDING)],
            [(0, 0, 0, 1, 3)],
            id="at one time vehicles come in order",
        ),
    ],
)
def test_hazards_by_hand(rows: list[Row], found: list[tuple[int, ...]]) -> None:
    assert result("hazards", rows) == found


def test_medians_by_hand() -> None:
    rows = [report(0.0, speed=7), report(0.5, 1, speed=3), report(1.0, speed=5), report(1.5, speed=5)]
    assert result("medians", rows) == [(0, SECOND, 7), (0, 2 * SECOND, 5), (1, SECOND, 3)]


reports = st.lists(
    st.builds(
        lambda time_ms, cell, vehicle, x, y, speed, braking: report(
            time_ms / 1000, cell, vehicle, x=x, y=y, speed=speed, braking=braking
        ),
        st.integers(-3000, 6000),
        st.integers(0, 2),
        st.integers(0, 3),
        st.integers(0, 40),
        st.integers(0, 20),
        st.sampled_from([0, 1000, 3300, 3301, 4000]),
        st.sampled_from([0, 899, 900, 950]),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(reports, st.integers(0, 30), st.sampled_from([0.0, 0.25, 1.5]))
def test_encounters_are_those_of_every_pair(rows: list[Row], reach: int, within_s: float) -> None:
    found: dict[tuple[int, int], list[int]] = {}
    for one in rows:
        for other in rows:
            apart = (one["x"] - other["x"]) ** 2 + (one["y"] - other["y"]) ** 2
            near = apart <= reach**2 and 0 <= other["ts"] - one["ts"] <= within_s * SECOND
            if near and one["cell"] == other["cell"] and one["vehicle"] != other["vehicle"]:
                found.setdefault((one["cell"], (other["ts"] // SECOND + 1) * SECOND), []).append(apart)
    wanted = [(*key, len(apart), min(apart)) for key, apart in sorted(found.items())]
    assert result("encounters", rows, reach, within_s) == wanted


@settings(deadline=None)
@given(reports, st.sampled_from([0.0, 0.25, 1.5]))
def test_hazards_are_those_of_a_search_row_by_row(rows: list[Row], within_s: float) -> None:
    wanted = []
    for cell in range(3):
        ordered = sorted((row for row in rows if row["cell"] == cell), key=lambda row: tuple(row.values()))
        for i, first in enumerate(ordered):
            if first["speed"] <= 3300:
                continue
            wanted_next, last = "braking", None
            for row in ordered[i + 1 :]:
                if wanted_next == "braking" and row["braking"] >= 900:
                    wanted_next = "standing"
                elif wanted_next == "standing" and row["speed"] == 0:
                    last = row
                    break
            if last is not None and last["ts"] - first["ts"] <= within_s * SECOND:
                wanted.append((cell, first["ts"], last["ts"], first["vehicle"], last["vehicle"]))
    assert result("hazards", rows, within_s=within_s) == wanted


def naive_bound(values: list[int]) -> int:
    """The definition, value by value."""
    medians = []
    for draw in range(RESAMPLES):
        drawn = sorted(
            sorted(values)[scattered(draw << 32 | i) % 2**32 * len(values) >> 32] for i in range(len(values))
        )
        medians.append(drawn[(len(values) - 1) // 2])
    return sorted(medians)[BOUND]


def scattered(bits: int) -> int:
    """Splitmix64 in Python's own numbers."""
    bits = (bits + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 4095), min_size=1, max_size=12))
def test_bounds_of_medians_are_those_of_the_definition(values: list[int]) -> None:
    wanted = naive_bound(values)
    assert median_bound(np.array(values)) == wanted
    assert MedianBound().result(values) == wanted


def test_oracle_and_function_agree_on_how_often_is_drawn() -> None:
    assert (skew_oracle.RESAMPLES, skew_oracle.BOUND) == (RESAMPLES, BOUND)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 4095), min_size=1, max_size=300), st.randoms())
def test_a_bound_does_not_depend_on_how_values_are_merged(values: list[int], draw: Any) -> None:
    shuffled = list(values)
    draw.shuffle(shuffled)
    aggregate = MedianBound()
    cut = draw.randint(0, len(values))
    parts = [aggregate.add(aggregate.zero(), part) for part in (shuffled[:cut], shuffled[cut:])]
    assert aggregate.result(aggregate.merge(*parts)) == aggregate.result(values) == median_bound(np.array(values))


def test_a_bound_lies_above_the_median_by_two_standard_errors() -> None:
    speeds = SkewEvents(cells=1, hot=1, stride=1).batch(0, 10_000)["speed"].to_numpy()
    density = 1 / 2048  # of a triangle at its middle
    assert median_bound(speeds) - np.median(speeds) == pytest.approx(1.96 / (2 * density * 100), rel=0.3)


def test_no_events_give_empty_results_of_the_right_types() -> None:
    empty = expected(SCHEMAS, SkewEvents.schema().empty_table(), 10, 1.0)
    assert empty == {name: schema.empty_table() for name, schema in SCHEMAS.items()}


def test_the_oracle_reads_files_and_refuses_what_is_none(tmp_path: Path) -> None:
    events = pa.table(SkewEvents(cells=4, hot=1, per_s=100).batch(0, 1000))
    pq.write_table(events.slice(0, 400), tmp_path / "1.parquet")
    pq.write_table(events.slice(400), tmp_path / "2.parquet")
    assert expected(SCHEMAS, f"{tmp_path}/*.parquet", 500, 1.0) == expected(SCHEMAS, events, 500, 1.0)
    with pytest.raises(SourceError, match="cannot read"):
        expected(SCHEMAS, tmp_path / "missing.parquet", 500, 1.0)
    with pytest.raises(SchemaError, match="skew events lack braking; got ts"):
        expected(SCHEMAS, events.drop_columns("braking"), 500, 1.0)
