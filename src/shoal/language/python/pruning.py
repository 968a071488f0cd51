"""Pruning: what no operator behind needs is dropped before rows are joined, deduplicated or matched.

Ranks and windows of rows are left alone: which of two rows of equal time comes first is decided by all their columns,
and decides every result. It happens for every query alone, before queries share operators. So what a query keeps, and
with it its result, does not depend on the other queries of a run.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.errors import GraphError
from shoal.language.python.flow import WINDOW_END, WINDOW_START, Flow, closed_by_rows
from shoal.language.python.join import HAS_RIGHT
from shoal.language.python.replay import replayed
from shoal.model.query.expression import from_data
from shoal.model.query.graph import Operator, OperatorId
from shoal.model.query.pattern import Measure
from shoal.model.query.schema import TIME, Schema
from shoal.model.query.window import window_from_data

Names = frozenset[str]
_PRUNED = ("join", "deduplicate", "match", "match_ranges")
"""Operators that keep whole rows, so that every column of their input costs state and exchange."""


def pruned(flow: Flow) -> Flow:
    """A flow with the same results whose operators keep only the columns that are needed behind them.

    >>> from shoal.language.python.stream import Stream
    >>> trips = Stream("trips", {"ts": "timestamp", "bike": "int64", "name": "string"}, time="ts")
    >>> flow = pruned(trips.key_by("bike").deduplicate(60).select("bike"))
    >>> [operator.kind for operator in flow.operators], list(flow.operators[2].parameters["types"])
    (['source', 'select', 'deduplicate', 'select'], ['ts', 'bike'])
    """
    needed = _needed(flow)
    rebuilt: dict[OperatorId, Flow] = {}
    for operator in flow.operators:
        inputs = [rebuilt[id_] for id_ in operator.inputs]
        if operator.kind == "union":
            inputs = _alike(inputs, needed[operator.id])
        elif operator.kind in _PRUNED:
            wanted = _reads(operator, needed[operator.id])
            inputs = [_narrow(each, wanted[port]) for port, each in enumerate(inputs)]
        rebuilt[operator.id] = _again(operator, inputs, needed[operator.id])
    last = rebuilt[flow.operators[-1].id]
    if lost := [name for name in flow.schema.names if name not in last.schema]:
        raise GraphError(f"{flow.location('sink')} lost column {lost[0]!r} to pruning; this is a defect of Shoal")
    return flow if last.operators == flow.operators else last


def _needed(flow: Flow) -> dict[OperatorId, Names]:
    """The columns of every operator's output that are needed behind it."""
    needed: dict[OperatorId, Names] = {operator.id: frozenset() for operator in flow.operators}
    needed[flow.operators[-1].id] = frozenset(flow.schema.names)
    windows = {operator.id: operator for operator in flow.operators if operator.kind == "window"}
    for operator in reversed(flow.operators):
        reads = _reads(operator, needed[operator.id])
        if operator.kind == "aggregate" and closed_by_rows(window_from_data(windows[operator.inputs[0]].parameters)):
            reads = [frozenset(operator.parameters["types"])]
        for id_, names in zip(operator.inputs, reads, strict=True):
            needed[id_] |= names
    return needed


def _again(operator: Operator, inputs: Sequence[Flow], needed: Names) -> Flow:
    """The same operator behind other ones; a select computes only what is needed."""
    if operator.kind == "source":
        time = operator.parameters["time"]
        return Flow((operator,), Schema.of(operator.parameters["schema"]).required({time}), time)
    data = dict(operator.parameters)
    if operator.kind == "select":
        kept = _kept(data["columns"], needed) | {inputs[0].time}
        data["columns"] = [[name, plain] for name, plain in data["columns"] if name in kept]
    if operator.kind == "join":
        sides = zip(data["columns"], inputs, strict=True)
        left = {name for outputs, flow in sides for name, column in outputs.items() if column in flow.schema}
        data["defaults"] = {name: value for name, value in data["defaults"].items() if name in left}
    return replayed(operator.kind, inputs, data, {})


def _narrow(flow: Flow, wanted: Names) -> Flow:
    """The flow without columns that are not wanted; event time stays."""
    names = [name for name in flow.schema.names if name in wanted or name == flow.time]
    if len(names) == len(flow.schema.names) or not names:
        return flow
    return flow.select(*names)


def _alike(flows: Sequence[Flow], wanted: Names) -> list[Flow]:
    """Flows that still have the same columns: those that are wanted, what is event time in one, and at least one."""
    common = [name for name in flows[0].schema.names if all(name in flow.schema for flow in flows)]
    every = {name for name in common if name in wanted or any(name == flow.time for flow in flows)}
    return [_narrow(flow, frozenset(every or common[:1])) for flow in flows]


