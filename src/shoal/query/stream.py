"""Writing queries: a stream, what is done to it, and where the answers go.

>>> from shoal.model.aggregate import mean
>>> from shoal.model.expression import col
>>> from shoal.model.window import hop
>>> cars = Stream("cars", {"ts": "timestamp", "road": "int64", "speed": "float64"}, time="ts")
>>> query = (
...     cars.filter(col("speed") > 0).key_by("road").window(hop(30, 1)).aggregate(avg=mean("speed")).sink("avg_speed")
... )
>>> [operator.kind for operator in query.operators]
['source', 'filter', 'window', 'aggregate', 'sink']
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from shoal.connectors.admission import DEAD_LETTERS
from shoal.errors import GraphError, SchemaError
from shoal.model.aggregate import Aggregate
from shoal.model.expression import Expression, as_expression, col
from shoal.model.graph import Operator, OperatorKind, Query
from shoal.model.schema import STREAM_TYPES, Field, FieldType, Schema
from shoal.model.window import LARGEST_US, MICROSECONDS, Window

KEY_TYPES = ("int64", "string", "bool", "timestamp")
LARGEST_GROUPS = 65_536
QUERY = "query"
"""Column of every result table that names the query a row belongs to."""
WINDOW_END = "window_end"
"""Column of every aggregate's result that holds the end of the window."""


