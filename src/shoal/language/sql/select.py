"""SELECT in SQL: from a query's syntax tree to a relation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from shoal.errors import SqlError, did_you_mean
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.sql.conditions import owners
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import conjunction, conjuncts
from shoal.language.sql.grouping import default_name, grouped, has_aggregates
from shoal.language.sql.joins import check_join, joined
from shoal.language.sql.pattern import matched
from shoal.language.sql.places import place_function
from shoal.language.sql.ranking import is_rank, limited, ranked
from shoal.language.sql.relation import Later, Relation
from shoal.language.sql.windows import group_window, table_function, window_part
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import Expression, col
from shoal.model.query.functions import Function
from shoal.model.query.window import Session, Window

_CLAUSES: Mapping[str, str] = {
    "order": "results come as windows close; rank them with ROW_NUMBER() OVER (PARTITION BY window ... ORDER BY ...)",
    "limit": "a stream has no end to count from; use ROW_NUMBER() OVER (PARTITION BY window ... ORDER BY ...)",
    "offset": "a stream has no beginning to count from",
    "qualify": "write WHERE rank <= 3 in a query around it",
    "windows": "write the window behind OVER",
    "laterals": "FROM takes tables, sub-queries, window functions and joins",
    "sample": "write a condition in WHERE",
    "cluster": "rows have no order here",
    "distribute": "rows have no order here",
    "sort": "rows have no order here",
    "connect": "FROM takes tables, sub-queries, window functions and joins",
    "locks": "nothing is locked here",
    "kind": "a row is a list of columns",
    "into": "write INSERT INTO t SELECT",
}


@dataclass(frozen=True)
class Scope:
    """What a query may name: tables and the user's functions; `where` is for errors."""

    tables: Mapping[str, Relation]
    functions: Mapping[str, Function]
    where: str


def queried(tree: exp.Expr, scope: Scope) -> Relation:
    """The relation of a query."""
    scope = _with(tree, scope)
    if isinstance(tree, exp.Subquery):
        return queried(tree.this, scope)
    if isinstance(tree, exp.SetOperation):
        return _united(tree, scope)
    if not isinstance(tree, exp.Select):
        raise SqlError(f"{place(tree, scope.where)}: expected a SELECT; got {quoted(tree)!r}")
    _refuse(tree, scope.where)
    return _selected(tree, scope)


def _selected(select: exp.Select, scope: Scope) -> Relation:
    where, functions = scope.where, scope.functions
    clause = select.args.get("where")
    match = select.args.get("match")
    conditions = conjuncts(clause.this if clause else None)
    if match is None:
        relation, conditions = _from(select, conditions, scope)
    else:  # WHERE is about the matches
        relation = matched(_from(select, [], scope)[0], match, functions, where)
    relation, conditions = limited(relation, conditions, where)
    relation.check_limited(place(select, where))
    relation = _filtered(relation, conditions, scope)
    if any(select.args.get(clause) is not None for clause in ("group", "having")) or has_aggregates(select):
        relation = grouped(select, relation, functions, where)
    else:
        relation = _listed(select, relation.settled(where), scope)
    return _distinct(select, relation, where)


def _with(tree: exp.Expr, scope: Scope) -> Scope:
    """The scope with the tables of a WITH clause."""
    found = tree.args.get("with_")
    if found is None:
        return scope
    if found.args.get("recursive"):
        raise SqlError(f"{place(found, scope.where)}: WITH RECURSIVE is not supported")
    for table in found.expressions:
        relation = _aliased(queried(table.this, scope), table, scope.where)
        scope = replace(scope, tables={**scope.tables, table.alias: relation})
    return scope


def _aliased(relation: Relation, tree: exp.Expr, where: str) -> Relation:
    """A relation under the alias of a sub-query, a table or a WITH clause."""
    name = tree.alias or (tree.name if isinstance(tree, exp.Table) else "")
    return relation.named(name, tree.alias_column_names, place(tree, where))


def _refuse(select: exp.Select, where: str) -> None:
    for clause, hint in _CLAUSES.items():
        found = select.args.get(clause)
        if found:
            text = quoted(found) if isinstance(found, exp.Expr) else clause.upper()
            at = place(found, where) if isinstance(found, exp.Expr) else place(select, where)
            raise SqlError(f"{at}: {text!r} is not supported: {hint}")
    if select.args.get("from_") is None:
        raise SqlError(f"{place(select, where)}: {quoted(select)!r} must read FROM a table")
    for clause in ("where", "having"):
        found = select.args.get(clause)
        inner = found.find(exp.Select) if found is not None else None
        if inner is not None:
            raise SqlError(f"{place(inner, where)}: sub-query {quoted(inner)!r} belongs in FROM; join it there")


