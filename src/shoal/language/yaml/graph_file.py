"""Graph files: queries as YAML, in Shoal's own operators or in those of DCEP-Sim.

>>> from shoal.model.query.expression import col
>>> from shoal.model.query.graph import Graph
>>> from shoal.language.python.stream import Stream
>>> cars = Stream("cars", {"ts": "timestamp", "speed": "float64"}, time="ts")
>>> graph = Graph.of([cars.filter(col("speed") > 80).sink("fast")])
>>> load_graph(save_graph(graph), "fast.yaml") == graph
True
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import GraphError, ShoalError
from shoal.language.dcep.operators import DCEP_TYPES, translated
from shoal.language.python.flow import Flow
from shoal.language.python.replay import KINDS, Named, replayed, sink, source
from shoal.language.yaml.definitions import Dataset, StreamDefinition, datasets, definitions
from shoal.language.yaml.document import YamlPart, block, flow
from shoal.language.yaml.vertex import Vertex, vertices
from shoal.model.query.code import codes_in, shown, trust, untrusted
from shoal.model.query.duration import text_us
from shoal.model.query.graph import OPERATOR_KINDS, Graph, Operator, Query

TOP_KEYS = (
    "name",
    "dialect",
    "stream-definitions",
    "datasets",
    "spequeries",
    "experiments",
    "tracepoints",
    "plots",
    "network",
)
QUERY_KEYS = ("id", "name", "operators", "edges")
TYPES = tuple(dict.fromkeys((*OPERATOR_KINDS, *DCEP_TYPES)))


@dataclass(frozen=True)
class GraphFile:
    """The content of a graph file: queries, the streams they may read, and where the events are stored."""

    graph: Graph
    streams: Mapping[str, StreamDefinition]
    datasets: tuple[Dataset, ...]


def load_graph(text: str, where: str, functions: Named | None = None, *, allow_pickle: bool = False) -> Graph:
    """The graph of a YAML text; errors begin with `where`.

    `functions`: those it may use by name. `allow_pickle`: trust code in the text itself, which then runs with all
    rights of this process; without it, such code is refused unless this process has the same function already.
    """
    return load_file(text, where, functions, allow_pickle=allow_pickle).graph


def load_file(text: str, where: str, functions: Named | None = None, *, allow_pickle: bool = False) -> GraphFile:
    """The content of a graph file; a mistake is a `GraphError` that names the line."""
    try:
        found = _loaded(YamlPart.of(text, where, needs="spequeries"), functions or {}, allow_pickle=allow_pickle)
    except RecursionError as error:
        raise GraphError(f"{where}: the file is nested too deeply") from error
    if allow_pickle:
        trust(codes_in([operator.parameters for operator in found.graph.operators.values()]))
    return found


def _loaded(whole: YamlPart, functions: Named, *, allow_pickle: bool) -> GraphFile:
    top = whole.entries("a graph file", TOP_KEYS, hyphens=True)
    if "spequeries" not in top:
        whole.fail("a graph file must have a key 'spequeries'")
    streams = definitions(top.get("stream-definitions"))
    if not top["spequeries"].is_mapping:
        top["spequeries"].fail("spequeries must be a mapping with a key 'queries'; a list of SQL is not a graph")
    listed = top["spequeries"].entries("spequeries", ("queries", "inputs", "outputs"), hyphens=True)
    if "queries" not in listed:
        top["spequeries"].fail("spequeries must have a key 'queries'")
    graph = Graph()
    for part in listed["queries"].items("queries"):
        query = read_query(part, streams, functions, allow_pickle=allow_pickle)
        try:
            graph = Graph.of([*graph.queries.values(), query])
        except ShoalError as error:
            part.fail(str(error))
    return GraphFile(graph, streams, datasets(top.get("datasets")))


def _refuse_code(query: Query, part: YamlPart) -> None:
    """Refuse code that is in the file itself: to load it is to run it."""
    for operator in query.operators:
        if found := untrusted(codes_in(operator.parameters)):
            part.fail(
                f"query {query.name!r} has code in its {operator.kind}: {shown(found[0])}; code in a file is not run; "
                "name its function instead and give its Python file by --functions, or trust the file by --allow-pickle"
            )


def read_query(
    part: YamlPart,
    streams: Mapping[str, StreamDefinition],
    functions: Named,
    *,
    allow_pickle: bool = False,
    more: Sequence[str] = (),
) -> Query:
    """One query of a file: operators and edges, ours or DCEP-Sim's. `more`: keys that somebody else reads."""
    query = _query(part, part.entries("query", (*QUERY_KEYS, *more), hyphens=True), streams, functions)
    if not allow_pickle:
        _refuse_code(query, part)
    return query


def _query(
    part: YamlPart, entries: Mapping[str, YamlPart], streams: Mapping[str, StreamDefinition], functions: Named
) -> Query:
    if "name" not in entries:
        part.fail("a query must have a name")
    name = entries["name"].text("name of a query")
    listed = vertices(entries, part, name, TYPES)
    foreign = any(vertex.type == "input" for vertex in listed)
    if foreign:
        return translated(listed, name, part, streams)
    if not any(vertex.type == "source" for vertex in listed):
        part.fail(f"query {name!r} must have a source (or an input, in DCEP-Sim's form)")
    return _own(listed, name, part, streams, functions)


