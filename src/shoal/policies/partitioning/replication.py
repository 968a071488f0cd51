"""Replication: every worker has all ranges, and points are spread over the workers.

It is what partitions of the plane are compared with: no hotspot can form, and every range is stored and changed on
every worker. `match_ranges` gets a grid of one cell for each worker. The operators that cover its inputs then give
every range all cells, and a point the cell of a hash of its coordinates.
"""

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
    spatial = [operator for operator in query.operators if operator.kind in SPATIAL]
    covers = {_cover(query, id_) for operator in spatial for id_ in operator.inputs}
    made: dict[OperatorId, Operator] = {}
    for operator in query.operators:
        inputs = tuple(made[id_].id for id_ in operator.inputs)
        parameters: dict[str, Any] = dict(operator.parameters)
        if operator.id in covers:
            parameters["copies"] = copies
        if operator.kind in SPATIAL:
            parameters["grid"] = {**parameters["grid"], "cells": [copies, 1]}
            parameters["groups"] = copies
        made[operator.id] = Operator(operator.kind, parameters, inputs)
    return Query(query.name, tuple(made.values()))


def _cover(query: Query, id_: OperatorId) -> OperatorId:
    """The operator that has given the rows of an input their cells."""
    by_id = {operator.id: operator for operator in query.operators}
    operator = by_id[id_]
    while operator.kind in PASSING:
        operator = by_id[operator.inputs[0]]
    if operator.kind != "cover":
        raise ConfigError(
            f"policy {REPLICATED} needs the cover of what query {query.name!r} matches; got {operator.kind} before it"
        )
    return operator.id
