"""An oracle for whole graphs: every operator row by row in plain Python, without any of Shoal's kernels.

Batch semantics: all input is there, nothing is late, every window closes at the end. Times are microseconds.
Every row carries its event time under `#time`, whatever columns a select keeps.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.naive_expressions import Row, order_of, value_of
from tests.naive_match import matches
from tests.naive_spatial import cover, geofence, match_ranges, versions
from tests.naive_windows import TIME, aggregated, by_key, ends_of, in_order

from shoal.model.query.graph import Graph, Operator, OperatorId
from shoal.model.query.schema import Schema

Rows = Sequence[Row]


def interpret(graph: Graph, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The result rows of every table, in no particular order, each with its `query`, for the rows of every stream."""
    tables: dict[str, list[dict[str, Any]]] = {query.table: [] for query in graph.queries.values()}
    made: dict[OperatorId, Rows] = {}
    for id_, operator in graph.operators.items():
        parameters = operator.parameters
        if operator.kind == "source":
            made[id_] = _source(parameters, rows.get(parameters["stream"], ()))
        elif operator.kind == "aggregate":
            window = graph.operators[operator.inputs[0]]
            made[id_] = aggregated(made[window.id], window.parameters, parameters)
        elif operator.kind == "sink":
            tables[parameters["table"]] += _sink(parameters, made[operator.inputs[0]])
        else:
            made[id_] = _OPERATORS[operator.kind](operator, *(made[input_] for input_ in operator.inputs))
    return tables


