"""Replay: from an operator's parameters back to the call of `Flow` that makes it, which checks them on the way.

What follows from the operators before (types, times, columns of a sink) may be left out; given, it must be right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import Any, cast

import pyarrow as pa

from shoal.errors import GraphError
from shoal.language.python.fences import fence_events
from shoal.language.python.flow import Flow
from shoal.language.python.spatial import RangeTerms, range_match
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import Aggregate, OwnAggregate
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import Expression, from_data
from shoal.model.query.functions import Function
from shoal.model.query.graph import Query
from shoal.model.query.window import Window, window_from_data
from shoal.model.spatial.grid import Grid
from shoal.model.spatial.shape import Shape, point

Data = Mapping[str, Any]
Named = Mapping[str, Function | OwnAggregate]
"""The functions and aggregates that plain data may use by name."""
_KEYED = ("keys", "types", "time", "partition", "groups")
_WINDOW = ("size_us", "slide_us", "clock", "on", "gap_us", "rows", "jump", "partial")
_ARROW: Mapping[str, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Kind:
    """What an operator's parameters are: those it needs, those it may have, and those that follow from its inputs."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    inputs: tuple[int, int] = (1, 1)

    @property
    def known(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.needs, *(name for name in (*self.may, *self.follow) if name not in self.needs))


KINDS: Mapping[str, Kind] = {
    "source": Kind(("stream",), ("schema", "time", "lateness_us", "max_ahead_us", "idle_us"), inputs=(0, 0)),
    "filter": Kind(("condition",)),
    "select": Kind(("columns",)),
    "lookup": Kind(("on", "keys", "columns"), ("how", "defaults")),
    "assign": Kind(("size_us", "slide_us"), follow=("time",)),
    "retime": Kind(("column",)),
    "union": Kind(inputs=(2, 1024)),
    "window": Kind((), _WINDOW),
    "aggregate": Kind(("aggregates",), (*_KEYED, "nullable"), ("types", "time", "nullable")),
    "join": Kind(
        ("within_us",),
        ("keys", "band", "where", "how", "defaults", "groups"),
        ("columns", "types", "time"),
        inputs=(2, 2),
    ),
    "rank": Kind(("by", "k"), ("ties", "column", *_KEYED), ("types", "time")),
    "deduplicate": Kind(("within_us", "keys"), _KEYED, ("types", "time")),
    "match": Kind(("pattern", "measures", "within_us"), ("define", "after", "selection", *_KEYED), ("types", "time")),
    "cover": Kind(("grid", "shape"), ("column",)),
    "versions": Kind(("keys",), ("action", "deleted", "life", *_KEYED), ("types", "time")),
    "match_ranges": Kind(
        ("grid", "point", "shape", "keys"),
        ("id", "life", "where", "groups"),
        ("columns", "types", "time"),
        inputs=(2, 2),
    ),
    "geofence": Kind(("keys", "fence"), ("dwell_us", *_KEYED), ("types", "time")),
    "sink": Kind((), ("table", "utility"), ("query", "columns")),
}


def expression(data: Any, functions: Named) -> Expression:
    """An expression from plain lists; `[udf, NAME, ...]` takes a function by its name."""
    return from_data(_with_code(data, functions))


def _with_code(data: Any, functions: Named) -> Any:
    if not isinstance(data, list) or data[:1] == ["lit"]:
        return data
    if data[:1] == [None]:  # YAML's null
        data = ["null", *data[1:]]
    inner = [_with_code(each, functions) for each in data]
    if data[:1] == ["udf"] and len(data) >= 2 and not (len(data) >= 4 and isinstance(data[2], str)):
        function = functions.get(data[1]) if isinstance(data[1], str) else None
        if not isinstance(function, Function):
            known = [name for name, each in functions.items() if isinstance(each, Function)]
            raise GraphError(f"there is no function {data[1]!r}; there are {', '.join(known) or 'none'}")
        return ["udf", function.name, function.code, function.type, *inner[2:]]
    return inner


