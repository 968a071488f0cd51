"""The operator graph: queries as trees of operators that share what they have in common.

An operator's id is a digest of what it does and of what feeds it, so two queries that begin alike
share operators by construction, and a query that is added again finds its state by id, not by position.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NewType, cast, get_args

from shoal.errors import GraphError

OperatorId = NewType("OperatorId", str)
"""Digest of an operator's kind, parameters and inputs."""
InstanceId = NewType("InstanceId", str)
"""One operator for one key group, written `operator/group`: the unit that is bound to a worker."""

OperatorKind = Literal[
    "source",
    "filter",
    "select",
    "lookup",
    "assign",
    "retime",
    "union",
    "window",
    "aggregate",
    "join",
    "rank",
    "deduplicate",
    "match",
    "cover",
    "versions",
    "match_ranges",
    "geofence",
    "sink",
]
OPERATOR_KINDS: tuple[OperatorKind, ...] = get_args(OperatorKind)
STATEFUL: frozenset[str] = frozenset(
    {"aggregate", "join", "rank", "deduplicate", "match", "versions", "match_ranges", "geofence"}
)
PAIRING: frozenset[str] = frozenset({"join", "match_ranges"})
"""Kinds whose inputs are different: a row of one is compared with those of the other."""
SPATIAL: frozenset[str] = frozenset({"match_ranges"})
"""Kinds whose keys are the cells of a grid."""
_INPUTS: Mapping[str, tuple[int, int]] = {"source": (0, 0), "join": (2, 2), "match_ranges": (2, 2), "union": (2, 1024)}
"""Least and largest number of inputs where it is not one."""


@dataclass(frozen=True)
class Operator:
    """A vertex of the graph: a kind, its parameters as plain data, and the operators that feed it."""

    kind: OperatorKind
    parameters: Mapping[str, Any]
    inputs: tuple[OperatorId, ...] = ()

    def __post_init__(self) -> None:
        """Reject an unknown kind."""
        if self.kind not in OPERATOR_KINDS:
            raise GraphError(f"operator must be one of {', '.join(OPERATOR_KINDS)}; got {self.kind!r}")

    def __repr__(self) -> str:
        """Kind and id; the parameters are in `text`."""
        return f"Operator({self.kind} {self.id})"

    @cached_property
    def text(self) -> str:
        """Canonical text of what the operator does: equal for operators that do the same, with any inputs."""
        return json.dumps([self.kind, self.parameters], separators=(",", ":"))

    @cached_property
    def id(self) -> OperatorId:
        """Twelve hexadecimal digits that depend on the operator, its columns in order and its inputs alone."""
        text = json.dumps([self.kind, self.parameters, self.inputs], separators=(",", ":"))
        return OperatorId(hashlib.sha256(text.encode()).hexdigest()[:12])

    @property
    def groups(self) -> int:
        """How many key groups, and so instances, the operator has."""
        return int(self.parameters.get("groups", 1))

    @property
    def grid(self) -> tuple[int, int] | None:
        """Columns and rows of the grid whose cells are the operator's keys; None if it is not spatial."""
        if self.kind not in SPATIAL:
            return None
        columns, rows = self.parameters["grid"]["cells"]
        return columns, rows

    @property
    def instances(self) -> Iterator[InstanceId]:
        """The operator's instances."""
        return (InstanceId(f"{self.id}/{group}") for group in range(self.groups))


