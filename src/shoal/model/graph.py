"""The operator graph: queries as chains of operators that share what they have in common.

An operator's id is a digest of what it does and of what feeds it, so two queries that begin alike
share operators by construction, and a query that comes back finds its state by name, not by position.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NewType, cast, get_args

from shoal.errors import GraphError

OperatorId = NewType("OperatorId", str)
"""Digest of an operator's kind, parameters and inputs."""
InstanceId = NewType("InstanceId", str)
"""One operator for one key group, written `operator/group`: the unit that is bound to a worker."""

OperatorKind = Literal["source", "filter", "select", "window", "aggregate", "sink"]
OPERATOR_KINDS: tuple[OperatorKind, ...] = get_args(OperatorKind)
STATEFUL: frozenset[str] = frozenset({"aggregate"})
_CHAIN = re.compile(r"source( filter| select)*( window aggregate( filter| select)*)? sink")


@dataclass(frozen=True)
class Operator:
    """A vertex of the graph: a kind, its parameters as plain data, and the operators that feed it."""

    kind: OperatorKind
    parameters: Mapping[str, Any]
    inputs: tuple[OperatorId, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a kind there is not."""
        if self.kind not in OPERATOR_KINDS:
            raise GraphError(f"operator must be one of {', '.join(OPERATOR_KINDS)}; got {self.kind!r}")

    @cached_property
    def text(self) -> str:
        """Canonical text of what the operator does: equal for operators that do the same, whatever feeds them."""
        return json.dumps([self.kind, self.parameters], sort_keys=True, separators=(",", ":"))

    @cached_property
    def id(self) -> OperatorId:
        """Twelve hexadecimal digits that depend on nothing but the operator and its inputs."""
        text = json.dumps([self.kind, self.parameters, self.inputs], sort_keys=True, separators=(",", ":"))
        return OperatorId(hashlib.sha256(text.encode()).hexdigest()[:12])

    @property
    def groups(self) -> int:
        """How many key groups, and so instances, the operator has."""
        return int(self.parameters.get("groups", 1))

    @property
    def instances(self) -> Iterator[InstanceId]:
        """The operator's instances."""
        return (InstanceId(f"{self.id}/{group}") for group in range(self.groups))


@dataclass(frozen=True)
class Query:
    """A named chain of operators from a source to one sink."""

    name: str
    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        """Refuse a chain that is not one."""
        if not self.name:
            raise GraphError("a query must have a name")
        kinds = [operator.kind for operator in self.operators]
        if not _CHAIN.fullmatch(" ".join(kinds)):
            raise GraphError(
                f"query {self.name!r} must lead from a source to a sink, with at most one window and its aggregate; "
                f"got {' -> '.join(kinds) or 'nothing'}"
            )
        for before, operator in pairwise(self.operators):
            if operator.inputs != (before.id,):
                raise GraphError(
                    f"{operator.kind} of query {self.name!r} must be fed by {before.kind} {before.id}; "
                    f"got {', '.join(operator.inputs) or 'nothing'}"
                )

    @property
    def source(self) -> Operator:
        """Where the events come from."""
        return self.operators[0]

    @property
    def sink(self) -> Operator:
        """Where the results go."""
        return self.operators[-1]

    @property
    def stream(self) -> str:
        """Name of the stream the query reads."""
        return cast(str, self.source.parameters["stream"])

    @property
    def table(self) -> str:
        """Name of the result table the query writes; several queries may share one."""
        return cast(str, self.sink.parameters["table"])

    @property
    def columns(self) -> Mapping[str, str]:
        """Columns of the result table with their types, in order."""
        return cast(Mapping[str, str], self.sink.parameters["columns"])


@dataclass(frozen=True)
class Graph:
    """Queries merged into one graph; a graph that is wrong cannot be built."""

    queries: Mapping[str, Query] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse streams or tables that two queries understand differently."""
        streams: dict[str, Mapping[str, Any]] = {}
        tables: dict[str, Query] = {}
        for name, query in self.queries.items():
            declared = streams.setdefault(query.stream, query.source.parameters)
            if declared != query.source.parameters:
                raise GraphError(
                    f"query {name!r} declares stream {query.stream!r} differently from the other queries; "
                    f"expected {json.dumps(declared)}, got {json.dumps(query.source.parameters)}"
                )
            first = tables.setdefault(query.table, query)
            if list(first.columns.items()) != list(query.columns.items()):
                raise GraphError(
                    f"query {name!r} writes table {query.table!r} with columns {json.dumps(query.columns)}; "
                    f"query {first.name!r} writes it with {json.dumps(first.columns)}"
                )

    @classmethod
    def of(cls, queries: Iterable[Query]) -> "Graph":
        """Merge queries; duplicate names are an error."""
        named: dict[str, Query] = {}
        for query in queries:
            if query.name in named:
                raise GraphError(f"query {query.name!r} is declared twice; a query's name must be its own")
            named[query.name] = query
        return cls(named)

    def with_query(self, query: Query) -> "Graph":
        """The graph with one more query."""
        return Graph.of([*self.queries.values(), query])

    def without_query(self, name: str) -> "Graph":
        """The graph with one query less."""
        if name not in self.queries:
            raise GraphError(f"no query is named {name!r}; there are {', '.join(self.queries) or 'none'}")
        return Graph({other: query for other, query in self.queries.items() if other != name})

    @cached_property
    def operators(self) -> Mapping[OperatorId, Operator]:
        """All operators, each once, inputs before outputs."""
        return {operator.id: operator for query in self.queries.values() for operator in query.operators}

    @cached_property
    def instances(self) -> tuple[InstanceId, ...]:
        """All instances of all operators."""
        return tuple(instance for operator in self.operators.values() for instance in operator.instances)

    @cached_property
    def stateful_instances(self) -> tuple[InstanceId, ...]:
        """The instances that hold state, and so are worth moving."""
        return tuple(
            instance
            for operator in self.operators.values()
            if operator.kind in STATEFUL
            for instance in operator.instances
        )

    @cached_property
    def streams(self) -> Mapping[str, Operator]:
        """Source operators by stream name."""
        return {query.stream: query.source for query in self.queries.values()}

    def data(self) -> dict[str, Any]:
        """The graph as plain data: every operator once, every query as a chain of operator ids."""
        return {
            "operators": {
                id_: {
                    "kind": operator.kind,
                    "parameters": operator.parameters,
                    "inputs": list(operator.inputs),
                }
                for id_, operator in self.operators.items()
            },
            "queries": {name: [operator.id for operator in query.operators] for name, query in self.queries.items()},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Graph":
        """Rebuild a graph from its plain form; operators must have the ids they are listed under."""
        operators = {}
        for id_, plain in data["operators"].items():
            operator = Operator(plain["kind"], plain["parameters"], tuple(plain["inputs"]))
            if operator.id != id_:
                raise GraphError(f"operator {id_} is not what its id says; its content gives {operator.id}")
            operators[id_] = operator
        for name, ids in data["queries"].items():
            if unknown := [id_ for id_ in ids if id_ not in operators]:
                raise GraphError(f"query {name!r} names operator {unknown[0]}, which is not listed")
        return cls({name: Query(name, tuple(operators[id_] for id_ in ids)) for name, ids in data["queries"].items()})

    @cached_property
    def digest(self) -> str:
        """A short text that two graphs share only if they are the same."""
        text = json.dumps(self.data(), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
