"""Replication: every worker has all ranges, and points are spread over the workers.

It is what partitions of the plane are compared with: no hotspot can form, and every range is stored and changed on
every worker. `match_ranges` gets a grid of one cell for each worker. The operators that cover its inputs then give
every range all cells, and a point the cell of a hash of its coordinates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shoal.errors import ConfigError
from shoal.model.query.graph import SPATIAL, Graph, Operator, OperatorId, Query

REPLICATED = "replicated"
PASSING = frozenset({"select", "filter", "assign", "lookup"})
"""Kinds that keep the cells of rows."""


def replicated(graph: Graph, copies: int) -> Graph:
    """The graph with all ranges of spatial operators in each of their instances; results are the same."""
    return Graph({name: _replicated(query, copies) for name, query in graph.queries.items()})


def _replicated(query: Query, copies: int) -> Query:
    rewriting = _Rewriting(query, copies)
    rewriting.kept(query.sink.id)
    return Query(query.name, tuple(rewriting.made.values()))


@dataclass
class _Rewriting:
    """The operators of a query, inputs first.

    What leads to a spatial operator is copied, since others may read the same cells: they get them as they are.
    """

    query: Query
    copies: int
    made: dict[OperatorId, Operator] = field(default_factory=dict)

    def kept(self, id_: OperatorId) -> OperatorId:
        """An operator as it is, behind those that feed it; returns its new id."""
        operator = self._by_id[id_]
        if operator.kind not in SPATIAL:
            return self._add(operator, operator.parameters, [self.kept(each) for each in operator.inputs])
        grid = {**operator.parameters["grid"], "cells": [self.copies, 1]}
        parameters = {**operator.parameters, "grid": grid, "groups": self.copies}
        return self._add(operator, parameters, [self._copied(each) for each in operator.inputs])

    def _copied(self, id_: OperatorId) -> OperatorId:
        """The cover that has given the rows of an input their cells, with copies, and what follows it."""
        operator = self._by_id[id_]
        if operator.kind in PASSING:
            return self._add(operator, operator.parameters, [self._copied(operator.inputs[0])])
        if operator.kind != "cover":
            raise ConfigError(
                f"policy {REPLICATED} needs the cover of what query {self.query.name!r} matches; "
                f"got {operator.kind} before it"
            )
        return self._add(operator, {**operator.parameters, "copies": self.copies}, [self.kept(operator.inputs[0])])

    def _add(self, operator: Operator, parameters: Mapping[str, Any], inputs: Sequence[OperatorId]) -> OperatorId:
        added = Operator(operator.kind, parameters, tuple(inputs))
        self.made.setdefault(added.id, added)
        return added.id

    @cached_property
    def _by_id(self) -> Mapping[OperatorId, Operator]:
        return {operator.id: operator for operator in self.query.operators}
