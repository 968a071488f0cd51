"""JOIN in SQL: merges two relations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.sql.conditions import Conditions, owners
from shoal.language.sql.dialect import call_name, quoted
from shoal.language.sql.expressions import conjunction, conjuncts
from shoal.language.sql.relation import AT_ONCE, Later, Relation
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import col
from shoal.model.query.functions import Call, Function

_SUPPORTED = "joins are JOIN and LEFT JOIN ... ON equal columns AND bounds on time"


def check_join(tree: exp.Join, where: str) -> None:
    """Reject joins of other kinds."""
    if tree.args.get("method") or tree.args.get("match_condition") or tree.side not in ("", "LEFT"):
        raise SqlError(f"{where}: {quoted(tree)!r} is not supported; {_SUPPORTED}")
    if tree.kind not in ("", "INNER", "OUTER", "CROSS"):
        raise SqlError(f"{where}: {quoted(tree)!r} is not supported; {_SUPPORTED}")


def joined(
    left: Relation,
    right: Relation,
    tree: exp.Join,
    conditions: Sequence[exp.Expr],
    select: exp.Select,
    functions: Mapping[str, Function],
    where: str,
) -> Relation:
    """Two relations joined; `conditions`: those that WHERE adds to ON."""
    twice = [alias for alias in right.tables if alias in left.tables]
    if twice:
        raise SqlError(f"{where}: two tables are called {twice[0]!r}; give one of them another name with AS")
    outer = tree.side == "LEFT"
    said = Conditions(left, right, where)
    for name in tree.args.get("using") or ():
        said.keys.append((name.name, name.name))
    for condition in [*conjuncts(tree.args.get("on")), *conditions]:
        reads = owners(condition, (left, right), where)
        if reads == [1]:
            only = right.translator(functions, where)(condition)
            right = said.right = replace(right, flow=right.flow.filter(only))
        elif reads == [0] and not outer:
            only = left.translator(functions, where)(condition)
            left = said.left = replace(left, flow=left.flow.filter(only))
        else:
            said.take(condition)
    both, called, suffix = _merged(left, right, said.on())
    further = conjunction([both.translator(functions, where)(each) for each in said.rest])
    defaults = _defaults(both, right, select, said.on(), functions, where) if outer else {}
    lower_us, upper_us = said.within_us(tree)
    flow = left.flow.join(
        right.flow,
        on=said.on(),
        within_s=(lower_us / MICROSECONDS, upper_us / MICROSECONDS),
        band=said.band,
        where=further,
        how="left" if outer else "inner",
        defaults=defaults,
        suffix=suffix,
    )
    optional = {(alias, name) for alias, names in right.tables.items() for name in names} if outer else set()
    kept = said.same_window
    times, latest = _times(left, right, called, (lower_us, upper_us))
    if outer:  # a row that stays alone happens at its own time
        times, latest = {name: (later[0], times[name][1]) for name, later in left.times.items()}, frozenset()
    return replace(
        both,
        flow=flow,
        times=times,
        latest=latest,
        window=left.window if kept else None,
        starts=left.starts if kept else frozenset(),
        optional=left.optional | optional,
    )


def _merged(left: Relation, right: Relation, on: Mapping[str, str]) -> tuple[Relation, dict[str, str], str]:
    """The merged relation, still with the left flow; the new names of the right columns; and their suffix."""
    same = {ours for ours, theirs in on.items() if ours == theirs}
    ours = set(left.flow.schema.names)
    suffix = "_right"
    if any(name + suffix in ours for name in right.flow.schema.names if name in ours and name not in same):
        suffix = f"_{next(iter(right.tables))}"
    called = {name: name if name in same or name not in ours else name + suffix for name in right.flow.schema.names}
    tables = {
        **left.tables,
        **{alias: {name: called[column] for name, column in names.items()} for alias, names in right.tables.items()},
    }
    return Relation(left.flow, tables, {}, optional=left.optional), called, suffix


def _times(
    left: Relation, right: Relation, called: Mapping[str, str], within_us: tuple[int, int]
) -> tuple[dict[str, Later], frozenset[str]]:
    """How far the event time of joined rows, the later of both, is after each column; and its expressions."""
    lower_us, upper_us = within_us
    times = {
        called[name]: (least + max(0, -upper_us), most + max(0, -lower_us))
        for name, (least, most) in right.times.items()
    }
    times |= {name: (least + max(0, lower_us), most + max(0, upper_us)) for name, (least, most) in left.times.items()}
    ours = [name for name, later in left.times.items() if later == AT_ONCE]
    theirs = [called[name] for name, later in right.times.items() if later == AT_ONCE]
    pairs = [pair for one in ours for other in theirs for pair in ((one, other), (other, one))]
    return times, frozenset(Call("greatest", (col(one), col(other))).text for one, other in pairs)


def _defaults(
    both: Relation,
    right: Relation,
    select: exp.Select,
    on: Mapping[str, str],
    functions: Mapping[str, Function],
    where: str,
) -> dict[str, Any]:
    """What COALESCE gives for columns of the right side."""
    found: dict[str, Any] = {}
    clauses = [*select.expressions, *(select.args.get(name) for name in ("where", "group", "having"))]
    for tree in (call for clause in clauses if clause is not None for call in clause.find_all(exp.Anonymous)):
        column = tree.expressions[0] if call_name(tree) == "COALESCE" and len(tree.expressions) == 2 else None
        if not isinstance(column, exp.Column) or column.text("table") not in ("", *right.tables):
            continue
        if not any(column.name in names for names in right.tables.values()):
            continue
        name = both.resolve(column, where)
        if on.get(name) == name:
            raise SqlError(f"{where}: {quoted(tree)!r} is a key of the join; take that of the left side")
        value = both.translator(functions, where).constant(tree.expressions[1])
        if found.setdefault(name, value) != value:
            raise SqlError(f"{where}: {quoted(column)!r} has two defaults, {found[name]!r} and {value!r}")
    return found