def _source(parameters: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Rows:
    floats = [name for name, type_ in Schema.of(parameters["schema"]).types.items() if type_ == "float64"]
    return [
        {
            **{name: row[name] for name in parameters["schema"]},
            **{name: None if row[name] is None else float(row[name]) for name in floats},
            TIME: row[parameters["time"]],
        }
        for row in rows
    ]


def _sink(parameters: Mapping[str, Any], rows: Rows) -> list[dict[str, Any]]:
    """The columns of a result; a row does not know that an integer beside a null is one of a column of floats."""
    floats = {name for name, type_ in parameters["columns"].items() if type_ == "float64"}
    results = []
    for row in rows:
        result = {name: row[name] for name in parameters["columns"]}
        result |= {name: float(result[name]) for name in floats if result[name] is not None}
        results.append({**result, "query": parameters["query"]})
    return results


def _filter(operator: Operator, rows: Rows) -> Rows:
    return [row for row in rows if value_of(operator.parameters["condition"], row)]


def _select(operator: Operator, rows: Rows) -> Rows:
    columns = operator.parameters["columns"]
    return [{**{name: value_of(expression, row) for name, expression in columns}, TIME: row[TIME]} for row in rows]


def _lookup(operator: Operator, rows: Rows) -> Rows:
    parameters = operator.parameters
    columns = parameters["columns"]
    table = {
        key: {name: values[position] for name, (_, values) in columns.items()}
        for position, key in enumerate(parameters["keys"])
    }
    if parameters["how"] == "inner":
        return [{**row, **table[row[parameters["on"]]]} for row in rows if row[parameters["on"]] in table]
    missing = dict.fromkeys(columns) | parameters["defaults"]
    return [
        {**row, **table.get(row[parameters["on"]], missing), "has_right": row[parameters["on"]] in table}
        for row in rows
    ]


def _union(operator: Operator, *inputs: Rows) -> Rows:
    return [row for rows in inputs for row in rows]


def _retime(operator: Operator, rows: Rows) -> Rows:
    return [{**row, TIME: row[operator.parameters["column"]]} for row in rows]


def _assign(operator: Operator, rows: Rows) -> Rows:
    size, slide = operator.parameters["size_us"], operator.parameters["slide_us"]
    return [
        {**row, "window_start": end - size, "window_end": end, TIME: end - 1}
        for row in rows
        for end in ends_of(row[TIME], size, slide)
    ]


def _window(operator: Operator, rows: Rows) -> Rows:
    return rows


def _rank(operator: Operator, rows: Rows) -> Rows:
    parameters = operator.parameters
    return [
        row
        for group in by_key(in_order(rows, parameters["types"]), (TIME, *parameters["keys"])).values()
        for row in _ranked(group, parameters)
    ]


def _ranked(group: Rows, parameters: Mapping[str, Any]) -> Iterator[Row]:
    """The first rows of one group, which comes in the order of its columns; nulls come last."""
    ordered = list(group)
    for name, descending in reversed(parameters["by"]):
        ordered.sort(key=lambda row, name=name: order_of(row[name]), reverse=descending)  # type: ignore[misc]
        ordered.sort(key=lambda row, name=name: row[name] is None)  # type: ignore[misc]
    rank, last = 0, None
    for position, row in enumerate(ordered, start=1):
        here = [order_of(row[name]) for name, _ in parameters["by"]]
        if not parameters["ties"] or here != last:
            rank, last = position, here
        if rank <= parameters["k"]:
            yield {**row, parameters["column"]: rank}


def _deduplicate(operator: Operator, rows: Rows) -> Rows:
    parameters = operator.parameters
    kept: dict[tuple[Any, ...], int] = {}
    results = []
    for row in in_order(rows, parameters["types"]):
        key = tuple(row[name] for name in parameters["keys"])
        if key not in kept or row[TIME] - kept[key] >= parameters["within_us"]:
            kept[key] = row[TIME]
            results.append(row)
    return results


def _match(operator: Operator, rows: Rows) -> Rows:
    return matches(rows, operator.parameters)


def _join(operator: Operator, left: Rows, right: Rows) -> Rows:
    parameters = operator.parameters
    results: list[Row] = []
    met: set[int] = set()
    for ours in left:
        partners = 0
        for position, theirs in enumerate(right):
            if _pairs(ours, theirs, parameters):
                partners += 1
                met.add(position)
                results.append(_joined(ours, theirs, parameters))
        if not partners and parameters["how"] != "inner":
            results.append(_joined(ours, None, parameters))
    if parameters["how"] == "full":
        results += [_joined(None, theirs, parameters) for position, theirs in enumerate(right) if position not in met]
    return results


def _pairs(ours: Row, theirs: Row, parameters: Mapping[str, Any]) -> bool:
    lower, upper = parameters["within_us"]
    if not lower <= theirs[TIME] - ours[TIME] <= upper:
        return False
    if any(ours[here] is None or ours[here] != theirs[there] for here, there in parameters["keys"]):
        return False
    if parameters["band"] is not None:
        here, there, least, most = parameters["band"]
        if not _in_band(ours[here], theirs[there], least, most):
            return False
    where = parameters["where"]
    return where is None or bool(value_of(where, _joined(ours, theirs, parameters)))


def _in_band(value: Any, other: Any, least: float | None, most: float | None) -> bool:
    """Whether other lies between value + least and value + most; NaN is the largest number, null is in no band."""
    if value is None or other is None:
        return False
    apart = other - value
    if not math.isnan(apart):
        return (least is None or least <= apart) and (most is None or apart <= most)
    above = least is None or order_of(other) >= order_of(value + least)
    return above and (most is None or order_of(other) <= order_of(value + most))


def _joined(ours: Row | None, theirs: Row | None, parameters: Mapping[str, Any]) -> Row:
    """Two rows as one, or one of them with defaults or nulls for the other."""
    here, there = parameters["columns"]
    defaults = {**dict.fromkeys([*here, *there]), **parameters["defaults"]}
    if theirs is not None:
        defaults |= {name: theirs[name] for name, other in parameters["keys"] if name == other}
    row = {name: defaults[name] if ours is None else ours[column] for name, column in here.items()}
    row |= {name: defaults[name] if theirs is None else theirs[column] for name, column in there.items()}
    if parameters["how"] == "full":
        row["has_left"] = ours is not None
    if parameters["how"] != "inner":
        row["has_right"] = theirs is not None
    return {**row, TIME: max(side[TIME] for side in (ours, theirs) if side is not None)}


_OPERATORS: Mapping[str, Callable[..., Rows]] = {
    "filter": _filter,
    "select": _select,
    "lookup": _lookup,
    "union": _union,
    "retime": _retime,
    "assign": _assign,
    "window": _window,
    "rank": _rank,
    "deduplicate": _deduplicate,
    "match": _match,
    "join": _join,
    "cover": cover,
    "versions": versions,
    "geofence": geofence,
    "match_ranges": match_ranges,
}
