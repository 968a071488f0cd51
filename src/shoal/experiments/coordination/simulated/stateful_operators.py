"""The operators of a query that have state, by the names and types that tasks use."""

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.model.query.graph import STATEFUL, Graph, InstanceId, OperatorId

KINDS: Mapping[str, str] = {
    "join": "join",
    "window": "aggregate",
    "groupby": "aggregate",
    "select": "aggregate",
    "cep": "match",
}
"""Types of DCEP-Sim's operators, and which operator has their state; all others have none."""


@dataclass(frozen=True)
class StatefulOperators:
    """The instances of a query with state, each with the kind of its operator, and those that read streams."""

    kinds: Mapping[InstanceId, str]
    first: tuple[InstanceId, ...]
    names: Mapping[str, str]
    """The types of the query's operators by name, as its file has them."""

    @classmethod
    def of(cls, graph: Graph, query: str, names: Mapping[str, str]) -> "StatefulOperators":
        """Those of a query of a graph."""
        operators = {operator.id: operator for operator in graph.queries[query].operators}
        kinds: dict[InstanceId, str] = {}
        first: list[InstanceId] = []
        for instance in graph.stateful_instances:
            operator = operators.get(OperatorId(instance.rpartition("/")[0]))
            if operator is None:
                continue
            kinds[instance] = operator.kind
            before = list(operator.inputs)
            while before and operators[before[-1]].kind not in STATEFUL:
                before = [*before[:-1], *operators[before[-1]].inputs]
            if not before:
                first.append(instance)
        return cls(kinds, tuple(first), names)

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """All instances."""
        return tuple(self.kinds)

    def named(self, operator: str) -> tuple[InstanceId, ...]:
        """The instances of an operator, by its name, its type or its kind; none if it has no state of its own."""
        type_ = self.names.get(operator, operator)
        kind = KINDS.get(type_, type_)
        return tuple(instance for instance, each in self.kinds.items() if each == kind)

    @property
    def known(self) -> str:
        """What `named` can be asked for."""
        found = set(self.kinds.values())
        words = [*found, *(name for name, type_ in self.names.items() if KINDS.get(type_) in found)]
        return ", ".join(sorted(dict.fromkeys(words))) or "none"
