"""SQL files as targets, with functions of a Python file."""

from pathlib import Path

import pytest

from shoal.cli.target import target
from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.files import Files
from shoal.errors import ConfigError, SqlError
from shoal.workloads.workload import Amount

AMOUNT = Amount(None, None, 1000)
SQL = """
CREATE TABLE cars (ts TIMESTAMP(3), speed DOUBLE, WATERMARK FOR ts AS ts)
    WITH ('connector' = 'files', 'path' = '/data/cars');
CREATE TABLE answers (ts TIMESTAMP(3), gear BIGINT) WITH ('connector' = 'files', 'path' = '{path}');
INSERT INTO answers SELECT ts, gear(speed) FROM cars;
"""
FUNCTIONS = """
from shoal import udf

@udf("int64")
def gear(speed):
    return (speed // 30).astype(int)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "cars.sql"
    path.write_text(SQL.format(path=tmp_path / "results"))
    return str(path)


@pytest.fixture
def functions(tmp_path: Path) -> str:
    path = tmp_path / "gears.py"
    path.write_text(FUNCTIONS)
    return str(path)


def test_a_sql_file_is_a_job_with_a_sink(script: str, functions: str, tmp_path: Path) -> None:
    found = target(script, 0, AMOUNT, {}, None, functions)
    assert found.job.name == "cars"
    assert found.job.sources == {"cars": Files("/data/cars")}
    assert found.sink == ParquetSink(str(tmp_path / "results"))
    assert found.expected is None


def test_another_source_may_take_the_place_of_the_files(script: str, functions: str) -> None:
    source = Files("/other", follow=False)
    assert target(script, 0, AMOUNT, {}, source, functions).job.sources == {"cars": source}


def test_a_function_that_no_file_has_is_an_error_with_the_place(script: str) -> None:
    with pytest.raises(SqlError, match=r"cars\.sql, line 5, column 32: there is no function 'gear' here"):
        target(script, 0, AMOUNT, {}, None)


def test_what_makes_no_sense_for_a_sql_file_is_refused(script: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--set is for workloads"):
        target(script, 0, AMOUNT, {"a": "b"}, None)
    with pytest.raises(ConfigError, match="there is no file"):
        target(str(tmp_path / "none.sql"), 0, AMOUNT, {}, None)
    with pytest.raises(ConfigError, match="there is no file"):
        target(script, 0, AMOUNT, {}, None, str(tmp_path / "none.py"))
    with pytest.raises(ConfigError, match="--functions is for SQL and YAML files"):
        target("traffic", 0, AMOUNT, {}, None, "functions.py")


def test_a_file_of_functions_must_have_some(script: str, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="has no function; mark some"):
        target(script, 0, AMOUNT, {}, None, str(tmp_path / "empty.py"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="must be UTF-8 text"):
        target(str(tmp_path / "x.sql"), 0, AMOUNT, {}, None)
