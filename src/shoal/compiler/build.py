"""Builds the steps and kernels of operators, which are plain data."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.compiler.cover import Cover
from shoal.compiler.steps import Assign, Attach, Filter, Retime, Select, Step
from shoal.errors import GraphError
from shoal.kernels.aggregate.panes import PaneShape
from shoal.kernels.aggregate.windowed import AggregateKernel
from shoal.kernels.count_window import CountWindowKernel
from shoal.kernels.deduplicate import DeduplicateKernel
from shoal.kernels.geofence import GeofenceKernel
from shoal.kernels.join import JoinKernel
from shoal.kernels.kernel import Kernel
from shoal.kernels.pattern.match import MatchKernel
from shoal.kernels.rank import RankKernel
from shoal.kernels.session_window import SessionKernel
from shoal.kernels.spatial.range_match import RangeMatchKernel
from shoal.kernels.versions import VersionsKernel
from shoal.language.python.flow import closed_by_rows
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.expression import Binary, Expression, from_data
from shoal.model.query.graph import Operator
from shoal.model.query.pattern import Measure, pattern
from shoal.model.query.window import Session, Window, window_from_data
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape


def steps_of(operators: Sequence[Operator]) -> Iterator[Step]:
    """The steps of operators without state."""
    for operator in operators:
        parameters = operator.parameters
        if operator.kind == "filter":
            yield from (Filter(condition) for condition in _conjuncts(from_data(parameters["condition"])))
        elif operator.kind == "select":
            yield Select(tuple((name, from_data(data)) for name, data in parameters["columns"]))
        elif operator.kind == "lookup":
            columns = tuple((name, type_, tuple(values)) for name, (type_, values) in parameters["columns"].items())
            defaults = tuple(parameters["defaults"].items()) if parameters["how"] == "left" else None
            yield Attach(parameters["on"], tuple(parameters["keys"]), columns, defaults)
        elif operator.kind == "assign":
            yield Assign(Window(parameters["size_us"], parameters["slide_us"]), parameters["time"])
        elif operator.kind == "retime":
            yield Retime(parameters["column"])
        elif operator.kind == "cover":
            yield Cover.of(parameters)


def kernel_of(operator: Operator, window: Operator | None, constant: str, *, by_instance: bool) -> Kernel:
    """The kernel of an operator with state.

    `constant`: a key that is the same for every row of an instance. `by_instance`: whether several instances may hold
    the same keys, so that state must be kept apart by instance.
    """
    parameters = operator.parameters
    if operator.kind == "aggregate" and window is not None:
        return _aggregate(parameters, window.parameters, constant, by_instance=by_instance)
    if operator.kind == "join":
        return _join(parameters)
    if operator.kind == "match_ranges":
        return _match_ranges(parameters)
    keys, names, time = tuple(parameters["keys"]), tuple(parameters["types"]), parameters["time"]
    if operator.kind == "rank":
        by = tuple((name, descending) for name, descending in parameters["by"])
        return RankKernel(keys, by, parameters["k"], parameters["ties"], parameters["column"], names, time)
    if operator.kind == "deduplicate":
        return DeduplicateKernel(keys, parameters["within_us"], names, time)
    if operator.kind == "versions":
        action, (since, until) = parameters["action"], parameters["life"]
        return VersionsKernel(keys, action, parameters["deleted"], (since, until), names, time)
    if operator.kind == "geofence":
        return GeofenceKernel(keys, parameters["fence"], parameters["dwell_us"], names, time)
    if operator.kind == "match":
        return MatchKernel(
            keys,
            pattern(parameters["pattern"]),
            tuple((variable, from_data(data)) for variable, data in parameters["define"].items()),
            tuple((name, Measure(*data)) for name, data in parameters["measures"].items()),
            parameters["within_us"],
            parameters["after"],
            parameters["selection"],
            names,
            time,
        )
    raise GraphError(f"operator {operator.id} of kind {operator.kind!r} keeps no state")


def _aggregate(
    parameters: Mapping[str, Any], window_data: Mapping[str, Any], constant: str, *, by_instance: bool
) -> Kernel:
    keys = tuple(key for key in parameters["keys"] if key != constant)
    aggregates = tuple((name, Aggregate(*plain)) for name, plain in parameters["aggregates"].items())
    used = {*keys, *(aggregate.column for _, aggregate in aggregates if aggregate.column)}
    types = tuple((name, type_) for name, type_ in parameters["types"].items() if name in used)
    window, time = window_from_data(window_data), parameters["time"]
    nullable = tuple(parameters.get("nullable", ()))
    if isinstance(window, Session):
        return SessionKernel(keys, window.gap_us, aggregates, types, time, nullable)
    if closed_by_rows(window):
        names = tuple(name for name in parameters["types"])
        return CountWindowKernel(keys, window, aggregates, names, tuple(parameters["types"].items()), time, nullable)
    if not isinstance(window, Window):
        raise GraphError(f"window {window} has no kernel")
    return AggregateKernel(PaneShape(keys, window, aggregates, types, by_instance, nullable), time)


def _join(parameters: Mapping[str, Any]) -> Kernel:
    left, right = (tuple(columns.items()) for columns in parameters["columns"])
    ours, theirs = (tuple(types.items()) for types in parameters["types"])
    band, where = parameters["band"], parameters["where"]
    return JoinKernel(
        tuple((pair[0], pair[1]) for pair in parameters["keys"]),
        parameters["within_us"][0],
        parameters["within_us"][1],
        None if band is None else tuple(band),
        None if where is None else from_data(where),
        parameters["how"],
        (left, right),
        tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in parameters["defaults"].items()),
        (ours, theirs),
        tuple(parameters["time"]),
    )


def _match_ranges(parameters: Mapping[str, Any]) -> Kernel:
    x, y = parameters["point"]
    points, ranges = parameters["keys"]
    ours, theirs = (tuple(columns.items()) for columns in parameters["columns"])
    where = parameters["where"]
    return RangeMatchKernel(
        Grid.from_data(parameters["grid"]),
        (x, y),
        Shape.from_data(parameters["shape"]),
        (points, ranges),
        tuple(parameters["id"]),
        tuple(parameters["life"]),
        None if where is None else from_data(where),
        (ours, theirs),
        tuple(parameters["time"]),
    )


def partition_of(operator: Operator, port: int) -> tuple[str, ...]:
    """The columns by which rows are spread over an operator's key groups."""
    if operator.groups == 1:
        return ()
    if operator.kind == "join":
        return tuple(pair[port] for pair in operator.parameters["keys"])
    if operator.kind == "match_ranges":
        return (operator.parameters["keys"][port],)
    return tuple(operator.parameters["partition"])


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    else:
        yield condition
