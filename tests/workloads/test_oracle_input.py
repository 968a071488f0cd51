"""What oracles read: one reader for all of them, and clear errors where it cannot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import SchemaError, SourceError
from shoal.workloads.linear_road import oracle as linear_road_oracle
from shoal.workloads.nyt import oracle as nyt_oracle
from shoal.workloads.oracle_input import table_of
from shoal.workloads.patterns import oracle as pattern_oracle
from shoal.workloads.skew import oracle as skew_oracle
from shoal.workloads.traffic import oracle as traffic_oracle
from shoal.workloads.ysb import oracle as ysb_oracle

ORACLES: dict[str, Callable[[Any], object]] = {
    "linear road": linear_road_oracle.expected,
    "nyt": nyt_oracle.expected,
    "pattern": pattern_oracle.bikes_expected,
    "skew": lambda events: skew_oracle.expected(["medians"], events, 1, 1.0),
    "traffic": traffic_oracle.expected,
    "ysb": lambda events: ysb_oracle.expected(events, {}),
}


@pytest.mark.parametrize("workload", ORACLES)
def test_an_oracle_names_the_files_it_cannot_read(workload: str, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    message = f"^{workload} events must be Parquet files; cannot read '{tmp_path}/"
    for glob in ("*.parquet", "none/*.parquet"):
        with pytest.raises(SourceError, match=message):
            ORACLES[workload](tmp_path / glob)


@pytest.mark.parametrize("workload", ORACLES)
def test_an_oracle_names_the_columns_it_lacks(workload: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=rf"^{workload} events lack .*; got other$"):
        ORACLES[workload](tmp_path / "*.parquet")
    with pytest.raises(SchemaError, match=rf"^{workload} events lack .*; got other$"):
        ORACLES[workload](pa.table({"other": [1]}))


def test_files_and_tables_are_the_same_to_an_oracle(tmp_path: Path) -> None:
    table = pa.table({"n": [3, 1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert table_of("any", table, ["n"]) is table
    assert table_of("any", tmp_path / "*.parquet", ["n"]).equals(table)
