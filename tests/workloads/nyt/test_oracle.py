"""The taxi oracle: DuckDB and plain Python, one result."""

from collections import defaultdict
from math import fsum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import SourceError
from shoal.workloads.nyt.events import NytEvents
from shoal.workloads.nyt.oracle import DLAT, DLON, NORTH, WEST, cell_of, expected

SECOND = 1_000_000
BUSY, QUIET, OUTSIDE = (40.7580, -73.9855), (40.6450, -73.7850), (0.0, 0.0)


def trip(ts: int, pickup: tuple[float, float] = BUSY, dropoff: tuple[float, float] = BUSY, **other: Any) -> Any:
    """A trip as a row; one that counts by default."""
    positions = dict(zip(NytEvents.schema().names[3:7], (*pickup, *dropoff), strict=True))
    return {"ts": ts, "vendor": "VTS", "distance": 2.0, **positions, "fare": 1.0, "passengers": 1, **other}


def table(*rows: Any) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=NytEvents.schema())


def plain(rows: pa.Table) -> dict[tuple[int, int], list[float]]:
    """Distances of the trips that count, by cell and end of their window."""
    found = defaultdict(list)
    times = rows["ts"].cast(pa.int64()).to_pylist()
    for time, row in zip(times, rows.to_pylist(), strict=True):
        pickup = cell_of(row["pickup_latitude"], row["pickup_longitude"])
        dropoff = cell_of(row["dropoff_latitude"], row["dropoff_longitude"])
        if pickup is not None and dropoff is not None and row["vendor"] == "VTS" and row["distance"] > 1:
            found[pickup, (time // (2 * SECOND) + 1) * 2 * SECOND].append(row["distance"])
    return found


def assert_same(result: pa.Table, wanted: dict[tuple[int, int], list[float]]) -> None:
    ends = result["window_end"].cast(pa.int64()).to_pylist()
    assert list(zip(result["cell"].to_pylist(), ends, strict=True)) == sorted(wanted)
    distances = [wanted[key] for key in sorted(wanted)]
    assert result["trips"].to_pylist() == [len(some) for some in distances]
    assert result["mean_distance"].to_pylist() == pytest.approx([fsum(some) / len(some) for some in distances])


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**63 - 1), st.integers(100, 2000))
def test_the_oracle_and_plain_python_agree_on_generated_trips(seed: int, per_s: int) -> None:
    rows = pa.table(NytEvents(per_s, seed).batch(0, 2000))
    assert_same(expected(rows)["trips"], plain(rows))


# Right on, just before and just behind the borders of cells, the grid's own included.
lines = st.integers(-2, 602)
nudges = st.sampled_from([0.0, 1e-14, -1e-14, 1e-9, -1e-9])
positions = st.tuples(
    st.builds(lambda row, nudge: NORTH - row * DLAT + nudge, lines, nudges),
    st.builds(lambda column, nudge: WEST + column * DLON + nudge, lines, nudges),
)
times = st.integers(-5 * SECOND, 5 * SECOND) | st.integers(-5, 5).map(lambda second: second * SECOND)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.builds(trip, times, positions, positions), max_size=30))
def test_the_oracle_and_plain_python_agree_on_the_borders_of_cells_and_windows(rows: list[Any]) -> None:
    assert_same(expected(table(*rows))["trips"], plain(table(*rows)))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(trip(0, pickup=OUTSIDE), id="begins outside of the grid"),
        pytest.param(trip(0, dropoff=OUTSIDE), id="ends outside of the grid"),
        pytest.param(trip(0, vendor="CMT"), id="is another vendor's"),
        pytest.param(trip(0, distance=1.0), id="is just a mile long"),
    ],
)
def test_a_trip_does_not_count_that(row: Any) -> None:
    assert expected(table(row))["trips"].num_rows == 0


def test_trips_are_averaged_by_the_cell_in_which_they_begin() -> None:
    rows = [trip(0, BUSY, QUIET, distance=3.0), trip(SECOND, BUSY, BUSY, distance=4.0), trip(2 * SECOND, QUIET)]
    result = expected(table(*rows))["trips"]
    assert result["trips"].to_pylist() == [2, 1]
    assert result["mean_distance"].to_pylist() == [3.5, 2.0]
    assert result["cell"].to_pylist() == [cell_of(*BUSY), cell_of(*QUIET)]
    assert result["window_end"].cast(pa.int64()).to_pylist() == [2 * SECOND, 4 * SECOND]


def test_cells_are_numbered_row_by_row_from_the_north_west() -> None:
    centres = [(41.474937 - row * DLAT, -74.913583 + column * DLON) for row, column in ((0, 1), (1, 0), (599, 599))]
    assert [cell_of(*centre) for centre in centres] == [1, 600, 359_999]


def test_the_oracle_reads_files_and_refuses_what_is_none(tmp_path: Path) -> None:
    rows = pa.table(NytEvents(per_s=100).batch(0, 1000))
    pq.write_table(rows, tmp_path / "a.parquet")
    assert expected(f"{tmp_path}/*.parquet") == expected(rows)
    with pytest.raises(SourceError, match="cannot read"):
        expected(tmp_path / "missing.parquet")
