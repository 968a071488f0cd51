"""Oracles of the kernels: the results that each must emit for a whole stream.

Most use DuckDB: windows as a join with the grid of slides, sessions as gaps and islands, count windows and ranks by
`row_number`, joins as joins. The others use `tests.naive`, row by row. None shares code with the kernels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
from tests.naive import interpret

from shoal.kernels.columns.table import INSTANCE
from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.graph import Graph
from shoal.model.query.window import Rows, Session, Window

Event = Mapping[str, Any]
Result = tuple[Any, ...]
"""Instance, then the columns that the case names."""
Oracle = Callable[[Sequence[Event]], list[Result]]
TYPES = {
    "ts": "timestamp",
    "road": "int64",
    "far": "int64",
    "kind": "string",
    "toll": "bool",
    "day": "timestamp",
    "observed": "timestamp",
    "n": "int64",
    "speed": "float64",
}
"""Columns of the events of all cases."""
PORT = "#port"
"""Column with the input of the kernel that an event goes to."""
LEFT, RIGHT = "events", "others"
"""The streams of a flow, and the tables of an oracle, by port."""
_INSTANCE = f'"{INSTANCE}"'

_LIST = "list({column}) FILTER ({column} IS NOT NULL)"
_SQL: Mapping[str, str] = {
    "count": "count({column})",
    "min": "min({column})",
    "max": "max({column})",
    "sum": _LIST,
    "mean": _LIST,
    "top_k": "list({column} ORDER BY {column} DESC) FILTER ({column} IS NOT NULL)",
    "variance": _LIST,
    "stddev": _LIST,
    "count_distinct": "count(DISTINCT {column})",
    "approx_distinct": "count(DISTINCT {column})",
    "user": _LIST,
}


def _exactly(aggregate: Aggregate, value: Any) -> Any:
    """Compute an aggregate without rounding from the list of values that SQL returns."""
    if value is None:
        return [] if aggregate.kind == "top_k" else None
    if aggregate.kind == "top_k":
        return value[: aggregate.k]
    if aggregate.kind == "mean":
        return math.fsum(value) / len(value)
    if aggregate.kind == "sum":
        return math.fsum(value) if isinstance(value[0], float) else sum(value)
    if aggregate.kind in ("variance", "stddev"):
        spread = _variance(value)
        return math.sqrt(spread) if aggregate.kind == "stddev" else spread
    if aggregate.kind == "user":
        return max(value) - min(value) if isinstance(value[0], int) else max(value, key=lambda text: (len(text), text))
    return value


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    if any(math.isnan(value) for value in values):
        return math.nan
    exact = [Fraction(float(value)) for value in values]
    middle = sum(exact, Fraction(0)) / len(exact)
    return float(sum(((value - middle) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1))


def _queried(query: str, events: Sequence[Event], parameters: Sequence[Any] = ()) -> list[Result]:
    """The rows of a query over the events of each input as a table."""
    with duckdb.connect() as connection:
        for port, table in enumerate((LEFT, RIGHT)):
            rows = [event for event in events if event[PORT] == port]
            types = {**{name: pa.string() for name in ("kind",)}, "toll": pa.bool_(), "speed": pa.float64()}
            columns = {
                name: pa.array([row[name] for row in rows], types.get(name, pa.int64())) for name in [*TYPES, INSTANCE]
            }
            connection.register(table, pa.table(columns))
        return connection.execute(query, list(parameters)).fetchall()


def _aggregates(aggregates: Sequence[Aggregate], table: str) -> str:
    columns = [f"{table}.{aggregate.column}" if aggregate.column else "*" for aggregate in aggregates]
    return ", ".join(_SQL[each.kind].format(column=column) for each, column in zip(aggregates, columns, strict=True))


def _exact_rows(rows: Sequence[Result], aggregates: Sequence[Aggregate]) -> list[Result]:
    fixed = len(rows[0]) - len(aggregates) if rows else 0
    return [(*row[:fixed], *map(_exactly, aggregates, row[fixed:])) for row in rows]


def windows_in_sql(window: Window, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> Oracle:
    """Instance, end of the window, keys and aggregates, by the definition of a window."""
    grouped = ", ".join([_INSTANCE, "window_end", *keys])
    query = f"""
        SELECT {grouped}, {_aggregates(aggregates, "events")}
        FROM events, (SELECT unnest(range(?, ?, {window.slide_us})) AS window_end)
        WHERE window_end - {window.size_us} <= ts AND ts < window_end
        GROUP BY {grouped}
    """

    def results(events: Sequence[Event]) -> list[Result]:
        if not events:
            return []
        times = [event["ts"] for event in events]
        first = (min(times) // window.slide_us) * window.slide_us
        last = max(times) + window.size_us + window.slide_us
        return _exact_rows(_queried(query, events, [first, last]), aggregates)

    return results


def sessions_in_sql(window: Session, keys: Sequence[str], aggregates: Sequence[Aggregate]) -> Oracle:
    """Instance, keys, first time, end and aggregates: islands of events between gaps."""
    grouped = ", ".join([_INSTANCE, *keys])
    query = f"""
        WITH marked AS (
            SELECT *, CASE WHEN ts >= lag(ts) OVER (PARTITION BY {grouped} ORDER BY ts) + {window.gap_us}
                      THEN 1 ELSE 0 END AS opens
            FROM events),
        numbered AS (
            SELECT *, sum(opens) OVER (PARTITION BY {grouped} ORDER BY ts) AS island FROM marked)
        SELECT {grouped}, min(ts), max(ts) + {window.gap_us}, {_aggregates(aggregates, "numbered")}
        FROM numbered GROUP BY {grouped}, island
    """
    return lambda events: _exact_rows(_queried(query, events), aggregates)


def _ties(names: Sequence[str]) -> str:
    """The order of rows of one time: by all their columns, nulls first."""
    return ", ".join(f"{name} NULLS FIRST" for name in names)


def count_windows_in_sql(
    window: Rows, keys: Sequence[str], aggregates: Sequence[Aggregate], names: Sequence[str]
) -> Oracle:
    """Instance, keys, time of the last row and aggregates, from the positions of rows within their keys."""
    grouped = ", ".join([_INSTANCE, *keys])
    same = " AND ".join(f"ends.{key} IS NOT DISTINCT FROM numbered.{key}" for key in [_INSTANCE, *keys])
    owned = ", ".join(f"ends.{key}" for key in [_INSTANCE, *keys])
    enough = "TRUE" if window.partial else f"nth >= {window.size}"
    query = f"""
        WITH numbered AS (
            SELECT *, row_number() OVER (PARTITION BY {grouped} ORDER BY ts, {_ties(names)}) AS nth FROM events),
        ends AS (
            SELECT {grouped}, ts AS window_end, nth AS stop FROM numbered
            WHERE (nth - {window.size}) % {window.jump} = 0 AND {enough})
        SELECT {owned}, window_end, {_aggregates(aggregates, "numbered")}
        FROM ends JOIN numbered ON {same} AND nth > stop - {window.size} AND nth <= stop
        GROUP BY {owned}, window_end, stop
    """
    return lambda events: _exact_rows(_queried(query, events), aggregates)


def ranks_in_sql(parameters: Mapping[str, Any]) -> Oracle:
    """Instance, all columns and the rank among the rows of one time."""
    names = list(parameters["types"])
    grouped = ", ".join([_INSTANCE, "ts", *parameters["keys"]])
    order = ", ".join(f"{name} {'DESC' if descending else 'ASC'} NULLS LAST" for name, descending in parameters["by"])
    number = "rank()" if parameters["ties"] else "row_number()"
    order = order if parameters["ties"] else f"{order}, {_ties(names)}"
    query = f"""
        SELECT {_INSTANCE}, {", ".join(names)}, {number} OVER (PARTITION BY {grouped} ORDER BY {order}) AS nth
        FROM events QUALIFY nth <= {parameters["k"]}
    """
    return lambda events: _queried(query, events)


def joined_in_sql(parameters: Mapping[str, Any], where: str = "TRUE") -> Oracle:
    """Instance, the columns of both sides, the flags of an outer join, and the later of the two times."""
    ours, theirs = parameters["columns"]
    lower, upper = parameters["within_us"]
    met = [f"{LEFT}.{_INSTANCE} = {RIGHT}.{_INSTANCE}", f"{RIGHT}.ts - {LEFT}.ts BETWEEN {lower} AND {upper}", where]
    met += [f"{LEFT}.{here} = {RIGHT}.{there}" for here, there in parameters["keys"]]
    if parameters["band"] is not None:
        here, there, least, most = parameters["band"]
        apart = f"{RIGHT}.{there} - {LEFT}.{here}"
        at = f"{RIGHT}.{there}", f"{LEFT}.{here}"
        met += [_bounded(apart, ">=", least, *at)] if least is not None else []
        met += [_bounded(apart, "<=", most, *at)] if most is not None else []
    same = {here for here, there in parameters["keys"] if here == there}
    defaults = {name: repr(value) for name, value in parameters["defaults"].items()}
    columns = [f"coalesce({LEFT}.{_INSTANCE}, {RIGHT}.{_INSTANCE})"]
    for name, column in ours.items():
        other = f"{RIGHT}.{column}" if name in same else defaults.get(name, "NULL")
        columns.append(f"CASE WHEN {LEFT}.ts IS NULL THEN {other} ELSE {LEFT}.{column} END")
    for name, column in theirs.items():
        columns.append(f"CASE WHEN {RIGHT}.ts IS NULL THEN {defaults.get(name, 'NULL')} ELSE {RIGHT}.{column} END")
    columns += [f"{LEFT}.ts IS NOT NULL"] if parameters["how"] == "full" else []
    columns += [f"{RIGHT}.ts IS NOT NULL"] if parameters["how"] != "inner" else []
    columns.append(f"greatest({LEFT}.ts, {RIGHT}.ts)")
    query = f"""
        SELECT {", ".join(columns)} FROM {LEFT} {parameters["how"]} JOIN {RIGHT} ON {" AND ".join(met)}
    """
    return lambda events: _queried(query, events)


def _bounded(apart: str, compare: str, bound: float, other: str, value: str) -> str:
    """A bound on a difference; where that is no number, on the value itself: NaN is the largest number."""
    by_value = f"{other} {compare} {value} + {bound}"
    return f"CASE WHEN isnan(({apart})::DOUBLE) THEN {by_value} ELSE {apart} {compare} {bound} END"


def row_by_row(flow: Flow) -> Oracle:
    """Instance and the columns of a flow's result, with the flow of each instance interpreted on its own."""
    graph = Graph.of([flow.sink("all")])

    def results(events: Sequence[Event]) -> list[Result]:
        found = []
        for instance in sorted({event[INSTANCE] for event in events}):
            own = [event for event in events if event[INSTANCE] == instance]
            by_stream = {LEFT: [e for e in own if e[PORT] == 0], RIGHT: [e for e in own if e[PORT] == 1]}
            rows = interpret(graph, by_stream)["all"]
            found += [(instance, *(row[name] for name in flow.schema.names)) for row in rows]
        return found

    return results