def _with_aggregates(data: Data, functions: Named) -> Data:
    """Parameters in which `[user, COLUMN, NAME]` or `[user, COLUMN, NAME, TYPE]` takes an aggregate by its name."""
    made: dict[str, Any] = {}
    for name, plain in dict(data["aggregates"]).items():
        match plain:
            case ["user", str(column), str(called), *type_] if len(type_) <= 1:
                own = functions.get(called)
                if not isinstance(own, OwnAggregate):
                    known = [name for name, each in functions.items() if isinstance(each, OwnAggregate)]
                    raise GraphError(f"there is no aggregate {called!r}; there are {', '.join(known) or 'none'}")
                made[name] = own(column, *type_).data()
            case _:
                made[name] = plain
    return {**data, "aggregates": made}


def replayed(kind: str, flows: Sequence[Flow], data: Data, functions: Named) -> Flow:
    """The flow with one more operator, except sources and sinks."""
    if kind == "aggregate":
        data = _with_aggregates(data, functions)
    return _CALLS[kind](flows, data, lambda plain: expression(plain, functions))


def source(data: Data) -> Stream:
    """The stream of a source whose parameters are all there."""
    ahead = data.get("max_ahead_us", 86_400 * MICROSECONDS)
    return Stream(
        data["stream"],
        data["schema"],
        time=data["time"],
        lateness_s=_seconds(data.get("lateness_us", 0)),
        max_ahead_s=None if ahead is None else _seconds(ahead),
        idle_s=None if data.get("idle_us") is None else _seconds(data["idle_us"]),
    )


def sink(flow: Flow, data: Data, query: str) -> Query:
    """The query that ends in a sink."""
    utility = data.get("utility")
    return flow.sink(
        query, table=data.get("table"), utility=from_data(utility) if isinstance(utility, list) else utility
    )


Make = Callable[[Any], Expression]


def _seconds(us: Any) -> float:
    """Microseconds as seconds without rounding: a float would lose some of a century."""
    if type(us) is not int:
        raise GraphError(f"a duration must be a whole number of microseconds; got {us!r}")
    return cast(float, Fraction(us, MICROSECONDS))


def _keyed(flow: Flow, data: Data) -> Flow:
    if partition := data.get("partition"):
        flow = flow.partition_by(*partition, groups=data.get("groups", 1))
    elif data.get("groups", 1) != 1:
        raise GraphError("groups needs a partition, the columns that decide the key group")
    return flow.key_by(*data.get("keys", ()))


def _select(flows: Sequence[Flow], data: Data, make: Make) -> Flow:
    """Columns that are kept come first in a call of `select`, and the event time must be among them."""
    (flow,) = flows
    columns: dict[str, Any] = dict(data["columns"])
    kept = list(takewhile(lambda name: columns[name] == ["col", name], columns))
    if flow.time in columns:
        kept = list(columns)[: max(len(kept), list(columns).index(flow.time) + 1)]
    made = {n: make(plain) for n, plain in columns.items() if n not in kept or plain != ["col", n]}
    return flow.select(*kept, **made)


