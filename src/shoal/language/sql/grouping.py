"""GROUP BY in SQL: keys, a window and aggregates, and what is computed from them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.python.flow import WINDOW_END, WINDOW_START
from shoal.language.sql.dialect import call_name, place, quoted
from shoal.language.sql.expressions import Translator, conjunction, conjuncts
from shoal.language.sql.relation import AT_END, Relation
from shoal.language.sql.windows import PARTS, GroupWindow, Part, group_window, part_of, window_part
from shoal.model.query.aggregate import (
    Aggregate,
    approx_distinct,
    count,
    count_distinct,
    max_,
    mean,
    min_,
    stddev,
    sum_,
    top_k,
    variance,
)
from shoal.model.query.expression import Column, Constant, Expression, col
from shoal.model.query.functions import Call, Function, Null
from shoal.model.query.schema import Field, Schema
from shoal.model.query.window import Session, Window

AGGREGATES: Mapping[str, Callable[[str], Aggregate]] = {
    "COUNT": count,
    "SUM": sum_,
    "AVG": mean,
    "MIN": min_,
    "MAX": max_,
    "VAR_SAMP": variance,
    "VARIANCE": variance,
    "STDDEV": stddev,
    "STDDEV_SAMP": stddev,
    "APPROX_COUNT_DISTINCT": approx_distinct,
}
NAMES = (*AGGREGATES, "TOP_K")
RETRACTIONS = (
    "results that change later (retractions) are out of scope; add a window, "
    "e.g. GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
)


@dataclass
class Grouping:
    """One GROUP BY under construction: columns computed before it, its keys, window and aggregates."""

    select: exp.Select
    relation: Relation
    functions: Mapping[str, Function]
    where: str
    window: Window | Session | None = None
    parts: dict[str, Expression] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    computed: dict[str, Expression] = field(default_factory=dict)
    aggregates: dict[str, Aggregate] = field(default_factory=dict)

    def take_group(self) -> None:
        """Read the GROUP BY clause."""
        group = self.select.args.get("group")
        if group is not None and any(
            group.args.get(form) for form in ("grouping_sets", "rollup", "cube", "all", "totals")
        ):
            raise SqlError(
                f"{place(group, self.where)}: {quoted(group)!r} is not supported; GROUP BY takes columns and a window"
            )
        for tree in group.expressions if group is not None else ():
            self._take_item(self._meant(tree))
        if self.window is None:
            self._group_again(group)
        self._check_sessions(group)

    def _check_sessions(self, group: exp.Expr | None) -> None:
        """Sessions of a table function are those of its PARTITION BY, which must be the keys."""
        keys = set(self.keys.values())
        if group is not None and isinstance(self.relation.pending, Session) and keys != set(self.relation.partition):
            raise SqlError(
                f"{place(group, self.where)}: {quoted(group)!r} must have the columns of the table function's "
                f"PARTITION BY, {', '.join(sorted(self.relation.partition)) or 'none'}, and its window; write "
                "SESSION(TABLE t PARTITION BY keys, DESCRIPTOR(ts), gap)"
            )

    def _take_item(self, tree: exp.Expr) -> None:
        found = group_window(tree, self.where)
        if found is not None:
            self._take_window(found)
        elif self.relation.pending is not None and isinstance(tree, exp.Column) and tree.name in PARTS:
            self.window = self.relation.pending
        else:
            self._take_key(tree)

    def _meant(self, tree: exp.Expr) -> exp.Expr:
        """What an item of the clause says: an expression, or the position or name of one in the select list."""
        items = self.select.expressions
        if isinstance(tree, exp.Literal) and not tree.is_string:
            if not tree.this.isdigit() or not 1 <= int(tree.this) <= len(items):
                raise SqlError(
                    f"{place(tree, self.where)}: GROUP BY takes positions from 1 to {len(items)}; got {quoted(tree)!r}"
                )
            return items[int(tree.this) - 1].unalias()
        named = {item.alias: item.unalias() for item in items if item.alias}
        known = any(tree.name in names for names in self.relation.tables.values())
        if isinstance(tree, exp.Column) and not tree.table and not known and tree.name in named:
            return named[tree.name]
        return tree

    def _take_window(self, found: GroupWindow) -> None:
        self.relation.check_time(found.time, self.where)
        if self.window is not None and self.window != found.window:
            at = place(found.time, self.where)
            raise SqlError(f"{at}: a GROUP BY has one window; got {self.window} and {found.window}")
        self.window = found.window

    def _take_key(self, tree: exp.Expr) -> None:
        value = self.relation.translator(self.functions, self.where)(tree)
        alias = next((i.alias for i in self.select.expressions if i.alias and i.unalias() == tree), "")
        self.keys[value.text] = self._column(value, alias or f"key_{len(self.keys) + 1}")

    def _group_again(self, group: exp.Expr | None) -> None:
        """Rows that represent windows may be grouped by them: those of one window are in one slide."""
        window, end = self.relation.window, self.relation.end
        known = {end: part_of(window, "END")} if end and isinstance(window, Window) else {}
        known |= {start: part_of(window, "START") for start in self.relation.starts if known and window is not None}
        self.parts = {text: known[name] for text, name in self.keys.items() if name in known}
        if not self.parts or not isinstance(window, Window) or self.relation.pending is not None:
            clause = quoted(group) if group is not None else "an aggregate without GROUP BY"
            at = place(self.select if group is None else group, self.where)
            raise SqlError(f"{at}: {clause!r} is not supported: {RETRACTIONS}")
        self.window = Window(window.slide_us, window.slide_us)
        self.keys = {text: name for text, name in self.keys.items() if text not in self.parts}

    def _column(self, value: Expression, name: str) -> str:
        """The column with a value, computed before the window if there is no such column."""
        if isinstance(value, Column):
            return value.name
        for known, expression in self.computed.items():
            if expression.text == value.text:
                return known
        while name in self.relation.flow.schema or name in self.computed:
            name += "_"
        self.computed[name] = value
        return name

    def special(self, tree: exp.Expr) -> Expression | None:
        """What a node means after the aggregate: a key, a part of the window, or an aggregate."""
        part = self._part(tree)
        if part is not None and self.window is not None:
            return part_of(self.window, part)
        if is_aggregate(tree):
            return col(self._aggregate(tree, ""))
        text = self._text(tree)
        if text in self.parts:
            return self.parts[text]
        if text in self.keys:
            return col(self.keys[text])
        if isinstance(tree, exp.Column):
            self.relation.resolve(tree, self.where)
            raise SqlError(
                f"{place(tree, self.where)}: {quoted(tree)!r} must stand in GROUP BY or in an aggregate "
                f"({', '.join(NAMES)})"
            )
        return None

    def _text(self, tree: exp.Expr) -> str:
        """The text of a tree before the aggregate; empty if it is valid only after it."""
        with suppress(SqlError):
            return self.relation.translator(self.functions, self.where)(tree).text
        return ""

    def _part(self, tree: exp.Expr) -> Part | None:
        if isinstance(tree, exp.Column) and self.relation.pending is not None:
            return PARTS.get(tree.name)
        found = window_part(tree, self.where)
        if found is None:
            return None
        if found[0].window != self.window:
            raise SqlError(
                f"{place(tree, self.where)}: {quoted(tree)!r} names another window than GROUP BY, "
                f"which has {self.window}"
            )
        return found[1]

    def _aggregate(self, tree: exp.Expr, alias: str) -> str:
        """The name of an aggregate, which is computed once unless it is selected under several names."""
        aggregate = self._read_aggregate(tree, alias)
        if not alias:
            for name, known in self.aggregates.items():
                if known == aggregate:
                    return name
        name = alias or default_name(tree)
        while name in self.aggregates or name in self.keys.values():
            name += "_"
        self.aggregates[name] = aggregate
        return name

    def _read_aggregate(self, tree: exp.Expr, alias: str) -> Aggregate:
        """An aggregate; with FILTER it is that of the values of some rows and of nulls for the others."""
        call, rows = (tree.this, tree.expression.this) if isinstance(tree, exp.Filter) else (tree, None)
        translate = self.relation.translator(self.functions, self.where)
        where = None if rows is None else translate.condition(rows)
        name, arguments = call_name(call), call.expressions
        distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = arguments[0].expressions
        wanted = 2 if name == "TOP_K" else 1
        if len(arguments) != wanted or (distinct and name != "COUNT"):
            raise SqlError(f"{place(tree, self.where)}: {quoted(tree)!r} is not supported; aggregates take one value")
        if isinstance(arguments[0], exp.Star):
            return self._counted(call, where, alias, distinct=distinct)
        value = translate(arguments[0])
        if where is not None:
            value = Call("if", (where, value, Null(translate.type_of(value, arguments[0]))))
        if name == "COUNT" and not distinct and not translate.may_be_null(value):
            return count()
        column = self._column(value, alias or default_name(tree))
        if name == "TOP_K":
            return top_k(column, self._k(arguments[1]))
        return count_distinct(column) if distinct else AGGREGATES[name](column)

    def _k(self, tree: exp.Expr) -> int:
        k = self.relation.translator(self.functions, self.where).constant(tree)
        if type(k) is not int:
            raise SqlError(f"{place(tree, self.where)}: TOP_K takes a whole number of values; got {quoted(tree)!r}")
        return k

    def _counted(self, call: exp.Expr, where: Expression | None, alias: str, *, distinct: bool) -> Aggregate:
        """COUNT(*): of all rows, or as a sum of 1 for those that FILTER wants and 0 for all others."""
        if call_name(call) != "COUNT" or distinct:
            raise SqlError(f"{place(call, self.where)}: {quoted(call)!r} is not supported; only COUNT takes *")
        if where is None:
            return count()
        return sum_(self._column(Call("if", (where, Constant(1), Constant(0))), alias or default_name(call)))

    def schema(self) -> Schema:
        """The columns of the aggregate's results, as far as they are known."""
        before = self.relation.flow.schema
        computed = (
            Field(name, value.type_in(before, self.where), nullable=value.may_be_null(before))
            for name, value in self.computed.items()
        )
        rows = Schema((*before.fields, *computed))
        found = {name: replace(rows.field(name), name=name) for name in self.keys.values()}
        found |= {name: Field(name, "timestamp", nullable=False) for name in (WINDOW_START, WINDOW_END)}
        for name, each in self.aggregates.items():
            each.check(rows, f"{self.where}: {name!r}")
            found[name] = Field(name, each.output_type(rows), nullable=each.may_be_null(rows))
        return Schema(tuple(found.values()))

    def items(self, translate: Translator) -> list[tuple[str, Expression]]:
        """The select list after the aggregate."""
        found: list[tuple[str, Expression]] = []
        for number, item in enumerate(self.select.expressions, start=1):
            tree = item.unalias()
            if isinstance(tree, exp.Star):
                raise SqlError(f"{place(tree, self.where)}: '*' does not go with GROUP BY; name the columns")
            if is_aggregate(tree):
                column = self._aggregate(tree, item.alias)
                found.append((item.alias or column, col(column)))
            else:
                found.append((item.alias or self._default(tree, number), translate(tree)))
        return found

    def _default(self, tree: exp.Expr, number: int) -> str:
        part = self._part(tree)
        if part is not None:
            return next(name for name, each in PARTS.items() if each == part)
        return default_name(tree, number)