def _columns(data: Any) -> Names:
    return frozenset(from_data(data).columns())


def _reads(operator: Operator, needed: Names) -> list[Names]:
    """The columns of each input that an operator needs, if some of its output's columns are needed."""
    if not operator.inputs:
        return []
    data = operator.parameters
    if operator.kind == "join":
        return _join_reads(data, needed)
    if operator.kind == "match_ranges":
        return _range_reads(data, needed)
    reads = _READS[operator.kind](data, needed)
    time = data.get("time")
    if isinstance(time, str) and time != TIME:
        reads |= {time}
    return [reads] * len(operator.inputs)


def _select_reads(data: Mapping[str, Any], needed: Names) -> Names:
    kept = _kept(data["columns"], needed)
    return frozenset().union(*(_columns(plain) for name, plain in data["columns"] if name in kept))


def _kept(columns: Sequence[Sequence[Any]], needed: Names) -> Names:
    """What a select computes: what is needed, and at least one column."""
    return needed.intersection(name for name, _ in columns) or frozenset({columns[0][0]})


def _lookup_reads(data: Mapping[str, Any], needed: Names) -> Names:
    """What the table does not add; only a left join adds `has_right`, which else is that of a join before it."""
    added = {*data["columns"], *([HAS_RIGHT] if data["how"] == "left" else [])}
    return (needed - added) | {data["on"]}


def _aggregate_reads(data: Mapping[str, Any], _: Names) -> Names:
    columns = [plain[1] for plain in data["aggregates"].values() if plain[1]]
    return frozenset([*data["keys"], *columns, *data.get("partition", ())])


def _match_reads(data: Mapping[str, Any], _: Names) -> Names:
    conditions = frozenset().union(*(_columns(plain) for plain in data["define"].values()))
    measures = [Measure(*plain).column for plain in data["measures"].values()]
    return conditions | {name for name in measures if name} | _keys(data)


def _keys(data: Mapping[str, Any]) -> Names:
    return frozenset([*data.get("keys", ()), *data.get("partition", ())])


def _join_reads(data: Mapping[str, Any], needed: Names) -> list[Names]:
    """Both sides' columns; one whose name makes the other side's get a suffix stays, or names would change."""
    if data["where"] is not None:
        needed |= _columns(data["where"])
    band = data["band"]
    reads: list[set[str]] = []
    for side, outputs in enumerate(data["columns"]):
        names = {column for name, column in outputs.items() if name in needed}
        names |= {pair[side] for pair in data["keys"]}
        names |= {band[side]} if band is not None else set()
        names |= {data["time"][side]} - {TIME}
        reads.append(names)
    reads[0] |= {column for name, column in data["columns"][1].items() if column in reads[1] and name != column}
    return [frozenset(names) for names in reads]


def _range_reads(data: Mapping[str, Any], needed: Names) -> list[Names]:
    """What is compared, and what is emitted and needed; one that gives a name of the other side its suffix stays."""
    if data["where"] is not None:
        needed |= _columns(data["where"])
    compared: list[list[str]] = [data["point"], [*data["shape"][1:], *data["id"], *data["life"]]]
    reads: list[set[str]] = []
    for side, outputs in enumerate(data["columns"]):
        names = {column for name, column in outputs.items() if name in needed}
        reads.append({*names, *compared[side], data["keys"][side], *({data["time"][side]} - {TIME})})
    reads[0] |= {column for name, column in data["columns"][1].items() if column in reads[1] and name != column}
    return [frozenset(names) for names in reads]


_READS: Mapping[str, Callable[[Mapping[str, Any], Names], Names]] = {
    "filter": lambda data, needed: needed | _columns(data["condition"]),
    "select": _select_reads,
    "lookup": _lookup_reads,
    "assign": lambda _, needed: needed - {WINDOW_START, WINDOW_END},
    "retime": lambda data, needed: needed | {data["column"]},
    "union": lambda _, needed: needed,
    "window": lambda data, needed: needed | ({data["on"]} if data.get("on") else frozenset()),
    "aggregate": _aggregate_reads,
    "rank": lambda data, _: frozenset(data["types"]),
    "deduplicate": lambda data, needed: needed | _keys(data),
    "match": _match_reads,
    "cover": lambda data, needed: (needed - {data["column"]}) | frozenset(data["shape"][1:]),
    "geofence": lambda data, _: _keys(data) | {data["fence"]},
    "versions": lambda data, needed: (needed | _keys(data) | ({data["action"]} - {""})) - {*data["life"]},
}
