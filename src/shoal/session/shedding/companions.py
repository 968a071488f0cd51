"""Companion columns: queries that also compute what intervals of their sums and means need."""

from collections.abc import Sequence
from dataclasses import replace

from shoal.model.control.shedding import Shedding
from shoal.model.query.graph import Graph, Operator, OperatorId, Query
from shoal.session.shedding.bounds import ColumnBound, bounds

ROWS, VARIANCE = "rows", "variance"
Extra = dict[str, tuple[str, str]]
"""New result columns: the kind of the aggregate, and its column."""


def with_companions(shedding: Shedding, graph: Graph) -> Graph:
    """The graph with the number and the variance of values beside every sum and mean, in columns of their own.

    `mean(speed)` in column `v` gets `v_rows` and `v_variance`. All queries of a table get the same columns, or none.
    """
    wanted = {each.query: _extra(each.columns, graph.queries[each.query]) for each in bounds(shedding, graph)}
    by_table: dict[str, list[Extra]] = {}
    for name, query in graph.queries.items():
        by_table.setdefault(query.table, []).append(wanted[name])
    alike = {table for table, extras in by_table.items() if all(each == extras[0] for each in extras)}
    return Graph(
        {
            name: _with(query, wanted[name]) if query.table in alike and wanted[name] else query
            for name, query in graph.queries.items()
        }
    )


def _extra(columns: Sequence[ColumnBound], query: Query) -> Extra:
    """The columns that the intervals of a query's results lack, unless one of their names is taken."""
    found: Extra = {}
    for each in columns:
        if each.bound == "none" and each.kind in ("sum", "mean"):
            of = each.text.partition("(")[2].removesuffix(")")
            if ("count", of) not in found.values():
                found |= {f"{each.column}_{ROWS}": ("count", of), f"{each.column}_{VARIANCE}": ("variance", of)}
    taken = {*query.columns, *(name for operator in query.operators for name in _names(operator))}
    return {} if taken.intersection(found) else found


def _names(operator: Operator) -> Sequence[str]:
    """The columns that an operator has or makes."""
    return [*operator.parameters.get("aggregates", {}), *operator.parameters.get("types", {})]


def _with(query: Query, extra: Extra) -> Query:
    """A query with more aggregates and result columns."""
    changed: dict[OperatorId, OperatorId] = {}
    operators = []
    for operator in query.operators:
        behind = any(id_ in changed for id_ in operator.inputs)
        made = _more(operator, extra) if behind or operator.kind == "aggregate" else operator
        made = replace(made, inputs=tuple(changed.get(id_, id_) for id_ in operator.inputs))
        if made.id != operator.id:
            changed[operator.id] = made.id
        operators.append(made)
    return Query(query.name, tuple(operators))


def _more(operator: Operator, extra: Extra) -> Operator:
    parameters = dict(operator.parameters)
    if operator.kind == "aggregate":
        parameters["aggregates"] = {**parameters["aggregates"], **{n: [kind, of, 0] for n, (kind, of) in extra.items()}}
    elif operator.kind == "select":
        parameters["columns"] = [*parameters["columns"], *([name, ["col", name]] for name in extra)]
    elif operator.kind == "sink":
        types = {name: "int64" if kind == "count" else "float64" for name, (kind, _) in extra.items()}
        parameters["columns"] = {**parameters["columns"], **types}
    return replace(operator, parameters=parameters)