def grouped(select: exp.Select, relation: Relation, functions: Mapping[str, Function], where: str) -> Relation:
    """A relation after GROUP BY and HAVING, with the columns of the select list."""
    grouping = Grouping(select, relation, functions, where)
    grouping.take_group()
    translate = Translator(grouping.special, functions, where, grouping.schema)
    items = grouping.items(translate)
    named = {name: value for name, value in items if not any(name in names for names in relation.tables.values())}

    def by_name(tree: exp.Expr) -> Expression | None:
        plain = isinstance(tree, exp.Column) and not tree.table and tree.name in named
        return named[tree.name] if plain else grouping.special(tree)

    having = select.args.get("having")
    after = Translator(by_name, functions, where, grouping.schema)
    conditions = [after.condition(each) for each in conjuncts(having.this if having else None)]
    results = _aggregated(grouping)
    condition = conjunction(conditions)
    if condition is not None:
        results = replace(results, flow=results.flow.filter(condition))
    return results.projected(items, place(select, where))


def _aggregated(grouping: Grouping) -> Relation:
    flow = grouping.relation.timed().flow
    if grouping.computed:
        flow = flow.with_columns(**grouping.computed)
    keys = tuple(dict.fromkeys(grouping.keys.values()))
    if keys:
        flow = flow.key_by(*keys)
    window = grouping.window
    assert window is not None
    flow = flow.window(window).aggregate(**(grouping.aggregates or {"count": count()}))
    starts = frozenset({WINDOW_START} if isinstance(window, Session) else ())
    stands_for = grouping.relation.window if grouping.parts else window
    return Relation(flow, {"": {}}, {WINDOW_END: AT_END}, stands_for, starts)


def is_aggregate(tree: exp.Expr) -> bool:
    """Whether a tree is a call of an aggregate."""
    return call_name(tree.this if isinstance(tree, exp.Filter) else tree) in NAMES


def has_aggregates(select: exp.Select) -> bool:
    """Whether a select list or HAVING has aggregates other than those OVER a window."""
    trees = [*select.expressions, *filter(None, [select.args.get("having")])]
    found = (call for tree in trees for call in tree.find_all(exp.Anonymous) if call_name(call) in NAMES)
    return any(not isinstance(call.parent, exp.Window) for call in found)


def default_name(tree: exp.Expr, number: int = 1) -> str:
    """The name of a column that has none: its own, or that of its function and the column in it."""
    if isinstance(tree, exp.Column):
        return tree.name
    call = tree.this if isinstance(tree, exp.Filter) else tree
    if not isinstance(call, exp.Anonymous):
        return f"column_{number}"
    inner = call.find(exp.Column)
    return "_".join([call.name.lower(), *([inner.name] if inner is not None else [])])
