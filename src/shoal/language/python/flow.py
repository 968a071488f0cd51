"""Flows: queries under construction, one operator after another."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from shoal.connectors.admission import DEAD_LETTERS
from shoal.errors import GraphError, SchemaError
from shoal.language.python.spatial_flow import SpatialFlow
from shoal.model.query.aggregate import Aggregate
from shoal.model.query.duration import Duration, duration_us
from shoal.model.query.expression import Expression, as_expression, col, lit
from shoal.model.query.functions import coalesce
from shoal.model.query.graph import Operator, OperatorKind, Query
from shoal.model.query.nulls import narrowed
from shoal.model.query.pattern import After, Selection, uses_previous
from shoal.model.query.schema import TIME, Field, FieldType, Schema
from shoal.model.query.window import LARGEST_US, AnyWindow, Rows, Window

if TYPE_CHECKING:
    from shoal.language.python.join import Band, Table

KEY_TYPES = ("int64", "string", "bool", "timestamp")
LARGEST_GROUPS = 65_536
QUERY = "query"
"""Column of every result table that names the query a row belongs to."""
WINDOW_START = "window_start"
"""Column of a session's result that holds the first event's time."""
WINDOW_END = "window_end"
"""Column of every aggregate's result that holds the end of the window."""


@dataclass(frozen=True)
class Flow(SpatialFlow):
    """A query under construction: every method returns a longer flow and does not change this one."""

    operators: tuple[Operator, ...]
    schema: Schema
    time: str
    keys: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    groups: int = 1

    def __repr__(self) -> str:
        """The kinds of the operators, and the columns."""
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.schema.as_dict().items())
        kinds = " -> ".join(operator.kind for operator in self.operators)
        return f"{type(self).__name__}({kinds}; {columns})"

    def filter(self, condition: Expression) -> "Flow":
        """Keep the rows for which a condition holds."""
        self._check_condition(condition, "filter")
        self.not_inside_window("filter")
        return self.then("filter", {"condition": condition.data()}, narrowed(self.schema, condition))

    def split(self, condition: Expression) -> tuple["Flow", "Flow"]:
        """Two flows: the rows for which a condition holds, and the others, those for which it is null included."""
        those = self.filter(condition)
        holds = coalesce(condition, lit(False)) if condition.may_be_null(self.schema) else condition
        return those, self.filter(~holds)

    def select(self, *names: str, **columns: Any) -> "Flow":
        """Keep the named columns and compute further ones; all others are dropped.

        A stream's window needs its event-time column: name it among the kept ones if a window follows.
        """
        chosen: dict[str, Expression] = {self.column_name(name, "select"): col(name) for name in names}
        chosen.update({name: as_expression(value) for name, value in columns.items()})
        if not chosen:
            raise GraphError(f"{self.location('select')} must keep at least one column")
        self.not_inside_window("select")
        self._no_previous(chosen.values(), "select")
        chosen_fields = tuple(
            Field(name, e.type_in(self.schema, self.location("select")), nullable=e.may_be_null(self.schema))
            for name, e in chosen.items()
        )
        if self.time in columns:
            raise GraphError(f"{self.location('select')} must not redefine the event-time column {self.time!r}")
        parameters = {"columns": [[name, expression.data()] for name, expression in chosen.items()]}
        return self.then("select", parameters, Schema(chosen_fields))

    def with_columns(self, **columns: Any) -> "Flow":
        """Add or replace columns and keep all others."""
        return self.select(*(name for name in self.schema.names if name not in columns), **columns)

    def key_by(self, *names: str) -> "Flow":
        """Group the operator that follows (aggregate, rank, deduplicate, match) by these columns."""
        for name in names:
            self.check_key(name, "key_by")
        return self.changed(keys=tuple(dict.fromkeys((*self.partition, *names))))

    def partition_by(self, *names: str, groups: int) -> "Flow":
        """Cut the operator that follows into key groups that are bound to workers one by one.

        The columns become keys as well. An integer column alone is spread by value modulo `groups`,
        so `partition_by("region", groups=100)` makes each of the regions 0..99 a key group of its own.
        """
        if not names:
            raise GraphError(f"{self.location('partition_by')} needs at least one column")
        self.check_groups(groups, "partition_by")
        for name in names:
            self.check_key(name, "partition_by")
        keys = tuple(dict.fromkeys((*names, *self.keys)))
        return self.changed(keys=keys, partition=names, groups=groups)

    def retime(self, column: str) -> "Flow":
        """Use another timestamp column as event time from here on; it must never be before the event time so far.

        Rows for which it is before the watermark are late.
        """
        self.not_inside_window("retime")
        self._check_timestamp(column, "retime")
        flow = self.then("retime", {"column": column}, self.schema)
        return flow.changed(time=TIME)

    def assign(self, window: Window) -> "Flow":
        """Give every row the `window_start` and `window_end` of each window it belongs to, without aggregating.

        From here on the event time of a row is the end of its window, so rows of one window can be
        ranked or joined with each other.
        """
        self.not_inside_window("assign")
        self.check_time("assign")
        if not isinstance(window, Window):
            raise GraphError(f"{self.location('assign')} needs a window over event time; got {window!r}")
        if window.on or window.clock != "event":
            raise GraphError(
                f"{self.location('assign')} needs a window over event time such as tumbling(10); got {window}"
            )
        added = (Field(WINDOW_START, "timestamp", nullable=False), Field(WINDOW_END, "timestamp", nullable=False))
        schema = self.made_of((*self.schema.fields, *added), "assign")
        return self.then("assign", {**window.data(), "time": self.time}, schema).changed(time=TIME)

    def window(self, window: AnyWindow) -> "Flow":
        """Cut the stream into windows; an aggregate must follow."""
        if not isinstance(window, AnyWindow):
            raise GraphError(f"{self.location('window')} needs a window such as hop(30, 1); got {window!r}")
        self.check_time("window")
        self.not_inside_window("window")
        if isinstance(window, Window) and window.on:
            self._check_timestamp(window.on, "window")
        return self.then("window", window.data(), self.schema)

    def aggregate(self, **aggregates: Aggregate) -> "Flow":
        """Compute aggregates per key and window; the result has the keys, `window_end` and one column each."""
        from shoal.language.python.aggregation import aggregated

        return aggregated(self, aggregates)

    def rank(self, by: str | Iterable[tuple[str, bool]], k: int, *, ties: bool = False, column: str = "rank") -> "Flow":
        """Keep the first k rows per key among the rows of one time, such as the results of one window.

        `by`: a column, largest first, or pairs of columns and whether the largest comes first. Rows that are equal
        there are taken in the order of their columns; with `ties` they have the same rank, and all of them are kept.
        """
        from shoal.language.python.rank import ranked

        return ranked(self, by, k, ties=ties, column=column)

    def deduplicate(self, within_s: Duration) -> "Flow":
        """Drop a row if one with the same keys was kept less than `within_s` seconds of event time before it."""
        self.not_inside_window("deduplicate")
        self.check_time("deduplicate")
        if not self.keys:
            raise GraphError(f"{self.location('deduplicate')} needs key_by or partition_by before it")
        within_us = self.duration_us(within_s, "deduplicate")
        return self.then("deduplicate", {"within_us": within_us, **self.grouped()}, self.schema).fresh()

    def match(
        self,
        pattern: str,
        *,
        within_s: Duration,
        measures: Mapping[str, str],
        define: Mapping[str, Expression] | None = None,
        after: After = "past_last_row",
        selection: Selection = "strict",
    ) -> "Flow":
        """Find runs of rows per key, in the order of event time: `match("A+ B", define={"B": col("stop") == 7}, ...)`.

        A variable without a condition accepts every row. A match lasts at most `within_s`. `after`: where the next
        match may begin. `selection`: `strict` takes rows one after another, `next` passes over rows that do not fit.
        """
        from shoal.language.python.match import matched

        return matched(self, pattern, within_s, measures, define or {}, after, selection)

    def lookup_join(
        self,
        table: "Table",
        *,
        on: str | Mapping[str, str],
        how: str = "inner",
        defaults: Mapping[str, Any] | None = None,
    ) -> "Flow":
        """Add the columns of a static table by key; rows without a match are dropped, or get the defaults."""
        from shoal.language.python.join import looked_up

        return looked_up(self, table, on, how, defaults or {})

    def join(
        self,
        other: "Flow",
        *,
        on: str | Iterable[str] | Mapping[str, str] = (),
        within_s: tuple[Duration, Duration],
        band: "Band | None" = None,
        where: Expression | None = None,
        how: str = "inner",
        defaults: Mapping[str, Any] | None = None,
        suffix: str = "_right",
        groups: int = 1,
    ) -> "Flow":
        """Pair rows of two flows: equal keys, and the other's time between `within_s` seconds after this one's.

        `band`: (column here, column there, least, most) pairs rows whose difference, there less here, lies in
        between; None leaves a side open. `where`: a further condition on the joined row. `how`: `inner`, `left` or
        `full`; missing values get their default (0, "", False), and `has_right` and `has_left` say which exist.
        Columns of the other flow whose names clash get the suffix.
        """
        from shoal.language.python.join import Terms, joined

        return joined(self, other, Terms.of(on, within_s, band, where, how, defaults or {}, suffix, groups))

    def cogroup(
        self,
        other: "Flow",
        window: AnyWindow,
        *,
        on: str | Iterable[str],
        left: Mapping[str, Aggregate],
        right: Mapping[str, Aggregate],
        groups: int = 1,
    ) -> "Flow":
        """Merge the windows of two flows by key: aggregates of both sides, of which one may have no rows."""
        from shoal.language.python.join import cogrouped

        names = (on,) if isinstance(on, str) else tuple(on)
        return cogrouped((self, other), window, names, (left, right), groups)

    def union(self, *others: "Flow") -> "Flow":
        """The rows of several flows with the same columns."""
        from shoal.language.python.join import united

        return united((self, *others))

    def sink(self, name: str, *, table: str | None = None, utility: str | Expression | None = None) -> Query:
        """Name the query and the table its results go to (by default the query's name).

        `utility`: what state is worth if there is no time to move all of it, by the keys that it belongs to, e.g.
        "vip * 10 + 1". It replaces what operators with these keys would expect; results do not depend on it.
        """
        self.not_inside_window("sink")
        table = table or name
        if self.keys:
            raise GraphError(
                f"query {name!r} has keys but no aggregate after them; "
                "add .window(...).aggregate(...), or drop key_by and partition_by"
            )
        if QUERY in self.schema:
            raise GraphError(
                f"query {name!r} must not have a column {QUERY!r}, which is added to every result; select it as another"
            )
        if table == DEAD_LETTERS:
            raise GraphError(f"query {name!r} must not write table {DEAD_LETTERS!r}, where refused rows go")
        if "/" in table or table.startswith("."):
            raise GraphError(f"table of query {name!r} must not begin with '.' or contain '/'; got {table!r}")
        from shoal.language.python.pruning import pruned
        from shoal.language.python.utility import utility_data

        operators = pruned(self).operators
        parameters: dict[str, Any] = {"query": name, "table": table, "columns": self.schema.types}
        if utility is not None:
            parameters["utility"] = utility_data(utility, operators, name)
        return Query(name, (*operators, Operator("sink", parameters, (operators[-1].id,))))

    def then(self, kind: OperatorKind, parameters: Mapping[str, Any], schema: Schema) -> "Flow":
        """The flow with one more operator."""
        operator = Operator(kind, parameters, (self.operators[-1].id,))
        return self.changed(operators=(*self.operators, operator), schema=schema)

    def changed(self, **changes: Any) -> "Flow":
        """The flow with other values."""
        return Flow(**{field.name: changes.get(field.name, getattr(self, field.name)) for field in fields(Flow)})

    def fresh(self) -> "Flow":
        """The flow after an operator with state: without keys, with its own event time."""
        return Flow(self.operators, self.schema, TIME)

    def keyed(self) -> dict[str, Any]:
        """The parameters that every operator with keys has: columns, event time and key groups."""
        parameters: dict[str, Any] = {"types": self.schema.types, "time": self.time}
        if self.partition:
            parameters |= {"partition": list(self.partition), "groups": self.groups}
        return parameters

    def grouped(self) -> dict[str, Any]:
        """The same with the keys themselves."""
        for key in self.keys:
            self.type_of_key(key, self.location("key_by"))
        return {"keys": list(self.keys), **self.keyed()}

    def location(self, what: str) -> str:
        """The operator and its stream, as errors name them."""
        return f"{what} on stream {self.operators[0].parameters['stream']!r}"

    def duration_us(self, duration: object, what: str) -> int:
        """A positive duration as microseconds."""
        found = duration_us(duration, f"duration of {self.location(what)}")
        if not 1 <= found <= LARGEST_US:
            raise GraphError(f"{self.location(what)} needs a positive number of seconds; got {duration!r}")
        return found

    def check_key(self, name: str, what: str) -> None:
        """Reject unknown columns and types that cannot be a key."""
        type_ = col(self.column_name(name, what)).type_in(self.schema, self.location(what))
        if type_ not in KEY_TYPES:
            raise GraphError(f"{self.location(what)} needs columns of type {', '.join(KEY_TYPES)}; {name!r} is {type_}")

    def check_groups(self, groups: int, what: str) -> None:
        """Reject impossible numbers of key groups."""
        if type(groups) is not int or not 1 <= groups <= LARGEST_GROUPS:
            raise GraphError(f"{self.location(what)} needs between 1 and {LARGEST_GROUPS} groups; got {groups}")

    def without_keys(self, what: str) -> None:
        """Reject keys that no operator would use."""
        if self.keys:
            raise GraphError(
                f"{self.location(what)} does not go by key_by or partition_by; got keys {', '.join(self.keys)}; "
                "leave them out, or name them in on= of a join"
            )

    def not_inside_window(self, what: str) -> None:
        """Reject anything but an aggregate after a window."""
        if self.operators[-1].kind == "window":
            raise GraphError(f"{self.location(what)} must not stand between a window and its aggregate")

    def made_of(self, columns: tuple[Field, ...], what: str) -> Schema:
        """The schema of an operator's results."""
        try:
            return Schema(columns)
        except SchemaError as error:
            raise GraphError(f"{self.location(what)}: {error}") from error

    def type_of_key(self, key: str, where: str) -> FieldType:
        """Type of a key, which a select may have dropped or redefined since it was named."""
        if key not in self.schema:
            raise GraphError(f"{where}: key {key!r} is no longer a column; there are {', '.join(self.schema.names)}")
        type_ = self.schema.type_of(key)
        if type_ not in KEY_TYPES:
            raise GraphError(f"{where}: key {key!r} must be {', '.join(KEY_TYPES)}; a select has made it {type_}")
        return type_

    def column_name(self, name: Any, what: str) -> str:
        """The name of a column; anything else is rejected."""
        if not isinstance(name, str):
            raise GraphError(f"{self.location(what)} needs names of columns; got {name!r}")
        return name

    def _check_condition(self, condition: Expression, what: str) -> None:
        if not isinstance(condition, Expression):
            raise GraphError(f"{self.location(what)} needs an expression such as col('speed') > 0; got {condition!r}")
        self._no_previous([condition], what)
        type_ = condition.type_in(self.schema, self.location(what))
        if type_ != "bool":
            raise GraphError(f"{self.location(what)} needs a condition; {condition.text} is {type_}")

    def _no_previous(self, expressions: Iterable[Expression], what: str) -> None:
        if any(uses_previous(expression) for expression in expressions):
            raise GraphError(
                f"{self.location(what)} cannot read the previous row; prev is for the conditions of a match"
            )

    def check_time(self, what: str) -> None:
        """Reject operators that need event time if a select has dropped it."""
        if self.time != TIME and self.time not in self.schema:
            raise GraphError(
                f"{self.location(what)} needs the event-time column {self.time!r}; "
                f"there are only {', '.join(self.schema.names)}; keep it in the select before"
            )

    def _check_timestamp(self, column: str, what: str) -> None:
        type_ = col(self.column_name(column, what)).type_in(self.schema, self.location(what))
        if type_ != "timestamp":
            raise GraphError(f"{self.location(what)} needs a timestamp column; {column!r} is {type_}")
        if self.schema.may_be_null(column):
            raise GraphError(
                f"{self.location(what)} needs a column that is never null; {column!r} may be; declare it "
                f"'timestamp not null', filter nulls out, or replace them with coalesce"
            )


def closed_by_rows(window: AnyWindow) -> bool:
    """Whether rows of its key, in order, close a window, and not the watermark alone."""
    return isinstance(window, Rows) or (isinstance(window, Window) and bool(window.on))
