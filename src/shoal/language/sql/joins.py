"""JOIN in SQL: merges two relations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.python.join import HAS_LEFT, HAS_RIGHT, How
from shoal.language.sql.conditions import Conditions, owners
from shoal.language.sql.dialect import place, quoted
from shoal.language.sql.expressions import conjunction, conjuncts
from shoal.language.sql.relation import AT_ONCE, Later, Relation
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import col
from shoal.model.query.functions import Call, Function
from shoal.model.query.schema import Schema

_SUPPORTED = "joins are [INNER], LEFT, RIGHT and FULL JOIN ... ON equal columns AND bounds on time"
_HOWS: Mapping[str, How] = {"": "inner", "LEFT": "left", "RIGHT": "left", "FULL": "full"}
"""How rows are paired; a RIGHT JOIN is a LEFT JOIN with its sides exchanged."""


def check_join(tree: exp.Join, where: str) -> None:
    """Reject joins of other kinds."""
    other = tree.args.get("method") or tree.args.get("match_condition") or tree.side not in _HOWS
    if other or tree.kind not in ("", "INNER", "OUTER", "CROSS"):
        raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} is not supported; {_SUPPORTED}")


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
        raise SqlError(
            f"{place(tree, where)}: two tables are called {twice[0]!r}; give one of them another name with AS"
        )
    order = (*left.tables, *right.tables)
    how = _HOWS[tree.side]
    left, right = _without_flags(left), _without_flags(right)
    if tree.side == "RIGHT":
        left, right = right, left
    said = _said(left, right, tree, conditions, how, functions, where)
    using = [name.name for name in tree.args.get("using") or ()]
    if how == "full" or (how == "left" and _reads_keys(said, tree, select)):
        said = _told_apart(said, using, where)
    left, right = said.left, said.right
    if how == "full":
        _check_using(said, using, tree)
    both, called, suffix = _merged(left, right, said.on())
    translate = both.translator(functions, where, schema=_schema(left, right, called))
    further = conjunction([translate.condition(each) for each in said.rest])
    lower_us, upper_us = said.within_us(tree)
    flow = left.flow.join(
        right.flow,
        on=said.on(),
        within_s=(lower_us / MICROSECONDS, upper_us / MICROSECONDS),
        band=said.band,
        where=further,
        how=how,
        suffix=suffix,
    )
    tables = _visible(both, right, using, how, order)
    times, latest = _times(left, right, called, (lower_us, upper_us))
    if how == "left":  # a row that stays alone happens at its own time
        times = {name: (later[0], times[name][1]) for name, later in left.times.items()}
    elif how == "full":
        times = {}
    kept = said.same_window and how != "full"
    return replace(
        both,
        flow=flow,
        tables=tables,
        times=times,
        latest=latest,
        window=left.window if kept else None,
        starts=left.starts if kept else frozenset(),
    )


def _said(
    left: Relation,
    right: Relation,
    tree: exp.Join,
    conditions: Sequence[exp.Expr],
    how: How,
    functions: Mapping[str, Function],
    where: str,
) -> Conditions:
    """The conditions of a join; those on one side filter it before, if that drops no row that would stay alone."""
    said = Conditions(left, right, where)
    same = [_equal(name, left, right, where) for name in tree.args.get("using") or ()]
    for condition in [*same, *conjuncts(tree.args.get("on")), *conditions]:
        reads = owners(condition, (said.left, said.right), where)
        if reads == [1] and how != "full":
            said.right = _filtered(said.right, condition, functions, where)
        elif reads == [0] and how == "inner":
            said.left = _filtered(said.left, condition, functions, where)
        else:
            said.take(condition)
    return said


def _filtered(relation: Relation, tree: exp.Expr, functions: Mapping[str, Function], where: str) -> Relation:
    condition = relation.translator(functions, where).condition(tree)
    return replace(relation, flow=relation.flow.filter(condition))


def _equal(name: exp.Expr, left: Relation, right: Relation, where: str) -> exp.EQ:
    """The condition that a column of USING stands for."""
    sides = []
    for relation in (left, right):
        relation.resolve(exp.column(name.copy()), where)
        alias = next(alias for alias, names in relation.tables.items() if name.name in names)
        if not alias:
            raise SqlError(f"{place(name, where)}: USING needs names for both tables; give the sub-query one with AS")
        sides.append(exp.column(name.copy(), table=alias))
    return exp.EQ(this=sides[0], expression=sides[1])


def _check_using(said: Conditions, using: Sequence[str], tree: exp.Join) -> None:
    """A column of USING in a FULL JOIN must be a key of one name on both sides: it has the value of either."""
    on = said.on()
    for name in using:
        ours = said.left.resolve(exp.column(name), said.where)
        if on.get(ours) != ours:
            raise SqlError(
                f"{place(tree, said.where)}: {quoted(tree)!r} is not supported; write ON a.{name} = b.{name}, and "
                f"COALESCE(a.{name}, b.{name}) for both"
            )


def _without_flags(relation: Relation) -> Relation:
    """A relation without the columns by which an outer join before says which sides exist."""
    return relation.narrowed() if {HAS_LEFT, HAS_RIGHT} & set(relation.flow.schema.names) else relation


def _told_apart(said: Conditions, using: Sequence[str], where: str) -> Conditions:
    """The conditions with another name for each key of the right side that is called like that of the left one.

    An operator has one column for such a pair, which is right for an inner join. In an outer join one of both may be
    null. The columns of USING are one column by definition.
    """
    merged = {said.left.resolve(exp.column(name), where) for name in using}
    same = [theirs for ours, theirs in said.on().items() if ours == theirs and ours not in merged]
    taken = {*said.left.flow.schema.names, *said.right.flow.schema.names}
    called = {name: _free(f"{name}_right", taken) for name in same}
    if not called:
        return said
    right = said.right
    kept = (name for name in right.flow.schema.names if name not in called)
    right = replace(
        right,
        flow=right.flow.select(*kept, **{new: col(name) for name, new in called.items()}),
        tables={
            alias: {name: called.get(column, column) for name, column in names.items()}
            for alias, names in right.tables.items()
        },
        times={called.get(name, name): later for name, later in right.times.items()},
        starts=frozenset(called.get(name, name) for name in right.starts),
    )
    keys = [(ours, called.get(theirs, theirs)) for ours, theirs in said.keys]
    band = said.band and (said.band[0], called.get(said.band[1], said.band[1]), *said.band[2:])
    return replace(said, right=right, keys=keys, band=band)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _reads_keys(said: Conditions, tree: exp.Join, select: exp.Select) -> bool:
    """Whether a query reads a key of the right side whose name is that of the left one, other than in ON."""
    same = {theirs for ours, theirs in said.on().items() if ours == theirs}
    names = {
        (alias, name) for alias, names in said.right.tables.items() for name, column in names.items() if column in same
    }
    aliases = {alias for alias, _ in names}
    if any(isinstance(item, exp.Star) for item in select.expressions):
        return bool(names)
    for column in select.find_all(exp.Column):
        if isinstance(column.this, exp.Star) and column.table in aliases:
            return True
        if (column.table, column.name) in names and column.find_ancestor(exp.Join) is not tree:
            return True
    return False


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
    return Relation(left.flow, tables, {}), called, suffix


def _schema(left: Relation, right: Relation, called: Mapping[str, str]) -> Schema:
    """The columns of a pair of rows."""
    ours = left.flow.schema
    theirs = (replace(field, name=called[field.name]) for field in right.flow.schema.fields)
    return Schema((*ours.fields, *(field for field in theirs if field.name not in ours)))


def _visible(
    both: Relation, right: Relation, using: Sequence[str], how: How, order: Sequence[str]
) -> dict[str, dict[str, str]]:
    """The tables of a joined row in the order of FROM; a column of USING in an outer join belongs to no right table."""
    if how == "inner":
        return {alias: dict(names) for alias, names in both.tables.items()}
    hidden = both.tables if how == "full" else right.tables
    tables = {
        alias: {name: column for name, column in both.tables[alias].items() if name not in using or alias not in hidden}
        for alias in order
    }
    if how == "full" and using:
        keys = {name: next(names[name] for names in both.tables.values() if name in names) for name in using}
        tables = {"": {**keys, **tables.get("", {})}, **{alias: each for alias, each in tables.items() if alias}}
    return tables


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