@dataclass(frozen=True)
class Flow:
    """A query in the making: every method returns a longer one and leaves this one as it was."""

    operators: tuple[Operator, ...]
    schema: Schema
    time: str
    keys: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    groups: int = 1

    def filter(self, condition: Expression) -> "Flow":
        """Keep the rows for which a condition holds."""
        if not isinstance(condition, Expression):
            raise GraphError(f"{self._place('filter')} needs an expression such as col('speed') > 0; got {condition!r}")
        type_ = condition.type_in(self.schema, self._place("filter"))
        if type_ != "bool":
            raise GraphError(f"{self._place('filter')} needs a condition; {condition.text} is {type_}")
        self._not_inside_window("filter")
        return self._then("filter", {"condition": condition.data()}, self.schema)

    def select(self, *names: str, **columns: Any) -> "Flow":
        """Keep the named columns and compute further ones; nothing else goes on.

        A window needs the event-time column: name it among the kept ones if a window follows.
        """
        chosen: dict[str, Expression] = {self._name(name, "select"): col(name) for name in names}
        chosen.update({name: as_expression(value) for name, value in columns.items()})
        if not chosen:
            raise GraphError(f"{self._place('select')} must keep at least one column")
        self._not_inside_window("select")
        chosen_fields = tuple(Field(name, e.type_in(self.schema, self._place("select"))) for name, e in chosen.items())
        if self.time in columns:
            raise GraphError(f"{self._place('select')} must not redefine the event-time column {self.time!r}")
        parameters = {"columns": [[name, expression.data()] for name, expression in chosen.items()]}
        return self._then("select", parameters, Schema(chosen_fields))

    def with_columns(self, **columns: Any) -> "Flow":
        """Add or replace columns and keep all others."""
        return self.select(*(name for name in self.schema.names if name not in columns), **columns)

    def key_by(self, *names: str) -> "Flow":
        """Group the aggregate that follows by these columns."""
        for name in names:
            self._check_key(name, "key_by")
        return self._with(keys=tuple(dict.fromkeys((*self.partition, *names))))

    def partition_by(self, *names: str, groups: int) -> "Flow":
        """Cut the aggregate that follows into key groups that are bound to workers one by one.

        The columns become keys as well. An integer column alone is spread by value modulo `groups`,
        so `partition_by("region", groups=100)` makes each of the regions 0..99 a key group of its own.
        """
        if not names:
            raise GraphError(f"{self._place('partition_by')} needs at least one column")
        if type(groups) is not int or not 1 <= groups <= LARGEST_GROUPS:
            raise GraphError(f"{self._place('partition_by')} needs between 1 and {LARGEST_GROUPS} groups; got {groups}")
        for name in names:
            self._check_key(name, "partition_by")
        keys = tuple(dict.fromkeys((*names, *self.keys)))
        return self._with(keys=keys, partition=names, groups=groups)

    def window(self, window: Window) -> "Flow":
        """Cut event time into windows; an aggregate must follow."""
        if not isinstance(window, Window):
            raise GraphError(f"{self._place('window')} needs a window such as hop(30, 1); got {window!r}")
        if self.time not in self.schema:
            raise GraphError(
                f"{self._place('window')} needs the event-time column {self.time!r}; "
                f"there are only {', '.join(self.schema.names)}; keep it in the select before"
            )
        if any(operator.kind == "aggregate" for operator in self.operators):
            raise GraphError(f"{self._place('window')}: a window over another window's results is not supported yet")
        self._not_inside_window("window")
        return self._then("window", {"size_us": window.size_us, "slide_us": window.slide_us}, self.schema)

    def aggregate(self, **aggregates: Aggregate) -> "Flow":
        """Compute aggregates per key and window; the result has the keys, `window_end` and one column each."""
        if self.operators[-1].kind != "window":
            raise GraphError(f"{self._place('aggregate')} must follow a window")
        if not aggregates:
            raise GraphError(f"{self._place('aggregate')} needs at least one aggregate, e.g. n=count()")
        schema = self._answer_schema(aggregates)
        parameters: dict[str, Any] = {
            "keys": list(self.keys),
            "aggregates": {name: [a.kind, a.column, a.k] for name, a in aggregates.items()},
            "types": self.schema.as_dict(),
            "time": self.time,
        }
        if self.partition:
            parameters |= {"partition": list(self.partition), "groups": self.groups}
        done = self._then("aggregate", parameters, schema)
        return Flow(done.operators, schema, WINDOW_END)

    def sink(self, name: str, *, table: str | None = None) -> Query:
        """Name the query and the table its results go to (the query's own name unless told otherwise)."""
        self._not_inside_window("sink")
        table = table or name
        if self.keys:
            raise GraphError(
                f"query {name!r} has keys but no aggregate behind them; "
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
        parameters = {"query": name, "table": table, "columns": self.schema.as_dict()}
        return Query(name, (*self.operators, Operator("sink", parameters, (self.operators[-1].id,))))

    def _then(self, kind: OperatorKind, parameters: Mapping[str, Any], schema: Schema) -> "Flow":
        operator = Operator(kind, parameters, (self.operators[-1].id,))
        return self._with(operators=(*self.operators, operator), schema=schema)

    def _with(self, **changes: Any) -> "Flow":
        return Flow(**{field.name: changes.get(field.name, getattr(self, field.name)) for field in fields(Flow)})

    def _place(self, what: str) -> str:
        return f"{what} on stream {self.operators[0].parameters['stream']!r}"

    def _answer_schema(self, aggregates: Mapping[str, Aggregate]) -> Schema:
        """The columns of an aggregate's result: keys, window end and aggregates."""
        place = self._place("aggregate")
        answers = [Field(key, self._type_of_key(key, place)) for key in self.keys]
        answers.append(Field(WINDOW_END, "timestamp"))
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise GraphError(f"{place}: {name!r} must be an aggregate like mean('speed'); got {aggregate!r}")
            aggregate.check(self.schema, f"{place} {name!r}")
            answers.append(Field(name, aggregate.output_type(self.schema)))
        try:
            return Schema(tuple(answers))
        except SchemaError as error:
            raise GraphError(f"{place}: {error}") from error

    def _type_of_key(self, key: str, place: str) -> FieldType:
        """Type of a key, which a select may have dropped or redefined since it was named."""
        if key not in self.schema:
            raise GraphError(f"{place}: key {key!r} is no longer a column; there are {', '.join(self.schema.names)}")
        type_ = self.schema.type_of(key)
        if type_ not in KEY_TYPES:
            raise GraphError(f"{place}: key {key!r} must be {', '.join(KEY_TYPES)}; a select has made it {type_}")
        return type_

    def _name(self, name: str, what: str) -> str:
        if not isinstance(name, str):
            raise GraphError(f"{self._place(what)} needs names of columns; got {name!r}")
        return name

    def _check_key(self, name: str, what: str) -> None:
        type_ = col(self._name(name, what)).type_in(self.schema, self._place(what))
        if type_ not in KEY_TYPES:
            raise GraphError(f"{self._place(what)} needs columns of type {', '.join(KEY_TYPES)}; {name!r} is {type_}")

    def _not_inside_window(self, what: str) -> None:
        if self.operators[-1].kind == "window":
            raise GraphError(f"{self._place(what)} must not stand between a window and its aggregate")


class Stream(Flow):
    """Named, typed events with an event-time column: where every query begins.

    `lateness_s`: how far behind the newest event another may be and still count; the watermark trails by it.
    `max_ahead_s`: events further ahead of the clock than this are dead letters, so that one broken clock
    cannot make everything else late; None takes any time.
    """

    def __init__(
        self,
        name: str,
        schema: Mapping[str, str],
        *,
        time: str,
        lateness_s: float = 0.0,
        max_ahead_s: float | None = 86_400.0,
    ) -> None:
        """Declare a stream; nothing is read yet."""
        if not name.isidentifier():
            raise SchemaError(f"stream name must be an identifier; got {name!r}")
        columns = Schema.of(schema)
        for field in columns.fields:
            if field.type not in STREAM_TYPES:
                raise SchemaError(
                    f"column {field.name!r} of stream {name!r} must be {', '.join(STREAM_TYPES)}; got {field.type}"
                )
        if time not in columns or columns.type_of(time) != "timestamp":
            raise SchemaError(f"event time of stream {name!r} must be a timestamp column; got {time!r}")
        for what, seconds in (("lateness_s", lateness_s), ("max_ahead_s", max_ahead_s or 0.0)):
            if not 0 <= seconds <= LARGEST_US / MICROSECONDS:
                raise SchemaError(
                    f"{what} of stream {name!r} must be between 0 and {LARGEST_US // MICROSECONDS}; got {seconds}"
                )
        parameters = {
            "stream": name,
            "schema": columns.as_dict(),
            "time": time,
            "lateness_us": round(lateness_s * MICROSECONDS),
            "max_ahead_us": None if max_ahead_s is None else round(max_ahead_s * MICROSECONDS),
        }
        super().__init__((Operator("source", parameters),), columns, time)

    @property
    def name(self) -> str:
        """The stream's name."""
        return str(self.operators[0].parameters["stream"])
