"""The comparison with DuckDB sees what it must see."""

import math

import pyarrow as pa
from tests.end_to_end.real_data.against_duckdb import with_nulls

from shoal.session.digest import differences


def test_a_null_is_not_taken_for_nan() -> None:
    null, nan = ({"t": pa.table({"x": pa.array([value], pa.float64())})} for value in (None, math.nan))
    assert differences(with_nulls(null), with_nulls(null)) == []
    assert differences(with_nulls(nan), with_nulls(null)) == ["table 't': column 'nulls': expected 'x ', got ''"]
