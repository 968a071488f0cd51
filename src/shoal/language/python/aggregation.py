"""Aggregation in Python: what may follow a window, and the columns of its results."""

from collections.abc import Mapping

from shoal.errors import GraphError
from shoal.language.python.flow import WINDOW_END, WINDOW_START, Flow
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.schema import Field, Schema


def aggregated(flow: Flow, aggregates: Mapping[str, Aggregate]) -> Flow:
    """A flow of the aggregates of each key and window."""
    if flow.operators[-1].kind != "window":
        raise GraphError(f"{flow.location('aggregate')} must follow a window")
    if not aggregates:
        raise GraphError(f"{flow.location('aggregate')} needs at least one aggregate, e.g. n=count()")
    schema = _result_schema(flow, aggregates)
    parameters = {
        "keys": list(flow.keys),
        "aggregates": {name: aggregate.data() for name, aggregate in aggregates.items()},
        **flow.keyed(),
    }
    values = {aggregate.column for aggregate in aggregates.values()}
    if nullable := [name for name in flow.schema.nullable if name in values]:
        parameters["nullable"] = nullable
    return flow.then("aggregate", parameters, schema).fresh()


def _result_schema(flow: Flow, aggregates: Mapping[str, Aggregate]) -> Schema:
    """Keys, window end and aggregates."""
    where = flow.location("aggregate")
    found = [Field(key, flow.type_of_key(key, where), nullable=flow.schema.may_be_null(key)) for key in flow.keys]
    if "gap_us" in flow.operators[-1].parameters:
        found.append(Field(WINDOW_START, "timestamp", nullable=False))
    found.append(Field(WINDOW_END, "timestamp", nullable=False))
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise GraphError(f"{where}: {name!r} must be an aggregate like mean('speed'); got {aggregate!r}")
        aggregate.check(flow.schema, f"{where} {name!r}")
        nullable = aggregate.may_be_null(flow.schema)
        found.append(Field(name, aggregate.output_type(flow.schema), nullable=nullable))
    return flow.made_of(tuple(found), "aggregate")
