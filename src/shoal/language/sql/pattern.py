"""MATCH_RECOGNIZE in SQL: runs of rows that a pattern describes."""

from collections.abc import Mapping

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import interval_us
from shoal.language.sql.relation import Relation
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.expression import Expression, col
from shoal.model.query.functions import Function
from shoal.model.query.pattern import After, pattern, prev
from shoal.model.query.window import LARGEST_US

_MEASURES = {"AVG": "mean", **{name.upper(): name for name in ("first", "last", "count", "sum", "min", "max")}}
_AFTER: Mapping[str, After] = {
    "": "past_last_row",
    "AFTER MATCH SKIP PAST LAST ROW": "past_last_row",
    "AFTER MATCH SKIP TO NEXT ROW": "next_row",
}
LONGEST_S = LARGEST_US / MICROSECONDS
"""Longest match by default: no limit."""


def matched(relation: Relation, tree: exp.Expr, functions: Mapping[str, Function], where: str) -> Relation:
    """A relation of matches: the columns of PARTITION BY and the measures."""
    relation = relation.settled(where).timed()
    keys = [relation.resolve(_column(each, "PARTITION BY", where), where) for each in tree.args["partition_by"] or ()]
    _check_order(relation, tree, where)
    rows, after = tree.text("rows") or "ONE ROW PER MATCH", tree.text("after")
    if rows != "ONE ROW PER MATCH":
        raise SqlError(f"{place(tree, where)}: {rows!r} is not supported; there is ONE ROW PER MATCH")
    if after not in _AFTER:
        raise SqlError(
            f"{place(tree, where)}: {after!r} is not supported; there are "
            f"{' and '.join(name for name in _AFTER if name)}"
        )
    text = tree.text("pattern")
    if not text:
        raise SqlError(f"{place(tree, where)}: MATCH_RECOGNIZE needs a PATTERN, e.g. PATTERN (A+ B)")
    variables = pattern(text).variables
    define = {
        each.alias: _condition(relation, each.this, each.alias, variables, functions, where)
        for each in tree.args.get("define") or ()
    }
    measures = dict(_measure(each, relation, variables, where) for each in tree.args.get("measures") or ())
    limit = tree.args.get("within")
    within_s = LONGEST_S if limit is None else interval_us(limit, where) / MICROSECONDS
    flow = relation.flow.key_by(*keys) if keys else relation.flow
    flow = flow.match(text, within_s=within_s, measures=measures, define=define, after=_AFTER[after])
    last = pattern(text).elements[-1]
    within = f"{last.variables[0]}." if len(last.variables) == 1 and last.least else ""
    ends = {f"last({prefix}{time})": later for time, later in relation.times.items() for prefix in ("", within)}
    times = {name: ends[said] for name, said in measures.items() if said in ends}
    alias = tree.args["alias"].name if tree.args.get("alias") else ""
    return Relation(flow, {alias: {name: name for name in flow.schema.names}}, times)


def _check_order(relation: Relation, tree: exp.Expr, where: str) -> None:
    order = tree.args.get("order")
    by = order.expressions if order is not None else []
    if len(by) != 1 or by[0].args.get("desc"):
        got = quoted(order) if order is not None else "no ORDER BY"
        raise SqlError(f"{place(tree, where)}: MATCH_RECOGNIZE goes by the event time, ORDER BY ts; got {got!r}")
    relation.check_time(_column(by[0].this, "ORDER BY", where), where)


def _column(tree: exp.Expr, clause: str, where: str) -> exp.Column:
    if not isinstance(tree, exp.Column):
        raise SqlError(f"{place(tree, where)}: {clause} of MATCH_RECOGNIZE takes columns; got {quoted(tree)!r}")
    return tree


def _condition(
    relation: Relation,
    tree: exp.Expr,
    variable: str,
    variables: tuple[str, ...],
    functions: Mapping[str, Function],
    where: str,
) -> Expression:
    """The condition of a variable, over the current row and, with PREV, the previous one."""

    def special(node: exp.Expr) -> Expression | None:
        if call_name(node) == "PREV":
            return prev(_own(node.expressions[0] if len(node.expressions) == 1 else node))
        if isinstance(node, exp.Column):
            return col(_own(node))
        return None

    def _own(node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            raise SqlError(f"{place(node, where)}: {quoted(node)!r} is not supported in DEFINE; there is PREV(column)")
        if node.table and node.table != variable and node.table in variables:
            raise SqlError(
                f"{place(node, where)}: {variable!r} reads rows of {node.table!r} in {quoted(node)!r}; "
                "a condition sees its own row and, with PREV, the one before"
            )
        return relation.resolve(exp.column(node.name) if node.table == variable else node, where)

    return relation.translator(functions, where, special)(tree)


def _measure(tree: exp.Expr, relation: Relation, variables: tuple[str, ...], where: str) -> tuple[str, str]:
    """A measure's name and text, as a match has them."""
    item = tree.this
    call = item.unalias()
    if tree.args.get("window_frame") == "RUNNING":
        raise SqlError(
            f"{place(tree, where)}: {quoted(tree)!r} is not supported; measures are those of the whole match"
        )
    if isinstance(call, exp.Column):
        call = exp.Anonymous(this="LAST", expressions=[call])
    name = call_name(call)
    inner = call.expressions[0] if name in _MEASURES and len(call.expressions) == 1 else None
    if not isinstance(inner, exp.Column | exp.Star) or not item.alias:
        raise SqlError(
            f"{place(tree, where)}: measures are {', '.join(_MEASURES)} of a column, such as FIRST(A.ts) AS began; "
            f"got {quoted(tree)!r}"
        )
    if isinstance(inner, exp.Star):
        return item.alias, f"{_MEASURES[name]}(*)"
    if isinstance(inner.this, exp.Star):
        return item.alias, f"{_MEASURES[name]}({inner.table})"
    variable = inner.table if inner.table in variables else ""
    column = relation.resolve(exp.column(inner.name) if variable else inner, where)
    if name == "COUNT" and not relation.flow.schema.may_be_null(column):
        return item.alias, f"count({variable or '*'})"
    return item.alias, f"{_MEASURES[name]}({variable + '.' if variable else ''}{column})"
