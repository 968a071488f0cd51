"""Sections: a graph cut at its operators with state, each with the paths that lead into it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shoal.compiler.build import steps_of
from shoal.compiler.steps import Step
from shoal.model.query.graph import PAIRING, STATEFUL, Graph, Operator, OperatorId, Query


@dataclass(frozen=True)
class Way:
    """A path of rows from a source, or from an operator with state, to an input of another operator."""

    origin: Operator
    port: int
    steps: tuple[Step, ...]

    @property
    def stream(self) -> str:
        """The stream it begins with; empty if it begins with an operator."""
        return str(self.origin.parameters["stream"]) if self.origin.kind == "source" else ""


@dataclass(frozen=True)
class Section:
    """An operator with state, its window if it has one, and its inputs; `level`: its depth in such operators."""

    operator: Operator
    window: Operator | None
    ways: tuple[Way, ...]
    level: int


@dataclass(frozen=True)
class SinkWay:
    """A query's sink and one of the paths into it."""

    query: Query
    way: Way


def sections(graph: Graph) -> list[Section]:
    """The operators with state, inputs first."""
    levels: dict[OperatorId, int] = {}
    found = []
    for operator in graph.operators.values():
        if operator.kind not in STATEFUL:
            continue
        ways = tuple(_ways(graph.operators, operator))
        level = 1 + max(levels.get(way.origin.id, 0) for way in ways)
        levels[operator.id] = level
        feeding = graph.operators[operator.inputs[0]]
        found.append(Section(operator, feeding if feeding.kind == "window" else None, ways, level))
    return found


def sinks(graph: Graph) -> list[SinkWay]:
    """The paths into the queries' sinks."""
    return [SinkWay(query, way) for query in graph.queries.values() for way in _ways(graph.operators, query.sink)]


def _ways(operators: Mapping[OperatorId, Operator], operator: Operator) -> Iterator[Way]:
    for port, id_ in enumerate(operator.inputs):
        for origin, between in _back(operators, operators[id_]):
            yield Way(origin, port if operator.kind in PAIRING else 0, tuple(steps_of(between)))


def _back(
    operators: Mapping[OperatorId, Operator], operator: Operator
) -> Iterator[tuple[Operator, tuple[Operator, ...]]]:
    """Every path back to a source or an operator with state, with its operators in the order of rows."""
    if operator.kind == "source" or operator.kind in STATEFUL:
        yield operator, ()
        return
    for id_ in operator.inputs:
        for origin, between in _back(operators, operators[id_]):
            yield origin, (*between, operator)
