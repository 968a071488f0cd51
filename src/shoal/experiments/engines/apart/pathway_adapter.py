"""Pathway for `child.py`: CSV files as tables, queries as functions of tables or as SQL.

A query is a function `query(tables)` of a Python file, where `tables[NAME]` is a table of Pathway: an input stream or
the output of an earlier query; it returns a table: the results. Any other text is SQL for `pathway.sql`. Columns
that a stream declares as not null have plain types, all others are optional, which most of Pathway's operators refuse.

Pathway has a column `id` of its own in every table; a column of that name is `id_` here, and `id` again in the results.
All rows are given in one commit, so that results are those at the end of the input.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

NULL = "\\N"
TIME = "timestamp[us]"
TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
PLAIN: dict[str, type] = {"int64": int, "double": float, "string": str, "bool": bool}
TAKEN = {"id": "id_"}
"""Names that columns cannot have in Pathway, and what they have instead."""
COUNTED = ("diff", "time")
"""What Pathway writes beside the columns of a row."""


def prepare(job: dict[str, Any]) -> Callable[[], list[tuple[str, Any]]]:
    """Build the tables of all queries, which finds wrong names and types."""
    import pathway as pw

    pw.internals.parse_graph.G.clear()
    os.environ["PATHWAY_THREADS"] = str(job["workers"])
    tables = {name: _table(stream) for name, stream in job["streams"].items()}
    outputs = []
    for query in job["queries"]:
        try:
            made = query["program"](tables) if "program" in query else pw.sql(query["text"], **tables)
            outputs.append((query["output"], made, _schema(made)))
        except Exception as error:
            raise ValueError(f"query {query['name']!r}: {type(error).__name__}: {error}") from error
        tables[query["output"]] = made

    def run() -> list[tuple[str, Any]]:
        with tempfile.TemporaryDirectory(prefix="shoal-pathway-") as directory:
            paths = [Path(directory) / f"{at}.jsonl" for at in range(len(outputs))]
            for path, (_, made, _) in zip(paths, outputs, strict=True):
                pw.io.jsonlines.write(made, str(path))
            pw.run(monitoring_level=pw.MonitoringLevel.NONE, terminate_on_error=True)
            return [(output, _rows(path, schema)) for path, (output, _, schema) in zip(paths, outputs, strict=True)]

    return run


def _table(stream: dict[str, Any]) -> Any:
    """A table over the files of a stream: texts become times, and those that stand for null become null."""
    import pathway as pw

    required = set(stream["required"])
    plain = {name for name, type_ in stream["columns"].items() if name in required and type_ != TIME}
    read_as = {name: PLAIN[type_] if name in plain else str for name, type_ in stream["columns"].items()}
    schema = pw.schema_builder({name: pw.column_definition(dtype=type_) for name, type_ in read_as.items()})
    taken = {name: other for name, other in TAKEN.items() if name in read_as}
    rows = pw.io.csv.read(stream["path"], schema=schema, mode="static").rename(taken)
    made = {}
    for name, type_ in stream["columns"].items():
        column = rows[taken.get(name, name)]
        if name in plain:
            made[name] = column
        elif name in required or name == stream["time"]:
            made[name] = column.dt.strptime(TIME_FORMAT)
        else:
            made[name] = _optional(column, type_)
    return rows.select(**{taken.get(name, name): column for name, column in made.items()})


def _optional(column: Any, type_: str) -> Any:
    import pathway as pw

    known = pw.if_else(column == NULL, None, column)
    if type_ == TIME:
        return pw.apply_with_type(_time, pw.DateTimeNaive | None, known)
    parsed = {"int64": column.str.parse_int, "double": column.str.parse_float, "bool": column.str.parse_bool}
    return known if type_ == "string" else pw.if_else(column == NULL, None, parsed[type_](optional=True))


def _time(text: str | None) -> Any:
    import pandas as pd

    return None if text is None else pd.Timestamp(text)


def _schema(table: Any) -> Any:
    """The Arrow columns of a table; a type that has none is refused."""
    import pathway as pw
    import pyarrow as pa

    known = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    times = {pw.DateTimeNaive: pa.timestamp("ns"), pw.DateTimeUtc: pa.timestamp("ns", "UTC")}
    fields = []
    for name, hint in table.typehints().items():
        kinds = [each for each in getattr(hint, "__args__", (hint,)) if each is not type(None)]
        type_ = (known | times).get(kinds[0]) if len(kinds) == 1 else None
        if type_ is None:
            raise TypeError(f"column {name!r} of the results must be int, float, str, bool or a time; it is {hint}")
        fields.append(pa.field(name, type_))
    return pa.schema(fields)


def _rows(path: Path, schema: Any) -> Any:
    """The rows that are left when changes have been applied."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json

    if not path.exists() or not path.stat().st_size:
        return schema.empty_table()
    told = pa.schema([*schema, *(pa.field(name, pa.int64()) for name in COUNTED)])
    options = pyarrow.json.ParseOptions(explicit_schema=told)
    found = pyarrow.json.read_json(path, parse_options=options).select(told.names)
    if pc.all(pc.equal(found["diff"], 1)).as_py():
        return _named(found.drop_columns(list(COUNTED)))
    left = Counter[tuple[Any, ...]]()
    for row in found.to_pylist():
        left[tuple(row[name] for name in schema.names)] += row["diff"]
    rows = list(left.elements())
    columns = [pa.array([row[at] for row in rows], each.type) for at, each in enumerate(schema)]
    return _named(pa.table(columns, schema=schema))


def _named(table: Any) -> Any:
    """Results with the names that the query means."""
    meant = {other: name for name, other in TAKEN.items()}
    return table.rename_columns([meant.get(name, name) for name in table.column_names])