def _lookup(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    (flow,) = flows
    on, columns = data["on"], data["columns"]
    key = next(name for name in (f"key{'_' * n}" for n in range(len(columns) + 1)) if name not in columns)
    type_ = flow.schema.type_of(on) if on in flow.schema else "string"
    table = {key: pa.array(data["keys"], _ARROW[type_] if type_ in ("int64", "string") else None)}
    table |= {name: _array(*typed) for name, typed in columns.items()}
    return flow.lookup_join(
        pa.table(table), on={on: key}, how=data.get("how", "inner"), defaults=data.get("defaults", {})
    )


def _array(type_: str, values: Sequence[Any]) -> pa.Array:
    if type_ not in _ARROW:
        raise GraphError(f"type of a column must be one of {', '.join(_ARROW)}; got {type_!r}")
    if type_ == "timestamp":
        return pa.array(values, pa.int64()).cast(_ARROW[type_])
    return pa.array(values, _ARROW[type_])


def _join(flows: Sequence[Flow], data: Data, make: Make) -> Flow:
    left, right = flows
    suffix = _suffix(data, "_right")
    least, most = data["within_us"]
    band, where = data.get("band"), data.get("where")
    return left.join(
        right,
        on=dict(data.get("keys", ())),
        within_s=(_seconds(least), _seconds(most)),
        band=None if band is None else tuple(band),
        where=None if where is None else make(where),
        how=data.get("how", "inner"),
        defaults=data.get("defaults", {}),
        suffix=suffix,
        groups=data.get("groups", 1),
    )


def _suffix(data: Data, usual: str) -> str:
    """What was appended to the names of the right side's columns."""
    for name, column in data["columns"][1].items() if "columns" in data else ():
        if name != column:
            return str(name).removeprefix(column)
    return usual


def _cover(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    return flows[0].cover(
        Grid.from_data(data["grid"]), Shape.from_data(data["shape"]), column=data.get("column", "cell")
    )


def _versions(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    since, until = data.get("life", ("since", "until"))
    deleted = data.get("deleted", "delete")
    return _keyed(flows[0], data).versions(action=data.get("action") or None, deleted=deleted, since=since, until=until)


def _match_ranges(flows: Sequence[Flow], data: Data, make: Make) -> Flow:
    where = data.get("where")
    x, y = data["point"]
    points, ranges = data["keys"]
    terms = RangeTerms(
        Grid.from_data(data["grid"]),
        point(x, y),
        Shape.from_data(data["shape"]),
        None if where is None else make(where),
        _suffix(data, "_range"),
        data.get("groups", 1),
        tuple(data.get("id", ())),
    )
    return range_match(flows[0], flows[1], terms, (points, ranges), tuple(data.get("life", ())))


def _match(flows: Sequence[Flow], data: Data, make: Make) -> Flow:
    return _keyed(flows[0], data).match(
        data["pattern"],
        within_s=_seconds(data["within_us"]),
        measures={name: _measure(*plain) for name, plain in data["measures"].items()},
        define={name: make(plain) for name, plain in data.get("define", {}).items()},
        after=data.get("after", "past_last_row"),
        selection=data.get("selection", "strict"),
    )


def _measure(kind: str, variable: str = "", column: str = "") -> str:
    if kind == "count" and not column:
        return f"count({variable or '*'})"
    return f"{kind}({variable}.{column})" if variable else f"{kind}({column})"


def _assign(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    return flows[0].assign(cast(Window, window_from_data(data)))


def _aggregate(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    aggregates = {name: Aggregate(*plain) for name, plain in data["aggregates"].items()}
    return _keyed(flows[0], data).aggregate(**aggregates)


def _rank(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    by = [(name, descending) for name, descending in data["by"]]
    return _keyed(flows[0], data).rank(by, data["k"], ties=data.get("ties", False), column=data.get("column", "rank"))


def _deduplicate(flows: Sequence[Flow], data: Data, _: Make) -> Flow:
    return _keyed(flows[0], data).deduplicate(_seconds(data["within_us"]))


_CALLS: Mapping[str, Callable[[Sequence[Flow], Data, Make], Flow]] = {
    "filter": lambda flows, data, make: flows[0].filter(make(data["condition"])),
    "select": _select,
    "lookup": _lookup,
    "assign": _assign,
    "retime": lambda flows, data, _: flows[0].retime(data["column"]),
    "union": lambda flows, _data, _make: flows[0].union(*flows[1:]),
    "window": lambda flows, data, _: flows[0].window(window_from_data(data)),
    "aggregate": _aggregate,
    "join": _join,
    "rank": _rank,
    "deduplicate": _deduplicate,
    "match": _match,
    "cover": _cover,
    "versions": _versions,
    "geofence": lambda flows, data, _: fence_events(_keyed(flows[0], data), data["fence"], data.get("dwell_us")),
    "match_ranges": _match_ranges,
}
