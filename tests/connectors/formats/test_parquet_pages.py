"""Pages: what their headers say is what is in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.connectors.formats.parquet_pages import Page, integer_pages

ROWS = 45_000
PAGE = 20_000
"""The most rows that pyarrow puts into a page."""
NUMBERS = np.random.default_rng(7).integers(-(2**62), 2**62, ROWS)


def pages(folder: Path, column: pa.Array, **options: Any) -> Any:
    """The pages of a column that follows another one, in its second row group."""
    table = pa.table({"other": pa.array(range(len(column))), "n": column})
    path = folder / "rows.parquet"
    pq.write_table(pa.concat_tables([table, table]), path, row_group_size=len(column), **options)
    with pa.OSFile(str(path)) as file:
        return integer_pages(file, pq.read_metadata(path).row_group(1).column(1))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_headers_say_how_many_values_a_page_has_and_between_which(
    tmp_path: Path, version: str, compression: str, use_dictionary: bool
) -> None:
    options = {"data_page_version": version, "compression": compression, "use_dictionary": use_dictionary}
    values = NUMBERS // 2**45 if use_dictionary else NUMBERS
    parts = [values[first : first + PAGE] for first in range(0, ROWS, PAGE)]
    expected = [Page(part.size, int(part.min()), int(part.max())) for part in parts]
    assert pages(tmp_path, pa.array(values), **options) == expected


def test_nulls_are_counted_as_values(tmp_path: Path) -> None:
    assert pages(tmp_path, pa.array([3, None, 1])) == [Page(3, 1, 3)]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param(pa.array(["a", "b"]), {}, id="texts"),
        pytest.param(pa.array([1, 2], pa.int32()), {}, id="integers of 32 bits"),
        pytest.param(pa.array([1, 2]), {"write_statistics": False}, id="no statistics"),
        pytest.param(pa.array([None, None], pa.int64()), {}, id="no value"),
    ],
)
def test_other_pages_say_nothing(tmp_path: Path, column: pa.Array, options: dict[str, Any]) -> None:
    assert pages(tmp_path, column, **options) is None


@pytest.mark.parametrize("cut", [1, 10, 30, 60])
def test_headers_that_are_no_headers_say_nothing(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": pa.array(NUMBERS)}), path)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[4 : 4 + cut] = b"\xff" * cut
    assert integer_pages(pa.BufferReader(bytes(content)), chunk) is None
