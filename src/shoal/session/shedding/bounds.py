"""Bounds: which results are exact after input was shed, which can be estimated, and which have no bound.

This depends on the queries and on the kind of shedding alone, and is known before a run starts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.compiler.shedding.shed_rules import windows_fault
from shoal.model.control.shedding import Shedding
from shoal.model.query.graph import STATEFUL, Graph, Operator, Query, shortened
from shoal.model.query.schema import NOT_NULL
from shoal.model.query.window import Window, window_from_data

WINDOW_END = "window_end"
INDEPENDENT = frozenset({"source", "filter", "select", "lookup", "window", "aggregate", "sink"})
"""Operators through which every row of a stream comes at most once, whatever other rows there are."""
_ONE_SIDED = {
    "min": "the true one may be smaller",
    "max": "the true one may be larger",
    "top_k": "larger values may be missing",
    "count_distinct": "it is a lower bound",
    "approx_distinct": "it is likely too small",
    "variance": "it is an estimate without an interval",
    "stddev": "it is an estimate without an interval",
    "user": "nothing is known of it",
}


@dataclass(frozen=True)
class ColumnBound:
    """What is known of one result column: `exact`, `interval`, or `none` and why.

    `kind`: that of the aggregate. `rows` and `spread`: the columns with the number of rows behind a sum or mean, and
    with their variance or, if `deviation`, their standard deviation.
    """

    column: str
    text: str
    bound: str
    reason: str = ""
    kind: str = ""
    rows: str = ""
    spread: str = ""
    deviation: bool = False


@dataclass(frozen=True)
class QueryBounds:
    """The bounds of a query's result columns; `reason`: why there are none for any of them."""

    query: str
    table: str
    streams: tuple[str, ...]
    columns: tuple[ColumnBound, ...] = ()
    reason: str = ""
    size_us: int = 0
    """Length of the windows."""
    placed: bool = False
    """Whether results say which window they are of."""
    overlaps: bool = False
    """Whether windows overlap."""

    @property
    def unbounded(self) -> tuple[str, ...]:
        """What has no bound, and why."""
        if self.reason:
            return (self.reason,)
        return tuple(f"{each.text}: {each.reason}" for each in self.columns if each.bound == "none")


def bounds(shedding: Shedding, graph: Graph) -> list[QueryBounds]:
    """The bounds of all queries."""
    return [_of_query(shedding, query) for query in graph.queries.values()]


def warnings(shedding: Shedding, graph: Graph) -> list[str]:
    """What a user should know before input is shed: the results that will have no bound."""
    found: dict[str, list[str]] = {}
    for each in bounds(shedding, graph):
        for text in each.unbounded:
            found.setdefault(text, []).append(each.query)
    return [f"no bound on the error of {shortened(names, 'queries')}: {text}" for text, names in found.items()]


def _of_query(shedding: Shedding, query: Query) -> QueryBounds:
    name, table, streams = query.name, query.table, query.streams
    if shedding.kind == "utility":
        return QueryBounds(name, table, streams, reason="rows are chosen by their utility, so results are biased")
    if shedding.kind == "random" and (fault := _fault(query)):
        return QueryBounds(name, table, streams, reason=fault)
    if shedding.kind == "windows" and (fault := windows_fault(query)):
        return QueryBounds(name, table, streams, reason=f"it {fault}, of which some may lack rows")
    window = _window(query)
    aggregate = next(each for each in query.operators if each.kind == "aggregate")
    named = _named(query, aggregate)
    placed = WINDOW_END in query.columns and not _redefined(query, WINDOW_END)
    made = tuple(_bound(shedding, query, aggregate, named, column) for column in named)
    size_us, panes = (window.size_us, window.panes) if isinstance(window, Window) else (0, 1)
    return QueryBounds(name, table, streams, made, "", size_us, placed, panes > 1)


def _window(query: Query) -> object:
    return window_from_data(next(each.parameters for each in query.operators if each.kind == "window"))


