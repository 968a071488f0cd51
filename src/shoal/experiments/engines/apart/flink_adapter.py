"""Flink for `child.py`: tables over CSV files, queries as Flink's SQL, rows as they are after the last change."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TYPES = {
    "timestamp[us]": "TIMESTAMP(6)",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "bool": "BOOLEAN",
}
RETRACTED = ("UPDATE_BEFORE", "DELETE")
CHANGE = "change of the row"
NULL = "\\N"


def prepare(job: dict[str, Any]) -> Callable[[], list[tuple[str, Any]]]:
    """Create the tables and check the queries."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {"parallelism.default": str(job["workers"]), "table.local-time-zone": "UTC", **job["settings"]}
    for key, value in settings.items():
        tables.get_config().set(key, value)
    for name, stream in job["streams"].items():
        tables.execute_sql(_table(name, stream))
    selects = []
    for query in job["queries"]:
        *before, select = [each for each in query["text"].split(";") if each.strip()]
        try:
            for statement in before:
                tables.execute_sql(statement)
            tables.explain_sql(select)
            tables.execute_sql(f"DROP TEMPORARY VIEW IF EXISTS `{query['output']}`")
            made = tables.sql_query(select)
            tables.create_temporary_view(query["output"], made)
            schema = made.get_schema()
            types = {name: _arrow_type(schema.get_field_data_type(name)) for name in schema.get_field_names()}
        except Exception as error:
            raise ValueError(f"query {query['name']!r}: {_cause(error)}") from error
        selects.append((query["output"], _with_whole_times(select, types), types))

    def run() -> list[tuple[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="flink-results-") as written:
            started = [
                _started(tables, Path(written) / str(at), select, types)
                for at, (_, select, types) in enumerate(selects)
            ]
            for each in started:
                each.wait()
            return [(output, _rows(Path(written) / str(at), types)) for at, (output, _, types) in enumerate(selects)]

    return run


def _table(name: str, stream: dict[str, Any]) -> str:
    """A table over the files of a stream; `rowtime` is its event time, in the finest unit that Flink has for it.

    Flink reads files and parts of them in any order; with a shorter delay it silently drops rows as late.
    """
    fields = [f"`{column}` {TYPES[type_]}" for column, type_ in stream["columns"].items()]
    if stream["time"]:
        fields.append(f"rowtime AS CAST(`{stream['time']}` AS TIMESTAMP(3))")
        fields.append("WATERMARK FOR rowtime AS rowtime - INTERVAL '30' DAY")
    return f"CREATE TEMPORARY TABLE `{name}` ({', '.join(fields)}) {_files(stream['path'])}"


def _files(path: object) -> str:
    """The options of a table of CSV files."""
    options = {
        "connector": "filesystem",
        "path": f"file://{path}",
        "format": "csv",
        "csv.null-literal": NULL,
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"WITH ({listed})"


def _with_whole_times(select: str, types: dict[str, Any]) -> str:
    """The query with its times as texts: as times, PyFlink gives them without their microseconds."""
    columns = [
        f"CAST(`{name}` AS STRING) AS `{name}`" if _is_time(type_) else f"`{name}`" for name, type_ in types.items()
    ]
    return f"SELECT {', '.join(columns)} FROM ({select})"


def _is_time(type_: Any) -> bool:
    return str(type_).startswith("timestamp")


def _started(tables: Any, path: Path, select: str, types: dict[str, Any]) -> Any:
    """Let Flink write all changes of a query's results to files.

    PyFlink would collect them row by row, which takes a hundred times as long as Flink takes to compute them.
    """
    view, sink = f"results of {path.name}", f"files of {path.name}"
    tables.create_temporary_view(f"`{view}`", tables.sql_query(select))
    columns = ", ".join(f"`{name}` {_stored_as(type_)}" for name, type_ in types.items())
    tables.execute_sql(f"CREATE TEMPORARY TABLE `{sink}` (`{CHANGE}` STRING, {columns}) {_files(path)}")
    changes = f"TO_CHANGELOG(input => TABLE `{view}`, op => DESCRIPTOR(`{CHANGE}`))"
    return tables.execute_sql(f"INSERT INTO `{sink}` SELECT * FROM {changes}")


def _rows(path: Path, types: dict[str, Any]) -> Any:
    """The rows that are left when all changes have been applied."""
    import pyarrow as pa
    import pyarrow.compute as pc

    changes = pa.concat_tables([_no_changes(types), *(_read(each, types) for each in _files_of(path))])
    retracted = pc.is_in(changes[CHANGE], pa.array(RETRACTED))
    rows = changes.drop_columns([CHANGE])
    if pc.any(retracted).as_py():
        rows = _left(rows, pc.if_else(retracted, -1, 1))
    return rows.cast(pa.schema(list(types.items())))


def _left(rows: Any, signs: Any) -> Any:
    """Every row as often as it was added more than it was retracted."""
    import numpy as np

    counted = rows.append_column(CHANGE, signs).group_by(rows.column_names).aggregate([(CHANGE, "sum")])
    times = counted[f"{CHANGE}_sum"].to_numpy()
    return counted.select(rows.column_names).take(np.repeat(np.arange(len(times)), times))


def _files_of(path: Path) -> list[Path]:
    """The files that Flink has finished; their names begin with a letter."""
    return sorted(each for each in path.glob("**/[!._]*") if each.is_file() and each.stat().st_size)


def _read(path: Path, types: dict[str, Any]) -> Any:
    from pyarrow import csv

    schema = _no_changes(types).schema
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=schema.names),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=schema, null_values=[NULL], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _no_changes(types: dict[str, Any]) -> Any:
    """A table of changes without any; times are still texts."""
    import pyarrow as pa

    fields = [(name, pa.string() if _is_time(type_) else type_) for name, type_ in types.items()]
    return pa.schema([(CHANGE, pa.string()), *fields]).empty_table()


def _stored_as(type_: Any) -> str:
    """The type of a column in the files of results."""
    return "STRING" if _is_time(type_) else TYPES[str(type_)]


def _arrow_type(type_: object) -> Any:
    """The type that results have outside of Flink."""
    import pyarrow as pa

    kind = type(type_).__name__
    known = {
        "BigIntType": pa.int64(),
        "IntType": pa.int64(),
        "SmallIntType": pa.int64(),
        "TinyIntType": pa.int64(),
        "DoubleType": pa.float64(),
        "FloatType": pa.float64(),
        "VarCharType": pa.string(),
        "CharType": pa.string(),
        "BooleanType": pa.bool_(),
        "TimestampType": pa.timestamp("us"),
        "LocalZonedTimestampType": pa.timestamp("us"),
    }
    if kind not in known:
        raise ValueError(f"a result of type {kind} cannot be read; cast it to BIGINT, DOUBLE, STRING or BOOLEAN")
    return known[kind]


def _cause(error: Exception) -> str:
    """The innermost reason that Java gives."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by:", ": "))]
    return (causes or lines[:1] or ["no message"])[-1]
