"""SQL scripts as jobs: sources and sinks from the WITH options of their tables."""

from collections.abc import Mapping
from typing import Any, cast

from shoal.connectors.formats.format import FORMATS
from shoal.connectors.sinks import ParquetSink
from shoal.connectors.sources.files import ROWS_PER_EPOCH, Files
from shoal.errors import ConfigError, did_you_mean
from shoal.language.python.stream import Stream
from shoal.language.sql.script import Script, TableOptions, parse_script
from shoal.model.query.functions import Function
from shoal.session.job import Job

_SOURCE_OPTIONS = ("connector", "path", "format", "follow", "rows_per_epoch", "time_unit", "partition", "idle_s")
_SINK_OPTIONS = ("connector", "path", "format")
_TRUTHS = {"true": True, "false": False}


def job_from_sql(
    text: str,
    name: str,
    *,
    functions: Mapping[str, Function] | None = None,
    streams: Mapping[str, Stream] | None = None,
    sources: Mapping[str, Any] | None = None,
) -> Job:
    """A job from a SQL text: its queries, fed by the given sources and by those its tables name.

    >>> job = job_from_sql(
    ...     '''CREATE TABLE cars (ts TIMESTAMP(3), speed DOUBLE, WATERMARK FOR ts AS ts)
    ...            WITH ('connector' = 'files', 'path' = '/data/cars', 'format' = 'csv', 'follow' = 'false');
    ...        INSERT INTO fast SELECT ts, speed FROM cars WHERE speed > 130''',
    ...     name="cars",
    ... )
    >>> job.sources["cars"].format, list(job.graph.queries)
    ('csv', ['fast'])
    """
    script = parse_script(text, streams=streams, functions=functions, where=name)
    return job_of_script(script, name, sources or {})


def job_of_script(script: Script, name: str, sources: Mapping[str, Any]) -> Job:
    """A job from a script; a given source takes precedence over the options of a table."""
    read = {stream for query in script.queries for stream in query.streams}
    declared = {table: source_of(script.tables[table]) for table in read & set(script.tables) - set(sources)}
    return Job.of(name, script.queries, {**declared, **{key: sources[key] for key in sources if key in read}})


def source_of(table: TableOptions) -> Files:
    """The source by the options of a table."""
    options = table.options
    _check(table, _SOURCE_OPTIONS)
    follow = options.get("follow", "true").lower()
    rows = options.get("rows_per_epoch")
    if follow not in _TRUTHS:
        raise ConfigError(f"option 'follow' of table {table.name!r} must be 'true' or 'false'; got {follow!r}")
    if rows is not None and not rows.isdigit():
        raise ConfigError(f"option 'rows_per_epoch' of table {table.name!r} must be a number; got {rows!r}")
    return Files(
        options["path"],
        format=cast(Any, options.get("format", "parquet")),
        rows_per_epoch=ROWS_PER_EPOCH if rows is None else int(rows),
        follow=_TRUTHS[follow],
        time_unit=cast(Any, options.get("time_unit")),
        partition=options.get("partition"),
    )


def sink_of(script: Script) -> ParquetSink | None:
    """The sink by the options of the result tables: one directory for all, or None."""
    written = [table for table in script.tables.values() if table.role == "sink" and table.options]
    for table in written:
        _check(table, _SINK_OPTIONS)
        if table.options.get("format", "parquet") != "parquet":
            raise ConfigError(f"format of result table {table.name!r} must be parquet; got {table.options['format']!r}")
    paths = sorted({table.options["path"] for table in written})
    if len(paths) > 1:
        raise ConfigError(f"result tables of one script must have the same 'path'; got {' and '.join(paths)}")
    return ParquetSink(paths[0]) if paths else None


def _check(table: TableOptions, known: tuple[str, ...]) -> None:
    """Reject unknown connectors and options."""
    options = table.options
    if options.get("connector") != "files":
        raise ConfigError(
            f"connector of table {table.name!r} must be 'files', with 'path' and 'format' "
            f"({', '.join(FORMATS)}); got {options.get('connector', 'none')!r}"
        )
    if "path" not in options:
        raise ConfigError(f"table {table.name!r} needs the option 'path', a directory")
    unknown = [key for key in options if key not in known]
    if unknown:
        near = did_you_mean(unknown[0], known)
        raise ConfigError(f"table {table.name!r} has no option {unknown[0]!r}; there are {', '.join(known)}{near}")