def _own(
    listed: list[Vertex],
    name: str,
    part: YamlPart,
    streams: Mapping[str, StreamDefinition],
    functions: Named,
) -> Query:
    """A query in Shoal's own operators."""
    flows: dict[str, Flow] = {}
    operators: dict[str, Operator] = {}
    query: Query | None = None
    for vertex in listed:
        if vertex.type not in KINDS:
            vertex.fail(f"operator type must be one of {', '.join(KINDS)} in a query with a source")
        data = _parameters(vertex, streams)
        inputs = [flows[each] for each in vertex.inputs if each in flows]
        if len(inputs) < len(vertex.inputs):
            vertex.fail("nothing can follow a sink")
        try:
            if vertex.type == "sink":
                query = sink(inputs[0], data, name)
                before = (inputs[0].operators[-1].id,)
                operators[vertex.name] = Operator("sink", query.sink.parameters, before)
            else:
                made = source(data) if vertex.type == "source" else replayed(vertex.type, inputs, data, functions)
                flows[vertex.name], operators[vertex.name] = made, made.operators[-1]
        except ShoalError as error:
            vertex.fail(error)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            vertex.fail(f"the parameters are not of the form they must have: {error!r}")
        _check_given(vertex, data, operators[vertex.name])
    distinct = {operator.id: operator for operator in operators.values()}.values()
    try:
        listed_query = Query(name, tuple(sorted(distinct, key=lambda operator: operator.kind == "sink")))
    except GraphError as error:
        part.fail(str(error))
    return listed_query if query is None else query


def _parameters(vertex: Vertex, streams: Mapping[str, StreamDefinition]) -> dict[str, Any]:
    kind = KINDS[vertex.type]
    least, most = kind.inputs
    if not least <= len(vertex.inputs) <= most:
        wanted = str(least) if least == most else f"{least} or more"
        got = ", ".join(vertex.inputs) or "none"
        vertex.fail(f"there must be {wanted} edges to it; got {got}")
    data = {
        name: _durations(part, f"{name} of {vertex.type} {vertex.name!r}") if name.endswith("_us") else part.data()
        for name, part in vertex.entries(kind.known).items()
    }
    if missing := [name for name in kind.needs if name not in data]:
        vertex.fail(f"parameter {missing[0]!r} is missing; there must be {', '.join(kind.needs)}")
    if vertex.type == "source" and "schema" not in data:
        if data["stream"] not in streams:
            known = ", ".join(streams) or "none"
            vertex.fail(f"stream {data['stream']!r} is not defined; give a schema here, or one of {known}")
        data = dict(streams[data["stream"]].stream().operators[0].parameters) | data
    return data


def _durations(part: YamlPart, what: str) -> Any:
    """A parameter in microseconds: a whole number, a text such as "1 h", or a list of these."""
    value = part.data()
    if isinstance(value, list):
        return [_durations(item, what) for item in part.items(what)]
    found = text_us(value) if isinstance(value, str) else value
    if value is not None and type(found) is not int:
        part.fail(f'{what} must be a whole number of microseconds, or a text such as "10 s" or "1 h"; got {part.shown}')
    return found


def _check_given(vertex: Vertex, data: Mapping[str, Any], operator: Operator) -> None:
    """Derived parameters in a file must match those that follow from the inputs."""
    for name in KINDS[vertex.type].follow:
        right = operator.parameters.get(name)
        if name in data and json.dumps(data[name]) != json.dumps(right):
            vertex.fail(f"parameter {name!r} must be {flow(right)}, or be left out; got {flow(data[name])}")


def save_graph(graph: Graph) -> str:
    """A graph as YAML: `load_graph` reads the same graph; equal graphs have equal texts."""
    lines = ["spequeries:", "  queries:" if graph.queries else "  queries: []"]
    for number, query in enumerate(graph.queries.values(), 1):
        lines += _query_lines(query, number)
    return "\n".join(lines) + "\n"


def _query_lines(query: Query, number: int) -> Iterator[str]:
    counted: Counter[str] = Counter()
    names: dict[str, str] = {}
    yield f"  - id: {number}"
    yield f"    name: {flow(query.name)}"
    yield "    operators:"
    for operator in query.operators:
        counted[operator.kind] += 1
        names[operator.id] = f"{operator.kind}-{counted[operator.kind]}"
        yield f"    - name: {names[operator.id]}"
        yield f"      type: {operator.kind}"
        if operator.parameters:
            yield "      parameters:"
            for name, value in operator.parameters.items():
                yield from block(name, value, 8)
    yield "    edges:"
    for operator in query.operators:
        for input_ in operator.inputs:
            stream = _stream(query, input_, operator, names)
            yield f"    - {flow({'stream': stream, 'from': names[input_], 'to': names[operator.id]})}"


def _stream(query: Query, input_: str, operator: Operator, names: Mapping[str, str]) -> str:
    """What an edge carries: a stream, the query's table, or an operator's results."""
    if operator.kind == "sink":
        return query.table
    read: dict[str, str] = {source.id: str(source.parameters["stream"]) for source in query.sources}
    return read.get(input_, names[input_])
