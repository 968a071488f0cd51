"""Random graphs through the public query API, and random events for them.

Only what has one right result: no event is late, no column that a flow is retimed to lies before the event time, and
columns whose last bits are a matter of method (variances) or that hold lists decide nothing but are carried along.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.random_branches import MOST_EVENTS, Branch, Unfit, fresh
from tests.random_expressions import TEXTS, Draw, condition, names_of, quarters, value
from tests.random_joins import can_unite, cogrouped, joined, looked_up, united
from tests.random_spatial import covered, in_ranges, versioned
from tests.random_windows import aggregated, assigned, deduplicated, matched, ranked

from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.functions import call
from shoal.model.query.graph import Graph, Operator, Query
from shoal.model.query.schema import NOT_NULL

MOST_OPERATORS = 30
MOST_QUERIES = 5
LONGEST_S = 60
Rows = list[dict[str, Any]]
_OPTIONAL = {"n": "int64", "s": "string", "flag": "bool", "at": "timestamp"}


def streams() -> st.SearchStrategy[tuple[Stream, ...]]:
    """One or two streams, whose events are in order or are late by no more than the lateness."""
    return st.integers(1, 2).flatmap(lambda number: st.tuples(*(_stream(f"s{one}") for one in range(number))))


@st.composite
def _stream(draw: Draw, name: str) -> Stream:
    optional = draw(st.sets(st.sampled_from(sorted(_OPTIONAL))))
    schema = {"ts": "timestamp", "k": "int64", "x": "float64"}
    schema |= {column: type_ for column, type_ in _OPTIONAL.items() if column in optional}
    complete = draw(st.sets(st.sampled_from(sorted(schema)))) | {"ts"}
    schema = {column: type_ + NOT_NULL if column in complete else type_ for column, type_ in schema.items()}
    return Stream(name, schema, time="ts", lateness_s=draw(st.sampled_from([0, LONGEST_S + 1])))


@st.composite
def queries(draw: Draw, sources: Sequence[Stream], most: int = MOST_OPERATORS) -> tuple[Query, ...]:
    """Queries over the streams that share their first operators, with a limited number of operators."""
    pool = [Branch(stream, MOST_EVENTS, frozenset({"ts"})) for stream in sources]
    wanted = draw(st.integers(1, most - 3))
    for _ in range(most):
        try:
            grown = _grown(draw, pool)
        except Unfit:
            continue
        leaves = _leaves([*pool, grown])
        if _size(leaves) > wanted:
            break
        pool.append(grown)
    asked: list[Query] = []
    for number, branch in enumerate(_leaves(pool)):
        query = _asked(draw, branch, f"q{number}", asked)
        if not asked or len(_operators([*asked, query])) <= most:
            asked.append(query)
    return tuple(asked)


@st.composite
def cases(draw: Draw, most: int = MOST_OPERATORS) -> tuple[Graph, dict[str, Rows]]:
    """A graph, and the events of its streams."""
    sources = draw(streams())
    rows = {stream.name: draw(events(stream)) for stream in sources}
    graph = Graph.of(draw(queries(sources, most)))
    return graph, {name: rows[name] for name in graph.streams}


@st.composite
def spatial_cases(draw: Draw) -> tuple[Graph, dict[str, Rows]]:
    """Points in ranges right behind the streams, and the events."""
    sources = draw(streams())
    points, ranges = (Branch(stream, MOST_EVENTS, frozenset({"ts"})) for stream in (sources[0], sources[-1]))
    graph = Graph.of([in_ranges(draw, points, ranges).flow.sink("q")])
    return graph, {stream.name: draw(events(stream)) for stream in sources}


@st.composite
def events(draw: Draw, stream: Stream) -> Rows:
    """Events of a stream between 0 and 60 s, with ties, duplicates and nulls, in order unless it bears disorder.

    A column of floats that may be null may also be NaN.
    """
    times = st.one_of(st.integers(0, LONGEST_S), quarters(0, LONGEST_S)).map(lambda s: round(s * 1_000_000))
    values: Mapping[str, st.SearchStrategy[Any]] = {
        "ts": times,
        "k": st.integers(0, 3),
        "x": quarters(-4, 4),
        "n": st.integers(-5, 5),
        "s": st.sampled_from(TEXTS),
        "flag": st.booleans(),
        "at": times,
    }
    dirty = {name: _with_nulls(values[name], stream.schema.type_of(name)) for name in stream.schema.nullable}
    row = st.fixed_dictionaries({name: dirty.get(name, values[name]) for name in stream.schema.names})
    # lists of lists: Hypothesis makes short lists, and cannot shorten what has a least length
    pieces = draw(st.lists(st.lists(row, max_size=10), min_size=1, max_size=12))
    rows: Rows = [one for piece in pieces for one in piece][: MOST_EVENTS - 5]
    if rows:
        rows = rows + [dict(one) for one in draw(st.lists(st.sampled_from(rows), max_size=5))]
    bears_disorder = stream.operators[0].parameters["lateness_us"] >= LONGEST_S * 1_000_000
    if not bears_disorder or draw(st.booleans()):
        rows = sorted(rows, key=lambda one: int(one["ts"]))
    return rows


def _with_nulls(values: st.SearchStrategy[Any], type_: str) -> st.SearchStrategy[Any]:
    """Values of which some are null, and some floats are NaN."""
    odd = [None, math.nan] if type_ == "float64" else [None]
    return st.tuples(st.integers(0, 7), values).map(lambda pair: odd[pair[0]] if pair[0] < len(odd) else pair[1])


def _grown(draw: Draw, pool: Sequence[Branch]) -> Branch:
    """One operator or a few more behind a branch of the pool, mostly a young one."""
    positions = st.one_of(st.just(len(pool) - 1), st.integers(0, len(pool) - 1))
    pool = [other for other in pool if not _external(other)] or pool[:1]
    branch = pool[draw(positions) % len(pool)]
    kind = draw(st.sampled_from(_KINDS))
    if kind in _ALONE:
        return _ALONE[kind](draw, branch)
    if kind == "union":
        fitting = [other for other in pool if can_unite(branch, other)]
        return united(draw, [branch, *draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2))])
    other = pool[draw(st.integers(0, len(pool) - 1))]
    return _IN_PAIRS[kind](draw, branch, other)


def _external(branch: Branch) -> bool:
    """Whether a branch has windows by an external time: those that only the end of the input closes are emitted
    with the time of that end, which the interpreter does not know, so nothing may go by it.
    """
    return any(operator.kind == "window" and "on" in operator.parameters for operator in branch.flow.operators)


def _filtered(draw: Draw, branch: Branch) -> Branch:
    flow = branch.flow
    wanted = condition(draw, branch.hard)
    return branch.then(flow.filter(wanted) if draw(st.booleans()) else flow.split(wanted)[1], due=branch.due)


def _selected(draw: Draw, branch: Branch) -> Branch:
    columns: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 2))):
        columns[fresh("c", (*branch.types, *columns))] = value(draw, branch.hard)
    flow = branch.flow
    if draw(st.booleans()):
        return branch.then(flow.with_columns(**columns), due=branch.due)
    kept = draw(st.sets(st.sampled_from(sorted(branch.types))))
    names = [name for name in branch.types if name in kept or name == flow.time]
    return branch.then(flow.select(*names, **columns), due=branch.due)


def _retimed(draw: Draw, branch: Branch) -> Branch:
    due = [name for name in sorted(branch.due) if not branch.flow.schema.may_be_null(name)]
    if not due:
        raise Unfit
    column = draw(st.sampled_from(due))
    flow = branch.flow
    if draw(st.booleans()):
        numbers = names_of(branch.hard, "int64")
        known = [name for name in numbers if not flow.schema.may_be_null(name)]
        delay = call("abs", draw(st.sampled_from(known))) % 8 * 250_000 if known else 1_500_000
        later = fresh("c", branch.types)
        flow, column = flow.with_columns(**{later: col(column) + delay}), later
    return branch.then(flow.retime(column), due=[column])


_ALONE: Mapping[str, Callable[[Draw, Branch], Branch]] = {
    "filter": _filtered,
    "select": _selected,
    "lookup": looked_up,
    "retime": _retimed,
    "assign": assigned,
    "aggregate": aggregated,
    "rank": ranked,
    "deduplicate": deduplicated,
    "match": matched,
    "cover": covered,
    "versions": versioned,
}
_IN_PAIRS: Mapping[str, Callable[[Draw, Branch, Branch], Branch]] = {
    "join": joined,
    "cogroup": cogrouped,
    "match_ranges": in_ranges,
}
_KINDS = (*_ALONE, *_IN_PAIRS, "select", "aggregate", "aggregate", "join", "union", "match", "match_ranges")


def _asked(draw: Draw, branch: Branch, name: str, others: Sequence[Query]) -> Query:
    """A query of a branch, sometimes of some of its columns only, sometimes into a table that there is already."""
    flow = branch.flow
    if not draw(st.integers(0, 3)):
        names = draw(st.lists(st.sampled_from(sorted(branch.types)), min_size=1, unique=True))
        flow = flow.select(*names)
    columns = list(flow.schema.types.items())
    shared = [query.table for query in others if list(query.columns.items()) == columns]
    return flow.sink(name, table=shared[0] if shared else None)


def _leaves(pool: Sequence[Branch]) -> list[Branch]:
    """The branches that no other one continues, each once and the youngest ones at most."""
    inner = {one.id for branch in pool for one in branch.flow.operators[:-1]}
    leaves = {branch.flow.operators[-1].id: branch for branch in pool if branch.flow.operators[-1].id not in inner}
    return list(leaves.values())[-MOST_QUERIES:]


def _size(leaves: Sequence[Branch]) -> int:
    """Operators of the branches, with a sink for each."""
    return len({one.id for branch in leaves for one in branch.flow.operators}) + len(leaves)


def _operators(asked: Sequence[Query]) -> dict[str, Operator]:
    return {operator.id: operator for query in asked for operator in query.operators}
