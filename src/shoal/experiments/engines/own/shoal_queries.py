"""The queries of an engine's job as Shoal's own: SQL texts, Python functions and graphs, named after their outputs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shoal.errors import ConfigError, GraphError, ShoalError
from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.experiments.language.query_program import QueryProgram, program_of
from shoal.experiments.trial import function_of
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.model.query.graph import Graph, Operator, Query


def shoal_graph(engine: str, job: EngineJob) -> Graph:
    """All queries as one graph; an error names the one that cannot run."""
    streams = {name: definition.stream() for name, definition in job.streams.items() if definition.time}
    try:
        return Graph.of(_named(engine, job, streams))
    except GraphError as error:
        raise ConfigError(f"{engine} cannot run these queries together: {error}") from error


def _named(engine: str, job: EngineJob, streams: Mapping[str, Stream]) -> Iterator[Query]:
    taken: set[str] = set()
    for at, query in enumerate(job.queries):
        name, number = query.name, 1
        while name in taken:
            number += 1
            name = f"{query.name}_{number}"
        taken.add(name)
        try:
            found = _query(query, job, at, streams) if query.graph is None else query.graph
            yield _renamed(found, name, query.output)
        except ShoalError as error:
            raise ConfigError(f"{engine} cannot run query {query.name!r}: {error}") from error


def _query(query: EngineQuery, job: EngineJob, at: int, streams: Mapping[str, Stream]) -> Query:
    program = program_of(query.text)
    return _parsed(query, job.queries[:at], streams) if program is None else _built(program, job, streams)


def _built(program: QueryProgram, job: EngineJob, streams: Mapping[str, Stream]) -> Query:
    """A query that a function makes: streams by name in, a flow out."""
    directory = Path(job.directory)
    if fault := program.fault(directory):
        raise ConfigError(fault)
    flow = function_of(directory / program.file, program.function)(streams)
    if not isinstance(flow, Flow):
        raise ConfigError(f"{program.function} must return a flow of a stream; got {type(flow).__name__}")
    return flow.sink(program.function)


def _parsed(query: EngineQuery, before: Sequence[EngineQuery], streams: Mapping[str, Stream]) -> Query:
    """A query in SQL; outputs of earlier queries that it mentions are views."""
    if not query.text.strip():
        raise ConfigError("it has neither a graph nor a text under sql-query: shoal")
    views = ""
    for each in before:
        if each.text and re.search(rf"\b{re.escape(each.output)}\b", query.text):
            views += f"CREATE VIEW `{each.output}` AS {each.text.strip().rstrip(';')};\n"
    script = parse_script(views + query.text, streams=streams, where=query.name)
    if len(script.queries) != 1:
        raise ConfigError(f"its text must be one SELECT; got {len(script.queries)}")
    return script.queries[0]


def _renamed(query: Query, name: str, table: str) -> Query:
    sink = query.sink
    renamed = Operator("sink", {**sink.parameters, "query": name, "table": table}, sink.inputs)
    return Query(name, (*query.operators[:-1], renamed))
