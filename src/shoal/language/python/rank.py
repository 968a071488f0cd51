"""Ranking in queries: the operator that keeps the first rows of every window."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from shoal.errors import GraphError
from shoal.model.query.expression import col
from shoal.model.query.schema import Field

if TYPE_CHECKING:
    from shoal.language.python.flow import Flow


def ranked(flow: "Flow", by: Any, k: int, *, ties: bool, column: str) -> "Flow":
    """A flow followed by a rank operator."""
    flow.not_inside_window("rank")
    flow.check_time("rank")
    order = _order(flow, by)
    for name, _ in order:
        if col(name).type_in(flow.schema, flow.location("rank")).startswith("list"):
            raise GraphError(f"{flow.location('rank')} cannot order by {name!r}, which holds lists")
    if type(k) is not int or k < 1 or not order:
        raise GraphError(f"{flow.location('rank')} needs a column to order by and a positive k; got k {k}")
    schema = flow.made_of((*flow.schema.fields, Field(column, "int64", nullable=False)), "rank")
    parameters = {"by": order, "k": k, "ties": ties, "column": column, **flow.grouped()}
    return flow.then("rank", parameters, schema).fresh()


def _order(flow: "Flow", by: Any) -> list[list[Any]]:
    """What to order by, as pairs of a column and whether the largest comes first."""
    if isinstance(by, str):
        return [[by, True]]
    pairs = list(by) if isinstance(by, Iterable) else [by]
    if not all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in pairs):
        raise GraphError(
            f"{flow.location('rank')} orders by a column, or by pairs of a column and whether the largest comes first; "
            f"got {by!r}"
        )
    return [[flow.column_name(name, "rank"), bool(descending)] for name, descending in pairs]