@dataclass(frozen=True)
class Query:
    """A named tree of operators from one or more sources to one sink, each operator after those that feed it."""

    name: str
    operators: tuple[Operator, ...]

    def __repr__(self) -> str:
        """The name, and the kinds of the operators."""
        return f"Query({self.name!r}: {' -> '.join(operator.kind for operator in self.operators)})"

    def __post_init__(self) -> None:
        """Reject anything but such a tree."""
        if not self.name:
            raise GraphError("a query must have a name")
        kinds = [operator.kind for operator in self.operators]
        if not kinds or kinds[-1] != "sink" or "sink" in kinds[:-1]:
            raise GraphError(f"query {self.name!r} must end in its one sink; got {' -> '.join(kinds) or 'nothing'}")
        known: dict[OperatorId, Operator] = {}
        for operator in self.operators:
            self._check_inputs(operator, known)
            known[operator.id] = operator
        used = {id_ for operator in self.operators for id_ in operator.inputs}
        if loose := [operator for operator in self.operators[:-1] if operator.id not in used]:
            raise GraphError(f"{loose[0].kind} {loose[0].id} of query {self.name!r} feeds nothing")

    def _check_inputs(self, operator: Operator, known: Mapping[OperatorId, Operator]) -> None:
        least, most = _INPUTS.get(operator.kind, (1, 1))
        if not least <= len(operator.inputs) <= most:
            wanted = f"{least}" if least == most else f"{least} or more"
            raise GraphError(
                f"{operator.kind} of query {self.name!r} must have {wanted} inputs; got {len(operator.inputs)}"
            )
        if unknown := [id_ for id_ in operator.inputs if id_ not in known]:
            raise GraphError(f"{operator.kind} of query {self.name!r} is fed by {unknown[0]}, which is not before it")
        for id_ in operator.inputs:
            if (known[id_].kind == "window") != (operator.kind == "aggregate"):
                raise GraphError(
                    f"query {self.name!r} must have an aggregate after each window and a window before each aggregate; "
                    f"got {known[id_].kind} -> {operator.kind}"
                )

    @property
    def sources(self) -> tuple[Operator, ...]:
        """Where the events come from."""
        return tuple(operator for operator in self.operators if operator.kind == "source")

    @property
    def sink(self) -> Operator:
        """Where the results go."""
        return self.operators[-1]

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams the query reads."""
        return tuple(cast(str, operator.parameters["stream"]) for operator in self.sources)

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

    def __repr__(self) -> str:
        """How many queries, and the names of the first."""
        return f"Graph({shortened(self.queries, 'queries')})"

    def __post_init__(self) -> None:
        """Reject streams or tables that two queries declare differently."""
        streams: dict[str, Mapping[str, Any]] = {}
        tables: dict[str, Query] = {}
        for name, query in self.queries.items():
            for source in query.sources:
                stream = source.parameters["stream"]
                declared = streams.setdefault(stream, source.parameters)
                if declared != source.parameters:
                    raise GraphError(
                        f"query {name!r} declares stream {stream!r} differently from the other queries; "
                        f"expected {json.dumps(declared)}, got {json.dumps(source.parameters)}"
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
    def spatial_operators(self) -> tuple[Operator, ...]:
        """The operators whose keys are the cells of a grid."""
        return tuple(operator for operator in self.operators.values() if operator.grid)

    @cached_property
    def streams(self) -> Mapping[str, Operator]:
        """Source operators by stream name."""
        sources = (source for query in self.queries.values() for source in query.sources)
        return {source.parameters["stream"]: source for source in sources}

    def data(self) -> dict[str, Any]:
        """The graph as plain data: every operator once, every query as a list of operator ids."""
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
        plain = data["operators"].items()
        operators = {id_: Operator(each["kind"], each["parameters"], tuple(each["inputs"])) for id_, each in plain}
        return cls.from_parts(operators, data["queries"])

    @classmethod
    def from_parts(
        cls, operators: Mapping[OperatorId, Operator], queries: Mapping[str, Sequence[OperatorId]]
    ) -> "Graph":
        """Rebuild a graph from its operators and the ids of those of each query, which must be their own."""
        for id_, operator in operators.items():
            if operator.id != id_:
                raise GraphError(f"operator {id_} is not what its id says; its content gives {operator.id}")
        for name, ids in queries.items():
            if unknown := [id_ for id_ in ids if id_ not in operators]:
                raise GraphError(f"query {name!r} names operator {unknown[0]}, which is not listed")
        return cls({name: Query(name, tuple(operators[id_] for id_ in ids)) for name, ids in queries.items()})

    @cached_property
    def digest(self) -> str:
        """A short text that two graphs share only if they are the same."""
        text = json.dumps(self.data(), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def shortened(names: Iterable[str], what: str, most: int = 5) -> str:
    """A number of things and the names of the first, for texts that people read.

    >>> shortened(["a", "b"], "queries"), shortened(map(str, range(99)), "queries")
    ('2 queries: a, b', '99 queries: 0, 1, 2, 3, 4, ...')
    """
    listed = list(names)
    more = ", ..." if len(listed) > most else ""
    return f"{len(listed)} {what}: {', '.join(listed[:most])}{more}"
