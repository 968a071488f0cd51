"""Flink for `child.py`: tables over CSV files, queries as Flink's SQL, rows as they are after the last change."""

from collections import Counter
from collections.abc import Callable
from typing import Any

TYPES = {
    "timestamp[us]": "TIMESTAMP(6)",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "bool": "BOOLEAN",
}
RETRACTED = ("UPDATE_BEFORE", "DELETE")


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
        except Exception as error:
            raise ValueError(f"query {query['name']!r}: {_cause(error)}") from error
        schema = made.get_schema()
        types = {name: _arrow_type(schema.get_field_data_type(name)) for name in schema.get_field_names()}
        selects.append((query["output"], _with_whole_times(select, types), types))

    def run() -> list[tuple[str, Any]]:
        started = [(output, tables.execute_sql(select), types) for output, select, types in selects]
        return [(output, _rows(result, types)) for output, result, types in started]

    return run


def _table(name: str, stream: dict[str, Any]) -> str:
    """A table over the files of a stream; `rowtime` is its event time, in the finest unit that Flink has for it.

    Flink reads files and parts of them in any order; with a shorter delay it silently drops rows as late.
    """
    fields = [f"`{column}` {TYPES[type_]}" for column, type_ in stream["columns"].items()]
    if stream["time"]:
        fields.append(f"rowtime AS CAST(`{stream['time']}` AS TIMESTAMP(3))")
        fields.append("WATERMARK FOR rowtime AS rowtime - INTERVAL '30' DAY")
    options = {
        "connector": "filesystem",
        "path": f"file://{stream['path']}",
        "format": "csv",
        "csv.null-literal": "\\N",
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TEMPORARY TABLE `{name}` ({', '.join(fields)}) WITH ({listed})"


def _with_whole_times(select: str, types: dict[str, Any]) -> str:
    """The query with its times as texts: as times, PyFlink gives them without their microseconds."""
    columns = [
        f"CAST(`{name}` AS STRING) AS `{name}`" if _is_time(type_) else f"`{name}`" for name, type_ in types.items()
    ]
    return f"SELECT {', '.join(columns)} FROM ({select})"


def _is_time(type_: Any) -> bool:
    return str(type_).startswith("timestamp")


def _rows(result: Any, types: dict[str, Any]) -> Any:
    """The rows that are left when changes have been applied."""
    import pyarrow as pa

    rows, retracted = list[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    with result.collect() as found:
        for row in found:
            values = tuple(row)
            if row.get_row_kind().name in RETRACTED:
                retracted[values] += 1
            else:
                rows.append(values)
    if retracted:
        rows = list((Counter(rows) - retracted).elements())
    columns = []
    for at, type_ in enumerate(types.values()):
        column = [row[at] for row in rows]
        columns.append(pa.array(column, pa.string()).cast(type_) if _is_time(type_) else pa.array(column, type_))
    return pa.table(columns, names=list(types))


def _arrow_type(type_: object) -> Any:
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
    return known.get(kind)  # without a type Arrow finds one


def _cause(error: Exception) -> str:
    """The innermost reason that Java gives."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by:", ": "))]
    return (causes or lines[:1] or ["no message"])[-1]
