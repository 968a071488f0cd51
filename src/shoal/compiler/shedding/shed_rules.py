"""Rules of shedding: what a user asks for as one rule for every stream, or the reason why a graph does not allow it."""

import json
from collections.abc import Iterator, Mapping
from math import lcm

from shoal.compiler.program import Program, compile_graph
from shoal.errors import ConfigError, GraphError
from shoal.model.control.shedding import Shedding, ShedRule, StreamShedding
from shoal.model.query.graph import STATEFUL, Graph, Operator, Query
from shoal.model.query.window import Window, window_from_data

BEFORE_WINDOWS = frozenset({"source", "filter", "select", "lookup", "window", "aggregate", "sink"})
"""The operators that leave every row in the window of its event time."""
NUMERIC = ("int64", "float64")
SIZES = 4
"""How many times as long as hop windows the times are that are shed."""


def shed_rules(shedding: Shedding, graph: Graph) -> dict[str, ShedRule]:
    """The rule of every stream of which rows may be shed; raises if the queries do not allow it."""
    if shedding.kind == "windows":
        spans = {stream: span_us(graph, stream) for stream in graph.streams}
        return {stream: ShedRule("windows", shedding.share, shedding.seed, span_us=us) for stream, us in spans.items()}
    if shedding.kind == "random":
        return {stream: ShedRule("random", shedding.share, shedding.seed) for stream in graph.streams}
    return _by_utility(shedding, compile_graph(graph))


def begun(shedding: Shedding | None, graph: Graph) -> dict[str, StreamShedding]:
    """The shedding of all streams before the first row."""
    if shedding is None:
        return {}
    always = shedding.when == "always"
    rules = shed_rules(shedding, graph)
    return {stream: StreamShedding().asked(rule, always=always) for stream, rule in rules.items()}


def check_windows(shedding: Mapping[str, StreamShedding], graph: Graph) -> None:
    """Reject queries that could not leave out what lacks rows while whole windows are shed; called before they run."""
    for stream, each in shedding.items():
        if each.rule is not None and each.rule.span_us:
            for query in graph.queries.values():
                if stream in query.streams:
                    _check(query)


def span_us(graph: Graph, stream: str) -> int:
    """The length of the times of which all rows of a stream are shed together; raises if a query does not allow it.

    It consists of whole windows, if all queries have tumbling windows whose lengths fit together. Hop windows reach
    beyond it, so that it is several times as long as they are: then most results that are lost have lost all rows.
    """
    windows = [_window_of(query) for query in graph.queries.values() if stream in query.streams]
    units = [each.size_us if each.panes == 1 else SIZES * each.size_us for each in windows]
    together = lcm(*units)
    return together if together <= SIZES**2 * max(units) else SIZES * max(units)


def _window_of(query: Query) -> Window:
    """The windows of a query, if each row is in those of its event time and nothing else depends on it."""
    _check(query)
    window = window_from_data(next(each.parameters for each in query.operators if each.kind == "window"))
    if not isinstance(window, Window):
        raise GraphError(f"query {query.name!r} has no windows of time")
    return window


def _check(query: Query) -> None:
    fault = windows_fault(query)
    if fault:
        raise ConfigError(
            f"whole windows can be shed if every query has one aggregate over tumbling or hop windows of event time; "
            f"query {query.name!r} {fault}; use random instead"
        )


def windows_fault(query: Query) -> str:
    """Why a query does not let whole windows be shed; empty if it does."""
    stateful = [each.kind for each in query.operators if each.kind in STATEFUL]
    if stateful != ["aggregate"]:
        return f"has {', '.join(stateful) or 'no windows'}"
    if others := [each.kind for each in query.operators if each.kind not in BEFORE_WINDOWS]:
        return f"has {others[0]}"
    if len(query.streams) > 1:
        return f"reads streams {', '.join(query.streams)}"
    window = window_from_data(next(each.parameters for each in query.operators if each.kind == "window"))
    if not isinstance(window, Window) or window.clock != "event" or window.on:
        return f"has windows {window}"
    time = query.sources[0].parameters["time"]
    if any(_retimes(each, time) for each in _before_window(query)):
        return f"computes its event time {time!r}"
    return ""


def _before_window(query: Query) -> Iterator[Operator]:
    for each in query.operators:
        if each.kind == "window":
            return
        yield each


def _retimes(operator: Operator, time: str) -> bool:
    """Whether a select gives the column of event time another value."""
    columns = dict(operator.parameters["columns"]) if operator.kind == "select" else {}
    return bool(columns) and columns.get(time) != ["col", time]


def _by_utility(shedding: Shedding, program: Program) -> dict[str, ShedRule]:
    from shoal.language.sql.expressions import scalar  # sqlglot is slow to import, and few runs need it

    expression = scalar(shedding.utility, "utility")
    needed, found = set(expression.columns()), {}
    for stream, input_ in program.inputs.items():
        if needed <= set(program.columns(stream)):
            type_ = expression.type_in(input_.schema, f"utility of stream {stream!r}")
            if type_ not in NUMERIC:
                raise ConfigError(f"utility {shedding.utility!r} must be a number; it is {type_} in stream {stream!r}")
            found[stream] = ShedRule("utility", shedding.share, shedding.seed, json.dumps(expression.data()))
    if not found:
        read = "; ".join(f"{stream}: {', '.join(program.columns(stream))}" for stream in program.inputs)
        raise ConfigError(
            f"utility {shedding.utility!r} must be computed from columns that queries read; they are {read}"
        )
    return found
