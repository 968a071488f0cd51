"""ROW_NUMBER() and RANK() in SQL: the first rows of every window."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.relation import Rank, Relation
from shoal.language.sql.windows import group_window, window_part
from shoal.model.query.expression import Column, Expression

_FUNCTIONS = {"ROW_NUMBER": False, "RANK": True}
_SWAPPED = {"gte": "lte", "gt": "lt", "lte": "gte", "lt": "gt"}
"""What a comparison is with its sides exchanged."""
_FORM = "ROW_NUMBER() or RANK() OVER (PARTITION BY columns and a window ORDER BY columns)"


def is_rank(tree: exp.Expr) -> bool:
    """Whether a tree is a function OVER rows; only ranks are supported."""
    return isinstance(tree, exp.Window)


def ranked(
    relation: Relation, tree: exp.Expr, column: str, items: Sequence[tuple[str, Expression | None]], where: str
) -> Relation:
    """A relation with a rank whose limit is not known yet; the item without a value is the rank."""
    name = call_name(tree.this)
    order = tree.args.get("order")
    if name not in _FUNCTIONS or tree.this.expressions or tree.args.get("spec") or order is None:
        raise SqlError(f"{place(tree, where)}: {quoted(tree)!r} is not supported; there is {_FORM}, and no frame")
    for part in tree.args.get("partition_by") or ():
        found = group_window(part, where) or (window_part(part, where) or (None,))[0]
        if found is not None:
            relation.check_time(found.time, where, found.window)
            relation = relation.assigned(found.window, where)
    keys = tuple(dict.fromkeys(_key(part, relation, where) for part in tree.args.get("partition_by") or ()))
    if not any(key in relation.times for key in keys):
        raise SqlError(
            f"{place(tree, where)}: {quoted(tree)!r} would change with every row; PARTITION BY a window: window_end, "
            "or TUMBLE(ts, INTERVAL '10' SECOND)"
        )
    by = tuple(_order(each, relation, where) for each in order.expressions)
    values = [(each, value) for each, value in items if value is not None]
    replaced = [each for each, value in values if not isinstance(value, Column) and each in {*keys, *dict(by)}]
    if replaced:
        raise SqlError(
            f"{place(tree, where)}: column {replaced[0]!r} is redefined beside {quoted(tree)!r}; name it otherwise"
        )
    relation = relation.extended(values)
    visible = relation.tables[""]
    names = {each: column if value is None else visible[each] for each, value in items}
    return replace(relation, tables={"": names}, rank=Rank(keys, by, _FUNCTIONS[name], column))


def _key(tree: exp.Expr, relation: Relation, where: str) -> str:
    """A column of PARTITION BY; a window is known by its end."""
    end = relation.end
    if group_window(tree, where) or window_part(tree, where):
        return end
    if not isinstance(tree, exp.Column):
        raise SqlError(f"{place(tree, where)}: PARTITION BY takes columns and a window; got {quoted(tree)!r}")
    name = relation.resolve(tree, where)
    return end if name in relation.starts and end else name


def _order(tree: exp.Expr, relation: Relation, where: str) -> tuple[str, bool]:
    if not isinstance(tree, exp.Ordered) or not isinstance(tree.this, exp.Column):
        raise SqlError(
            f"{place(tree, where)}: a rank is ordered by columns; got {quoted(tree)!r}; compute it in a sub-query"
        )
    if tree.args.get("nulls_first"):
        raise SqlError(
            f"{place(tree, where)}: {quoted(tree)!r} is not supported; nulls are ranked last, in both orders"
        )
    return relation.resolve(tree.this, where), bool(tree.args.get("desc"))


def limited(relation: Relation, conditions: Iterable[exp.Expr], where: str) -> tuple[Relation, list[exp.Expr]]:
    """A relation with its rank limited by one of the conditions, and the other conditions."""
    rank = relation.rank
    rest: list[exp.Expr] = []
    for condition in conditions:
        most = _limit(condition, relation, where) if rank is not None else None
        if rank is None or most is None:
            rest.append(condition)
            continue
        flow = relation.timed().flow.key_by(*rank.keys).rank(rank.by, most, ties=rank.ties, column=rank.column)
        relation, rank = replace(relation, flow=flow, rank=None), None
    return relation, rest


def _limit(tree: exp.Expr, relation: Relation, where: str) -> int | None:
    """How many rows a condition on the rank keeps; None for other conditions."""
    value, limit, kind = tree.args.get("this"), tree.args.get("expression"), tree.key
    if isinstance(value, exp.Literal):
        value, limit, kind = limit, value, _SWAPPED.get(kind, kind)
    if relation.rank is None or not isinstance(value, exp.Column) or not isinstance(limit, exp.Literal):
        return None
    number_given = not limit.is_string and str(limit.this).isdigit()
    if relation.resolve(value, where) != relation.rank.column or not number_given:
        return None
    number = int(limit.this)
    if kind == "lte" or (kind == "eq" and number == 1):
        return number
    return number - 1 if kind == "lt" else None