def _fault(query: Query) -> str:
    """Why no result of a query has a bound if rows are shed at random; empty if some may have one."""
    stateful = [each.kind for each in query.operators if each.kind in STATEFUL]
    if not stateful:
        return "it has no aggregates: every row is exact, and some are missing"
    if stateful != ["aggregate"]:
        return f"there is no estimate behind {next(k for k in (*stateful, 'several aggregates') if k != 'aggregate')}"
    if others := [each.kind for each in query.operators if each.kind not in INDEPENDENT]:
        return f"there is no estimate behind {others[0]}"
    window = _window(query)
    if not isinstance(window, Window) or window.clock != "event" or window.on:
        return f"windows {window} depend on the rows that are kept"
    if any(each.kind == "filter" for each in _behind(query)):
        return "results are selected by values of the sample"
    return ""


def _behind(query: Query) -> Iterator[Operator]:
    """The operators behind the aggregate."""
    kinds = [each.kind for each in query.operators]
    return iter(query.operators[kinds.index("aggregate") + 1 :])


def _named(query: Query, aggregate: Operator) -> dict[str, list[Any]]:
    """The aggregates by the result columns that have them unchanged."""
    found: dict[str, list[Any]] = dict(aggregate.parameters["aggregates"])
    for operator in _behind(query):
        if operator.kind == "select":
            kept = [(name, value[1]) for name, value in operator.parameters["columns"] if value[0] == "col"]
            found = {name: found[before] for name, before in kept if before in found}
    return {name: each for name, each in found.items() if name in query.columns}


def _redefined(query: Query, column: str) -> bool:
    """Whether a column has another value than behind the aggregate."""
    selects = (dict(each.parameters["columns"]) for each in _behind(query) if each.kind == "select")
    return any(columns.get(column, ["col", column]) != ["col", column] for columns in selects)


def _bound(
    shedding: Shedding, query: Query, aggregate: Operator, named: Mapping[str, Sequence[Any]], column: str
) -> ColumnBound:
    kind, of = named[column][:2]
    text = f"{column} = {kind}({of})"
    if shedding.kind == "windows":
        return ColumnBound(column, text, "exact", kind=kind)
    if kind == "count":
        return ColumnBound(column, text, "interval", kind=kind)
    if kind not in ("sum", "mean"):
        return ColumnBound(column, text, "none", _ONE_SIDED[kind], kind)
    rows = _found(named, ("count",), _counting(query, aggregate, of))
    spread = _found(named, ("variance", "stddev"), (of,))
    if not rows or not spread:
        lacking = [f"count({of})"] * (not rows) + [f"variance({of})"] * (not spread)
        reason = f"an interval needs {' and '.join(lacking)} in the results; add it, or shed with intervals"
        return ColumnBound(column, text, "none", reason, kind)
    return ColumnBound(column, text, "interval", "", kind, rows, spread, named[spread][0] == "stddev")


def _counting(query: Query, aggregate: Operator, column: str) -> tuple[str, ...]:
    """The columns whose count is that of the values of a column: `count()` counts nulls, too."""
    declared = query.sources[0].parameters["schema"].get(column, "")
    computed = any(each.kind in ("select", "lookup") and _makes(each, column) for each in query.operators)
    is_known = not computed and column in aggregate.parameters["types"]
    return (column, "") if is_known and declared.endswith(NOT_NULL) else (column,)


def _makes(operator: Operator, column: str) -> bool:
    """Whether an operator gives a column a value that the stream does not have under its name."""
    columns = dict(operator.parameters["columns"]) if operator.kind == "select" else {}
    return operator.kind == "lookup" or columns.get(column, ["col", column]) != ["col", column]


def _found(named: Mapping[str, Sequence[Any]], kinds: Sequence[str], of: Sequence[str]) -> str:
    """The result column with an aggregate; empty if there is none."""
    return next((name for name, each in named.items() if each[0] in kinds and each[1] in of), "")
