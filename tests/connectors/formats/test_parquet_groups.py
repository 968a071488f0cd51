"""Row groups: where the footer says enough about event time, it is not decoded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.connectors.formats.format import Parquet
from shoal.connectors.sources.source import CoarseTime, Wanted

SECOND_US = 1_000_000
NUMBER = pa.field("n", pa.int64(), nullable=False)
MINUTES = CoarseTime("ts", 60 * SECOND_US, 0, 10**18, pa.schema([NUMBER]))
GROUP = 3
"""Rows of a row group."""


def file(folder: Path, seconds: list[int | None], n: pa.Array | None = None, unit: str = "us", **options: Any) -> str:
    """Rows with these times, three in each row group."""
    scale = {"us": SECOND_US, "ms": 1000, "ns": 1000 * SECOND_US}[unit]
    times = pa.array([None if each is None else each * scale for each in seconds], pa.timestamp(unit))
    columns = {"ts": times, "n": pa.array(range(len(seconds))) if n is None else n}
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=GROUP, **options)
    return str(folder / "rows.parquet")


def read(path: str, coarse: CoarseTime | None = MINUTES, columns: tuple[str, ...] = ("ts", "n")) -> list[Any]:
    """The times of all rows in seconds; other columns must be unchanged."""
    wanted = Wanted(columns, pa.schema([]), coarse)
    units = Parquet().units(path)
    raws = list(Parquet().read(path, range(len(units)), 0, wanted))
    own = list(Parquet().read(path, range(len(units)), 0, replace(wanted, coarse=None)))
    for name in columns:
        found, expected = ([x for raw in each for x in raw.batch.column(name).to_pylist()] for each in (raws, own))
        assert name == "ts" or found == expected
    assert raws[0].first_row == 0
    times = pa.chunked_array([raw.batch.column("ts") for raw in raws])
    assert times.type == pq.read_schema(path).field("ts").type
    return [None if each is None else each.timestamp() for each in times.cast(pa.timestamp("us", "UTC")).to_pylist()]


def test_rows_of_a_group_within_one_pane_get_its_newest_time(tmp_path: Path) -> None:
    assert read(file(tmp_path, [7, 59, 3, 60, 119, 61])) == [59, 59, 59, 119, 119, 119]


def test_rows_of_a_group_in_two_panes_keep_their_times(tmp_path: Path) -> None:
    assert read(file(tmp_path, [7, 59, 3, 59, 60, 61, 65, 61, 62])) == [59, 59, 59, 59, 60, 61, 65, 65, 65]


def paged(folder: Path, first_s: int, rows: int, options: dict[str, Any]) -> tuple[str, list[int]]:
    """A row group with a row for every millisecond, in pages of at most 20,000 rows; also the times."""
    ms = np.arange(first_s * 1000, first_s * 1000 + rows)
    table = pa.table({"ts": pa.array(ms).view(pa.timestamp("ms")), "n": pa.array(ms)})
    pq.write_table(table, folder / "rows.parquet", **options)
    return str(folder / "rows.parquet"), ms.tolist()


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}])
def test_rows_of_a_page_within_one_pane_get_its_newest_time(tmp_path: Path, options: dict[str, Any]) -> None:
    path, ms = paged(tmp_path, 40, 50_000, options)  # pages end at 60 s, 80 s and 90 s
    newest = [ms[min(at // 20_000 * 20_000 + 19_999, 49_999)] for at in range(50_000)]
    assert read(path) == [each / 1000 for each in newest]


def test_rows_keep_their_times_if_a_page_is_in_two_panes(tmp_path: Path) -> None:
    path, ms = paged(tmp_path, 41, 50_000, {})
    assert read(path) == [each / 1000 for each in ms]


def test_the_oldest_time_of_a_batch_is_that_of_its_pages(tmp_path: Path) -> None:
    path, _ = paged(tmp_path, 40, 200_000, {"row_group_size": 60_000})
    minutes = replace(MINUTES, pane_us=20 * SECOND_US)
    raws = list(Parquet().read(path, range(4), 0, Wanted(("ts", "n"), pa.schema([]), minutes)))
    assert len(raws) > 1
    for raw in raws:
        first_ms = raw.batch.column("n")[0].as_py()
        page_ms = first_ms // 20_000 * 20_000
        assert raw.oldest_us == page_ms * 1000


def test_texts_do_not_keep_times_from_being_left_out(tmp_path: Path) -> None:
    texts = replace(MINUTES, beside=pa.schema([pa.field("n", pa.string(), nullable=False)]))
    for column in (pa.array(["1", "x", "3"]), pa.array(["1", "x", "3"]).dictionary_encode()):
        assert read(file(tmp_path, [7, 59, 3], column), texts) == [59, 59, 59]
    assert read(file(tmp_path, [7, 59, 3], pa.array(["1", None, "3"])), texts) == [7, 59, 3]


def test_without_permission_rows_keep_their_times(tmp_path: Path) -> None:
    assert read(file(tmp_path, [7, 59, 3]), coarse=None) == [7, 59, 3]


@pytest.mark.parametrize(
    ("from_s", "until_s", "found"),
    [
        pytest.param(3, 59, [59, 59, 59], id="all inside"),
        pytest.param(4, 59, [7, 59, 3], id="one before"),
        pytest.param(0, 58, [7, 59, 3], id="one behind"),
    ],
)
def test_rows_outside_the_limits_keep_their_times(tmp_path: Path, from_s: int, until_s: int, found: list[int]) -> None:
    limited = replace(MINUTES, from_us=from_s * SECOND_US, until_us=until_s * SECOND_US)
    assert read(file(tmp_path, [7, 59, 3]), limited) == found


def test_times_before_1970_have_panes_too(tmp_path: Path) -> None:
    before = replace(MINUTES, from_us=-(10**18))
    assert read(file(tmp_path, [-1, -60, -59, -1, 0, 1]), before) == [-1, -1, -1, -1, 0, 1]


def test_milliseconds_are_understood(tmp_path: Path) -> None:
    assert read(file(tmp_path, [7, 59, 3], unit="ms")) == [59, 59, 59]


@pytest.mark.parametrize(
    ("seconds", "n", "options"),
    [
        pytest.param([7, None, 3], None, {}, id="a time is null"),
        pytest.param([7, 59, 3], pa.array([1, None, 2]), {}, id="another column has a null that is refused"),
        pytest.param([7, 59, 3], pa.array(["1", "x", "3"]), {}, id="another column may not fit its type"),
        pytest.param([7, 59, 3], None, {"write_statistics": False}, id="there are no statistics"),
        pytest.param([7, 59, 3], None, {"unit": "ns"}, id="times have nanoseconds"),
    ],
)
def test_rows_keep_their_times_if(
    tmp_path: Path, seconds: list[int | None], n: pa.Array | None, options: dict[str, Any]
) -> None:
    assert read(file(tmp_path, seconds, n, **options)) == seconds


def test_a_column_of_times_alone_is_decoded(tmp_path: Path) -> None:
    assert read(file(tmp_path, [7, 59, 3]), columns=("ts",)) == [7, 59, 3]
