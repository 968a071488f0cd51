"""Vertices: the operators of one query in a graph file, and how edges wire them, before anything is built."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

from shoal.errors import did_you_mean
from shoal.language.yaml.document import YamlPart

EDGE_KEYS = ("stream", "from", "to")
OUTPUTS = ("output", "sink")


@dataclass(frozen=True)
class Vertex:
    """One operator as written: name, type, parameters, and the names of the operators that feed it."""

    name: str
    type: str
    parameters: YamlPart | None
    part: YamlPart
    inputs: tuple[str, ...] = ()

    def fail(self, problem: object) -> NoReturn:
        """Reject the file because of this operator."""
        self.part.fail(f"{self.type} {self.name!r}: {problem}")

    def entries(self, known: Collection[str], *, hyphens: bool = False) -> dict[str, YamlPart]:
        """The parameters by name."""
        what = f"{self.type} {self.name!r}"
        return {} if self.parameters is None else self.parameters.entries(what, known, hyphens=hyphens)


def vertices(query: Mapping[str, YamlPart], part: YamlPart, name: str, types: Collection[str]) -> list[Vertex]:
    """The operators of a query, each after those that feed it; the order of edges is the order of inputs."""
    listed = _listed(query, part, name, types)
    inputs: dict[str, list[str]] = {vertex: [] for vertex in listed}
    for edge in query["edges"].items(f"edges of query {name!r}") if "edges" in query else ():
        ends = edge.entries("edge", EDGE_KEYS)
        if "from" not in ends:
            edge.fail("an edge must say where it comes from, e.g. {from: filter-1, to: sink-1}")
        source = _end(ends["from"], listed)
        if "to" in ends:
            inputs[_end(ends["to"], listed)].append(source)
        elif listed[source].type not in OUTPUTS:
            edge.fail(f"an edge must say where it leads; only one from an output may end in nothing; got {source!r}")
    wired = {
        vertex: Vertex(vertex, old.type, old.parameters, old.part, tuple(inputs[vertex]))
        for vertex, old in listed.items()
    }
    return _sorted(wired, part, name)


def _listed(query: Mapping[str, YamlPart], part: YamlPart, name: str, types: Collection[str]) -> dict[str, Vertex]:
    found: dict[str, Vertex] = {}
    if "operators" not in query:
        part.fail(f"query {name!r} must have operators")
    for item in query["operators"].items(f"operators of query {name!r}"):
        entries = item.entries("operator", ("name", "type", "parameters"))
        for key in ("name", "type"):
            if key not in entries:
                item.fail(f"an operator must have a {key}; got {item.shown}")
        operator, type_ = entries["name"].text("name of an operator"), entries["type"].text("type of an operator")
        if type_ not in types:
            near = did_you_mean(type_, types)
            entries["type"].fail(f"operator type must be one of {', '.join(types)}; got {type_!r}{near}")
        if operator in found:
            item.fail(f"query {name!r} has two operators named {operator!r}")
        found[operator] = Vertex(operator, type_, entries.get("parameters"), item)
    if not found:
        part.fail(f"query {name!r} must have operators")
    return found


def _end(part: YamlPart, listed: Mapping[str, Vertex]) -> str:
    """An end of an edge: a name, or `{name: ..., type: ...}` as DCEP-Sim writes it."""
    if part.is_mapping:
        ends = part.entries("end of an edge", ("name", "type"))
        if "name" not in ends:
            part.fail("an end of an edge must have a name")
        part = ends["name"]
    name = part.text("end of an edge")
    if name not in listed:
        part.fail(f"there is no operator {name!r}; there are {', '.join(listed)}")
    return name


def _sorted(wired: Mapping[str, Vertex], part: YamlPart, name: str) -> list[Vertex]:
    """Inputs first, otherwise in the order of the file."""
    placed: dict[str, Vertex] = {}
    while len(placed) < len(wired):
        ready = [v for n, v in wired.items() if n not in placed and all(each in placed for each in v.inputs)]
        if not ready:
            circle = ", ".join(each for each in wired if each not in placed)
            part.fail(f"the edges of query {name!r} must not lead in a circle; they do, among {circle}")
        if len(ready) == len(wired) - len(placed):
            return [*placed.values(), *ready]
        placed[ready[0].name] = ready[0]
    return list(placed.values())