def _source(tree: exp.Expr, scope: Scope) -> Relation:
    """One table of FROM."""
    where = scope.where
    if isinstance(tree, exp.Subquery):
        return _aliased(queried(tree, scope), tree, where)
    if not isinstance(tree, exp.Table) or any(tree.args.get(each) for each in ("version", "pivots", "partition")):
        raise SqlError(
            f"{place(tree, where)}: {quoted(tree)!r} is not supported in FROM; name a table, a window or a sub-query"
        )
    by_place = place_function(tree, lambda table: _table(table, scope), where)
    if by_place is not None:
        return _aliased(by_place, tree, where)
    function = table_function(tree, where)
    if function is not None:
        relation = _table(function.table, scope).named(tree.alias or function.table.name)
        relation.check_time(function.time, where)
        if tree.alias_column_names:
            raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} is not supported; name the columns in a SELECT")
        partition = frozenset(relation.resolve(column, where) for column in function.partition)
        return relation.windowed(function.window, partition)
    return _aliased(_table(tree, scope), tree, where)


def _table(tree: exp.Table, scope: Scope) -> Relation:
    if tree.name not in scope.tables:
        known = ", ".join(scope.tables) or "none"
        near = did_you_mean(tree.name, scope.tables)
        raise SqlError(f"{place(tree, scope.where)}: there is no table {quoted(tree)!r}; there are {known}{near}")
    return scope.tables[tree.name]


def _from(select: exp.Select, conditions: list[exp.Expr], scope: Scope) -> tuple[Relation, list[exp.Expr]]:
    """FROM and its joins; conditions of WHERE on one table go before a join, those on several into it."""
    where = scope.where
    relation = _source(select.args["from_"].this, scope)
    joins: Sequence[exp.Join] = select.args.get("joins") or ()
    if not joins:
        return relation, conditions
    for join in joins:
        check_join(join, where)
    parts = [relation, *(_source(join.this, scope) for join in joins)]
    for part in parts:
        part.check_limited(place(select, where))
    parts = [part.settled(where).narrowed().timed() for part in parts]
    always = _always(joins)
    before: list[list[exp.Expr]] = [[] for _ in parts]
    within: list[list[exp.Expr]] = [[] for _ in parts]
    behind: list[exp.Expr] = []
    for condition in conditions:
        reads = owners(condition, parts, where)
        if not reads or not all(always[at] for at in reads):
            behind.append(condition)
        else:
            (before if len(reads) == 1 else within)[max(reads)].append(condition)
    parts = [_filtered(part, mine, scope) for part, mine in zip(parts, before, strict=True)]
    relation = parts[0]
    for join, part, mine in zip(joins, parts[1:], within[1:], strict=True):
        relation = joined(relation, part, join, mine, select, scope.functions, where)
    return relation, behind


def _always(joins: Sequence[exp.Join]) -> list[bool]:
    """Whether each table of FROM has a row in every joined row, which an outer join may lack."""
    always = [True]
    for join in joins:
        if join.side in ("RIGHT", "FULL"):
            always = [False] * len(always)
        always.append(join.side not in ("LEFT", "FULL"))
    return always


def _filtered(relation: Relation, conditions: Sequence[exp.Expr], scope: Scope) -> Relation:
    if relation.pending is not None and any(_reads_window(each) for each in conditions):
        relation = relation.settled(scope.where)
    translate = relation.translator(scope.functions, scope.where)
    condition = conjunction([translate.condition(each) for each in conditions])
    return relation if condition is None else replace(relation, flow=relation.flow.filter(condition))


def _reads_window(tree: exp.Expr) -> bool:
    return any(column.name in (WINDOW_START, WINDOW_END) for column in tree.find_all(exp.Column))


def _listed(select: exp.Select, relation: Relation, scope: Scope) -> Relation:
    """The select list of a query without aggregates: columns, values, windows of rows, and a rank."""
    where = scope.where
    items = list(_items(select, relation, scope))
    ranks = {name: tree for name, tree, _ in items if is_rank(tree)}
    rows = {name: tree for name, tree, value in items if value is None and name not in ranks}
    parts = {name: _row_window(tree, relation, where) for name, tree in rows.items()}
    values = {name: value for name, _, value in items if value is not None}
    if len(ranks) > 1 or len({window for window, _ in parts.values()}) > 1:
        raise SqlError(f"{place(select, where)}: a SELECT has one ROW_NUMBER() or RANK() and one window; got several")
    for window, _ in list(parts.values())[:1]:
        timeless = relation.flow.time in relation.flow.schema and relation.flow.time not in values
        chosen = list(values.items())
        relation = relation.extended(chosen) if timeless else relation.projected(chosen, place(select, where))
        values = {name: col(column) for name, column in relation.columns.items()}
        relation = relation.assigned(window, where)
        values |= {name: col(part) for name, (_, part) in parts.items()}
    listed = [(name, values.get(name)) for name, _, _ in items]
    for column, tree in ranks.items():
        return ranked(relation, tree, column, listed, where)
    return relation.projected([(name, value) for name, value in listed if value is not None], place(select, where))


