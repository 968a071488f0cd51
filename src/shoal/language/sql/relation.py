"""Relations: the result of FROM, a flow with the SQL names of its columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from shoal.errors import SqlError, did_you_mean
from shoal.language.python.flow import WINDOW_END, WINDOW_START, Flow
from shoal.language.sql.dialect import place, quoted
from shoal.language.sql.expressions import Translator
from shoal.language.sql.windows import ROWTIME, ROWTIME_US, WINDOW_TIME, part_of
from shoal.model.query.expression import Column, Expression, col
from shoal.model.query.functions import Function
from shoal.model.query.schema import TIME, Schema
from shoal.model.query.window import Session, Window

Later = tuple[int, int]
"""Least and most microseconds from a column's time to the row's event time."""
AT_ONCE: Later = (0, 0)
AT_END: Later = (-1, -1)


@dataclass(frozen=True)
class Rank:
    """A ROW_NUMBER() or RANK() before the condition that limits its rows is known."""

    keys: tuple[str, ...]
    by: tuple[tuple[str, bool], ...]
    ties: bool
    column: str


@dataclass(frozen=True)
class Relation:
    """A flow and how SQL names it.

    `tables`: by table alias, the flow's column of each visible name; a flow may have more columns.
    `times`: columns that hold the rows' event time, and how much later than they say rows happen, least and most:
    what a window gives happens a microsecond before its end, and what a join gives at the later of two times,
    which `latest` are expressions of.
    `window`: the window each row stands for, `starts`: columns that hold its start.
    `pending`: the window of a table function that nothing has used yet, `partition`: the columns of its PARTITION BY.
    `rank`: one without its limit.
    """

    flow: Flow
    tables: Mapping[str, Mapping[str, str]]
    times: Mapping[str, Later]
    window: Window | Session | None = None
    starts: frozenset[str] = frozenset()
    pending: Window | Session | None = None
    partition: frozenset[str] = frozenset()
    rank: Rank | None = None
    latest: frozenset[str] = frozenset()

    @classmethod
    def of(cls, flow: Flow, alias: str) -> "Relation":
        """A flow whose columns are all visible under their own names."""
        return cls(flow, {alias: {name: name for name in flow.schema.names}}, {flow.time: AT_ONCE})

    @property
    def end(self) -> str:
        """The column with the end of the rows' window, or an empty text."""
        ends = (name for name, later in self.times.items() if later == AT_END)
        return next(ends, "") if self.window is not None else ""

    @property
    def columns(self) -> dict[str, str]:
        """The flow's columns by the names they would have in the result of SELECT *."""
        visible: dict[str, str] = {}
        for alias, names in self.tables.items():
            for name, column in names.items():
                if column not in visible.values():
                    free = (each for each in (name, column, f"{name}_right") if each not in visible)
                    visible[next(free, f"{name}_{alias}")] = column
        return visible

    def named(self, alias: str, columns: Sequence[str] = (), where: str = "sql") -> "Relation":
        """The relation under one name, its columns under others if these are given: FROM t AS alias (columns)."""
        visible = self.columns
        if columns and (len(columns) != len(visible) or len(set(columns)) < len(columns)):
            raise SqlError(
                f"{where}: {alias!r} needs a name for each of the columns {', '.join(visible)}, all different; "
                f"got {', '.join(columns)}"
            )
        return replace(self, tables={alias: dict(zip(columns or visible, visible.values(), strict=True))})

    def resolve(self, tree: exp.Expr, where: str) -> str:
        """The flow's column of a name."""
        table, name = tree.text("table"), tree.name
        if table and table not in self.tables:
            raise SqlError(
                f"{place(tree, where)}: there is no table {table!r} for {quoted(tree)!r}; "
                f"there are {self._known_tables}{did_you_mean(table, self.tables)}"
            )
        within = [self.tables[table]] if table else list(self.tables.values())
        found = {names[name] for names in within if name in names}
        if len(found) > 1:
            raise SqlError(
                f"{place(tree, where)}: column {name!r} is in several tables; say which: {self._known_tables}"
            )
        if not found:
            known = tuple(dict.fromkeys(each for names in within for each in names))
            near = did_you_mean(name, known)
            raise SqlError(f"{place(tree, where)}: unknown column {quoted(tree)!r}; there are {', '.join(known)}{near}")
        return found.pop()

    @property
    def _known_tables(self) -> str:
        return ", ".join(alias or "a sub-query without a name" for alias in self.tables)

    def translator(
        self,
        functions: Mapping[str, Function],
        where: str,
        special: Callable[[exp.Expr], Expression | None] | None = None,
        schema: Schema | None = None,
    ) -> Translator:
        """Translates expressions over this relation's columns to the flow's columns, or to those of a schema."""

        def found(tree: exp.Expr) -> Expression | None:
            found = special(tree) if special else None
            if found is None and isinstance(tree, exp.Column):
                return col(self.resolve(tree, where))
            return found

        return Translator(found, functions, where, lambda: schema or self.flow.schema)

    def windowed(self, window: Window | Session, partition: frozenset[str]) -> "Relation":
        """The relation with a table function around it, whose window columns are visible."""
        alias, names = next(iter(self.tables.items()))
        added = {name: name for name in (WINDOW_START, WINDOW_END, WINDOW_TIME)}
        return replace(self, tables={alias: {**names, **added}}, pending=window, partition=partition)

    def settled(self, where: str) -> "Relation":
        """The relation with the window of its table function given to every row."""
        return self if self.pending is None else self.assigned(self.pending, where)

    def assigned(self, window: Window | Session, where: str) -> "Relation":
        """The relation with every row in each of its windows, once per window."""
        if self.window == window and WINDOW_END in self.flow.schema:
            return self
        if isinstance(window, Session):
            raise SqlError(f"{where}: a session window needs a GROUP BY; only TUMBLE and HOP can be given to rows")
        flow = self.timed().flow.assign(window)
        tables = {
            alias: {name: column for name, column in names.items() if column != WINDOW_TIME}
            for alias, names in self.tables.items()
        }
        ends, starts = {WINDOW_END: AT_END}, frozenset({WINDOW_START})
        return replace(self, flow=flow, tables=tables, times=ends, window=window, starts=starts, pending=None)

    def timed(self) -> "Relation":
        """The relation with its event-time column in place, even if a select has given it another name."""
        other = next((name for name, later in self.times.items() if later == AT_ONCE), None)
        if self.flow.time == TIME or self.flow.time in self.flow.schema or other is None:
            return self
        return replace(self, flow=self.flow.retime(other))

    def check_time(self, tree: exp.Expr, where: str, window: Window | Session | None = None) -> None:
        """Reject windows over anything but event time, except the window that rows already have."""
        name = self.resolve(tree, where)
        if window is not None and window == self.window:
            return
        least, most = self.times.get(name, (0, -1))
        if least != most:
            exact = " or ".join(name for name, (least, most) in self.times.items() if least == most)
            known = exact or "GREATEST(a.ts, b.ts) behind a join, LAST(ts) behind a match"
            raise SqlError(f"{place(tree, where)}: a window must go by the event time, {known}; got {quoted(tree)!r}")

    def narrowed(self) -> "Relation":
        """The relation with visible columns and its event time only."""
        names = {*self.columns.values(), *self.times, self.flow.time}
        if names >= set(self.flow.schema.names):
            return self
        return replace(self, flow=self.flow.select(*(name for name in self.flow.schema.names if name in names)))

    def projected(self, items: Iterable[tuple[str, Expression]], where: str) -> "Relation":
        """The relation with other columns: a select, unless all of them are there under their own names."""
        chosen: dict[str, Expression] = {}
        for name, value in items:
            if name in chosen:
                raise SqlError(f"{where}: column {name!r} stands twice in a SELECT; name one of them with AS")
            chosen[name] = value
        plain = {name: isinstance(value, Column) and value.name == name for name, value in chosen.items()}
        if all(plain.values()):
            return replace(self, tables={"": {name: name for name in chosen}})
        flow = _select(self.flow, chosen, plain)
        found = {name: self._later(value) for name, value in chosen.items()}
        times = {name: later for name, later in found.items() if later is not None}
        starts = frozenset(name for name, value in chosen.items() if self._is_start(value))
        return Relation(flow, {"": {name: name for name in chosen}}, times, self.window, starts)

    def _later(self, value: Expression) -> Later | None:
        """How far the event time of rows is after a value, if that is an event time."""
        if isinstance(value, Column):
            return self.times.get(value.name)
        if self.times.get(WINDOW_END) == AT_END and value.text == ROWTIME.text:
            return ROWTIME_US - 1, ROWTIME_US - 1
        return AT_ONCE if value.text in self.latest else None

    def _is_start(self, value: Expression) -> bool:
        if isinstance(value, Column):
            return value.name in self.starts
        return isinstance(self.window, Window) and value.text == part_of(self.window, "START").text

    def extended(self, items: Iterable[tuple[str, Expression]]) -> "Relation":
        """The relation with computed columns in addition to all others; only the items are visible."""
        visible, computed = {}, {}
        for name, value in items:
            visible[name] = value.name if isinstance(value, Column) else name
            if not isinstance(value, Column):
                computed[name] = value
        flow = self.flow.with_columns(**computed) if computed else self.flow
        return replace(self, flow=flow, tables={"": visible})

    def check_limited(self, where: str) -> None:
        """Reject a rank that would keep every row."""
        if self.rank is not None:
            name = self.rank.column
            raise SqlError(f"{where}: {name!r} needs a limit: WHERE {name} <= 3 in the query right around it")

    def output(self, where: str) -> Flow:
        """The flow with exactly the visible columns, in order."""
        self.check_limited(where)
        names = self.columns
        if tuple(names) == tuple(names.values()) == self.flow.schema.names:
            return self.flow
        if tuple(names) == tuple(names.values()):
            return self.flow.select(*names)
        return self.projected([(name, col(column)) for name, column in names.items()], where).flow


def _select(flow: Flow, chosen: Mapping[str, Expression], plain: Mapping[str, bool]) -> Flow:
    """A select whose columns stand in the order of SQL: kept ones first, unless the event time comes later."""
    names = list(chosen)
    first = next((at for at, name in enumerate(names) if not plain[name]), len(names))
    if flow.time in names[first:] and plain[flow.time]:
        kept = [name for name in names if plain[name]]
        computed = {name: value for name, value in chosen.items() if not plain[name]}
        return flow.select(*kept, **computed).select(*names)
    return flow.select(*names[:first], **{name: chosen[name] for name in names[first:]})
