"""The part of SQL's grammar that is translated: anything else in a statement is refused, never ignored.

A syntax tree has nodes, and nodes have arguments: a table its name, alias and sample. `check_clauses` goes through a
statement before it is translated and refuses arguments that no translation reads. `check_read` goes through it
afterwards and refuses kinds of nodes that none knows; it comes second, since the translation has better messages for
most of them. Arguments that are listed here are either translated or refused where they are.
"""

from collections.abc import Iterator, Mapping

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.sql.dialect import PartitionBy, place, quoted

_TWO = "this expression"
_SET = f"{_TWO} distinct by_name with_ order limit offset"
ARGUMENTS: Mapping[type[exp.Expr], str] = {
    exp.Add: _TWO,
    exp.Alias: "this alias",
    exp.And: _TWO,
    exp.Anonymous: "this expressions",
    exp.Between: "this low high",
    exp.Boolean: "this",
    exp.CTE: "this alias",
    exp.Case: "this ifs default",
    exp.Cast: "this to",
    exp.Column: "this table",
    exp.ColumnConstraint: "kind",
    exp.ColumnDef: "this kind constraints",
    exp.Create: "this kind expression properties",
    exp.DPipe: f"{_TWO} safe",
    exp.DataType: "this expressions",
    exp.DataTypeParam: "this",
    exp.Distinct: "expressions on",
    exp.Div: f"{_TWO} typed safe",
    exp.EQ: _TWO,
    exp.Except: _SET,
    exp.Extract: _TWO,
    exp.Filter: _TWO,
    exp.From: "this",
    exp.GT: _TWO,
    exp.GTE: _TWO,
    exp.Group: "expressions grouping_sets rollup cube all totals",
    exp.Having: "this",
    exp.Identifier: "this quoted",
    exp.If: "this true false",
    exp.In: "this expressions query unnest field",
    exp.Insert: f"{_TWO} overwrite",
    exp.IntDiv: _TWO,
    exp.Intersect: _SET,
    exp.Interval: "this unit",
    exp.Is: _TWO,
    exp.Join: "this on using side kind method match_condition",
    exp.Kwarg: _TWO,
    exp.LT: _TWO,
    exp.LTE: _TWO,
    exp.Like: f"{_TWO} negate",
    exp.Literal: "this is_string",
    exp.MatchRecognize: "partition_by order measures rows after pattern define alias within",
    exp.MatchRecognizeMeasure: "this window_frame",
    exp.Mod: _TWO,
    exp.Mul: _TWO,
    exp.NEQ: _TWO,
    exp.Neg: "this",
    exp.Not: "this",
    exp.NotNullColumnConstraint: "allow_null",
    exp.Null: "",
    exp.NullSafeEQ: _TWO,
    exp.NullSafeNEQ: _TWO,
    exp.Or: _TWO,
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Paren: "this",
    PartitionBy: "expressions",
    exp.Properties: "expressions",
    exp.Property: "this value",
    exp.Schema: "this expressions",
    exp.Select: (
        "expressions from_ where group having joins match distinct with_ order limit offset qualify windows laterals "
        "sample cluster distribute sort connect locks kind into"
    ),
    exp.Star: "except_ replace rename",
    exp.Sub: _TWO,
    exp.Subquery: "this alias",
    exp.Substring: "this start length",
    exp.Table: "this alias partition version pivots",
    exp.TableAlias: "this columns",
    exp.TemporaryProperty: "",
    exp.Union: _SET,
    exp.Var: "this",
    exp.WatermarkColumnConstraint: _TWO,
    exp.Where: "this",
    exp.Window: "this partition_by order spec over",
    exp.With: "expressions recursive",
}
"""The arguments of each kind of node that are read."""
_HINTS: Mapping[tuple[type[exp.Expr], str], str] = {
    (exp.Between, "symmetric"): "write the smaller bound first",
    (exp.CTE, "materialized"): "WITH only names a query; leave it out",
    (exp.Column, "db"): "name columns as table.column",
    (exp.ColumnConstraint, "this"): "constraints have no names here",
    (exp.Create, "exists"): "every table is created once; leave IF NOT EXISTS out",
    (exp.Create, "replace"): "every table is created once; leave OR REPLACE out",
    (exp.Insert, "with_"): "write INSERT INTO t WITH ... SELECT",
    (exp.Order, "this"): "the order of rows changes no aggregate",
    (exp.Select, "hint"): "there are no hints here; leave it out",
    (exp.Table, "db"): "tables have one name, without a schema before it",
    (exp.Table, "joins"): "write joins one after another, without parentheses",
    (exp.Subquery, "sample"): "write a condition in WHERE",
    (exp.Table, "sample"): "write a condition in WHERE",
    (exp.Window, "alias"): "write the window behind OVER",
}
_ELSEWHERE = "there is nothing like it here"


def check_clauses(tree: exp.Expr, where: str) -> None:
    """Refuse a statement that has a clause which nothing reads."""
    for node in tree.walk():
        known = ARGUMENTS.get(type(node))
        if known is None:
            continue
        for name in _given(node):
            if name not in known.split():
                hint = _HINTS.get((type(node), name), _ELSEWHERE)
                clause = "" if name in ("this", "alias") else f"{name.strip('_').upper().replace('_', ' ')} of "
                raise SqlError(f"{place(node, where)}: {clause}{quoted(node)!r} is not supported; {hint}")


def check_read(tree: exp.Expr, where: str) -> None:
    """Refuse a statement with a kind of node that nothing reads."""
    for node in tree.walk():
        if type(node) not in ARGUMENTS:
            raise SqlError(f"{place(node, where)}: {quoted(node)!r} is not supported; {_ELSEWHERE}")


def _given(node: exp.Expr) -> Iterator[str]:
    """The arguments that a statement sets: those that are neither empty nor false."""
    for name, value in node.args.items():
        if value is not None and value is not False and value not in ("", []) and not name.startswith("_"):
            yield name