def _items(select: exp.Select, relation: Relation, scope: Scope) -> Iterator[tuple[str, exp.Expr, Expression | None]]:
    """Name, tree and value of every selected column; windows and ranks have no value yet."""
    translate = relation.translator(scope.functions, scope.where)
    for number, item in enumerate(select.expressions, start=1):
        tree = item.unalias()
        if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
            for name, column in _all(tree, relation, scope.where).items():
                yield name, tree, col(column)
        elif is_rank(tree):
            yield item.alias or call_name(tree.this).lower(), tree, None
        elif group_window(tree, scope.where) or window_part(tree, scope.where):
            yield item.alias or _row_window(tree, relation, scope.where)[1], tree, None
        else:
            yield item.alias or default_name(tree, number), tree, translate(tree)


def _all(tree: exp.Expr, relation: Relation, where: str) -> dict[str, str]:
    """The columns that * or a.* stands for."""
    if tree.args.get("except_") or tree.args.get("replace") or tree.args.get("rename"):
        raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} is not supported; name the columns")
    table = tree.text("table")
    if table and table not in relation.tables:
        near = did_you_mean(table, relation.tables)
        raise SqlError(
            f"{place(tree, where)}: there is no table {table!r}; there are {', '.join(relation.tables)}{near}"
        )
    if not table:
        return relation.columns
    columns = set(relation.tables[table].values())
    return {name: column for name, column in relation.columns.items() if column in columns}


def _row_window(tree: exp.Expr, relation: Relation, where: str) -> tuple[Window | Session, str]:
    """The window of a call in a select list without GROUP BY, and the column it stands for."""
    part = window_part(tree, where)
    found = part[0] if part is not None else group_window(tree, where)
    if found is None or (part is not None and part[1] == "ROWTIME"):
        raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} needs a GROUP BY with that window")
    relation.check_time(found.time, where)
    return found.window, WINDOW_END if part is not None and part[1] == "END" else WINDOW_START


def _distinct(select: exp.Select, relation: Relation, where: str) -> Relation:
    """SELECT DISTINCT among the rows of a window."""
    distinct = select.args.get("distinct")
    if distinct is None:
        return relation
    names = relation.columns
    in_window = set(names.values()) & {*relation.times, *relation.starts}
    if distinct.args.get("on") or not isinstance(relation.window, Window) or not in_window:
        raise SqlError(
            f"{place(select, where)}: 'SELECT DISTINCT' needs the end of a window among its columns, e.g. SELECT "
            "DISTINCT k, window_end FROM TABLE(TUMBLE(...)); a stream without windows would have to be kept for ever"
        )
    flow = relation.output(where)
    flow = flow.key_by(*flow.schema.names).deduplicate(relation.window.size_us / MICROSECONDS)
    return replace(relation, flow=flow, tables={"": {name: name for name in flow.schema.names}})


def _united(tree: exp.SetOperation, scope: Scope) -> Relation:
    if not isinstance(tree, exp.Union) or tree.args.get("distinct") or tree.args.get("by_name"):
        raise SqlError(f"{place(tree, scope.where)}: {tree.key.upper()} is not supported; there is UNION ALL")
    for clause in ("order", "limit", "offset"):
        if tree.args.get(clause):
            place_ = place(tree.args[clause], scope.where)
            raise SqlError(f"{place_}: {quoted(tree.args[clause])!r} is not supported: {_CLAUSES[clause]}")
    relations = [queried(each, scope) for each in _branches(tree)]
    first = relations[0].output(scope.where)
    flows = [first]
    for relation in relations[1:]:
        names = relation.columns
        if len(names) != len(first.schema.names):
            raise SqlError(
                f"{place(tree, scope.where)}: UNION ALL needs queries with the same columns; "
                f"got {', '.join(first.schema.names)} and {', '.join(names)}"
            )
        renamed = dict(zip(first.schema.names, names.values(), strict=True))
        flows.append(replace(relation, tables={"": renamed}).output(scope.where))
    columns = [list(relation.columns.values()) for relation in relations]
    times: dict[str, Later] = {}
    for at, name in enumerate(first.schema.names):
        found = {relation.times.get(names[at]) for relation, names in zip(relations, columns, strict=True)}
        later = found.pop()
        if later is not None and not found:
            times[name] = later
    windows = {relation.window for relation in relations}
    named = {name: name for name in first.schema.names}
    return Relation(first.union(*flows[1:]), {"": named}, times, windows.pop() if len(windows) == 1 else None)


def _branches(tree: exp.Expr) -> list[exp.Expr]:
    """The queries of a UNION ALL, from left to right."""
    if isinstance(tree, exp.Union) and not tree.args.get("distinct") and not tree.args.get("by_name"):
        return [*_branches(tree.this), *_branches(tree.expression)]
    return [tree]
