"""Scripts: the statements of a SQL text, and the queries and streams they make.

>>> script = parse_script('''
...     CREATE TABLE cars (ts TIMESTAMP(3), road BIGINT, speed DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
...         WITH ('connector' = 'files', 'path' = 'cars', 'format' = 'csv');
...     INSERT INTO averages
...         SELECT road, TUMBLE_END(ts, INTERVAL '10' SECOND) AS window_end, AVG(speed) AS speed
...         FROM cars GROUP BY road, TUMBLE(ts, INTERVAL '10' SECOND);
... ''')
>>> [operator.kind for operator in script.queries[0].operators]
['source', 'window', 'aggregate', 'sink']
>>> script.tables["cars"].options["format"]
'csv'
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from shoal.errors import SqlError
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.sql.dialect import STATEMENTS, parse, place, quoted
from shoal.language.sql.expressions import TYPES, interval_us
from shoal.language.sql.grammar import check_clauses, check_read
from shoal.language.sql.relation import Relation
from shoal.language.sql.select import Scope, queried
from shoal.model.query.duration import MICROSECONDS
from shoal.model.query.functions import Function
from shoal.model.query.graph import Query
from shoal.model.query.schema import NOT_NULL, Schema

Role = Literal["source", "sink", "unused"]
_WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"


@dataclass(frozen=True)
class TableOptions:
    """A table as CREATE TABLE declares it: columns, the WITH options as they stand, and what the script uses it for."""

    name: str
    columns: Mapping[str, str]
    options: Mapping[str, str]
    role: Role = "unused"


@dataclass(frozen=True)
class Script:
    """What a text declares: streams (those given and those created), queries in their order, and tables."""

    streams: Mapping[str, Stream]
    queries: tuple[Query, ...]
    tables: Mapping[str, TableOptions]


@dataclass
class _Reading:
    """A script under construction."""

    functions: Mapping[str, Function]
    where: str
    streams: dict[str, Stream] = field(default_factory=dict)
    relations: dict[str, Relation] = field(default_factory=dict)
    tables: dict[str, TableOptions] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)

    def take(self, tree: exp.Expr) -> None:
        """Read one statement."""
        if isinstance(tree, exp.Create) and tree.kind == "TABLE" and isinstance(tree.this, exp.Schema):
            self._create_table(tree)
        elif isinstance(tree, exp.Create) and tree.kind == "VIEW" and isinstance(tree.this, exp.Table):
            self._check_view(tree)
            self.relations[tree.this.name] = self._query(tree.expression).named(tree.this.name)
        elif isinstance(tree, exp.Insert) and tree.expression is not None:
            self._insert(tree)
        elif isinstance(tree, exp.Query):
            number = sum(query.name.startswith("query_") for query in self.queries) + 1
            self.queries.append(self._query(tree).output(self.where).sink(f"query_{number}"))
        else:
            at = place(tree, self.where)
            raise SqlError(f"{at}: {quoted(tree)!r} is not supported; statements are {STATEMENTS}")

    def _query(self, tree: exp.Expr) -> Relation:
        relation = queried(tree, Scope(self.relations, self.functions, self.where))
        relation.check_limited(place(tree, self.where))
        return relation

    def _check_new(self, tree: exp.Table) -> None:
        if tree.name in self.relations or tree.name in self.tables:
            raise SqlError(f"{place(tree, self.where)}: table {tree.name!r} is created twice")

    def _check_view(self, tree: exp.Create) -> None:
        """Reject properties of a view other than TEMPORARY, which every view is."""
        self._check_new(tree.this)
        properties = tree.args.get("properties")
        for each in properties.expressions if properties is not None else ():
            if not isinstance(each, exp.TemporaryProperty):
                raise SqlError(f"{place(tree, self.where)}: {quoted(each)!r} of a view is not supported; leave it out")

    def _create_table(self, tree: exp.Create) -> None:
        name = tree.this.this.name
        self._check_new(tree.this.this)
        columns: dict[str, str] = {}
        watermark: exp.Expr | None = None
        for part in tree.this.expressions:
            at = place(part, self.where)
            if isinstance(part, exp.ColumnDef):
                if part.name in columns:
                    raise SqlError(f"{at}: table {name!r} has column {part.name!r} twice")
                columns[part.name] = self._type(part)
            elif isinstance(part, exp.WatermarkColumnConstraint) and watermark is None:
                watermark = part
            else:
                raise SqlError(f"{at}: {quoted(part)!r} of table {name!r} is not supported; {_WATERMARK} is, once")
        self.tables[name] = TableOptions(name, columns, self._options(tree))
        if watermark is not None:
            time, lateness_s = self._watermark(watermark)
            idle_s = self._idle(name)
            self.streams[name] = Stream(name, columns, time=time, lateness_s=lateness_s, idle_s=idle_s)
            self.relations[name] = Relation.of(self.streams[name], name)

    def _type(self, column: exp.ColumnDef) -> str:
        """The type of a column, such as `int64`, or `int64 not null`."""
        kind = column.args.get("kind")
        nulls = [each.kind for each in column.constraints if isinstance(each.kind, exp.NotNullColumnConstraint)]
        type_ = TYPES.get(kind.this) if isinstance(kind, exp.DataType) else None
        if type_ is None or len(nulls) < len(column.constraints) or len(nulls) > 1:
            raise SqlError(
                f"{place(column, self.where)}: column {quoted(column)!r} is not supported; types are BIGINT, DOUBLE, "
                "STRING, BOOLEAN and TIMESTAMP(3), perhaps NOT NULL, and columns are neither computed nor metadata"
            )
        return type_ + NOT_NULL if nulls and not nulls[0].args.get("allow_null") else type_

    def _watermark(self, tree: exp.Expr) -> tuple[str, float]:
        """The event-time column and how late rows may be."""
        column, value = tree.this, tree.expression
        if isinstance(value, exp.Sub) and value.this == column:
            return column.name, interval_us(value.expression, self.where) / MICROSECONDS
        if value != column:
            raise SqlError(f"{place(tree, self.where)}: {quoted(tree)!r} is not supported; write {_WATERMARK}")
        return column.name, 0.0

    def _idle(self, name: str) -> float | None:
        """The limit of idleness, if a table has that option."""
        text = self.tables[name].options.get("idle_s")
        if text is None:
            return None
        try:
            idle_s = float(text)
        except ValueError:
            idle_s = math.nan
        if not 0 < idle_s < math.inf:
            raise SqlError(
                f"{self.where}: option 'idle_s' of table {name!r} must be a number of seconds above 0; got {text!r}"
            )
        return idle_s

    def _options(self, tree: exp.Create) -> dict[str, str]:
        properties = tree.args.get("properties")
        options: dict[str, str] = {}
        for each in properties.expressions if properties is not None else ():
            if not isinstance(each, exp.Property) or not isinstance(each.args.get("value"), exp.Literal):
                at = place(each, self.where)
                raise SqlError(f"{at}: {quoted(each)!r} is not supported; options are WITH ('key' = 'value')")
            if each.name in options:
                raise SqlError(f"{place(each, self.where)}: option {each.name!r} is given twice")
            options[each.name] = str(each.args["value"].this)
        return options

    def _insert(self, tree: exp.Insert) -> None:
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        table = target.name
        if table in self.relations:
            raise SqlError(
                f"{place(target, self.where)}: {table!r} is read as a stream and cannot be written; "
                "insert into a table without WATERMARK"
            )
        if tree.args.get("overwrite"):
            raise SqlError(f"{place(target, self.where)}: INSERT OVERWRITE is not supported; results are added")
        relation = self._query(tree.expression)
        wanted = Schema.of(self.tables[table].columns) if table in self.tables else None
        if isinstance(tree.this, exp.Schema):
            relation = self._reordered(relation, [column.name for column in tree.this.expressions], wanted, target)
        flow = self._fitted(relation, wanted, target)
        name, number = table, 1
        while any(query.name == name for query in self.queries):
            number += 1
            name = f"{table}_{number}"
        self.queries.append(flow.sink(name, table=table))

    def _reordered(self, relation: Relation, names: list[str], wanted: Schema | None, table: exp.Expr) -> Relation:
        """The columns under the names that INSERT INTO t (...) lists, in the table's order."""
        columns = relation.columns
        order = names if wanted is None else wanted.names
        if len(columns) != len(names) or set(names) != set(order) or len(set(names)) < len(names):
            raise SqlError(
                f"{place(table, self.where)}: INSERT INTO {table.name!r} needs all columns {', '.join(order)}; "
                f"got ({', '.join(names)}) for {', '.join(columns)}"
            )
        renamed = dict(zip(names, columns.values(), strict=True))
        return replace(relation, tables={"": {name: renamed[name] for name in order}})

    def _fitted(self, relation: Relation, wanted: Schema | None, table: exp.Expr) -> Flow:
        """The columns of a query as its table has them: in the same positions, of the same types, null if they may."""
        columns = relation.columns
        if wanted is None:
            return relation.output(self.where)
        found = relation.flow.schema
        types = [found.type_of(column) for column in columns.values()]
        at = place(table, self.where)
        if types != list(wanted.types.values()):
            got = ", ".join(f"{name} {type_}" for name, type_ in zip(columns, types, strict=True))
            needs = ", ".join(f"{name} {type_}" for name, type_ in wanted.types.items())
            raise SqlError(f"{at}: INSERT INTO {table.name!r} needs the columns {needs}; got {got}")
        renamed = dict(zip(wanted.names, columns.values(), strict=True))
        for name, column in renamed.items():
            if found.may_be_null(column) and not wanted.may_be_null(name):
                raise SqlError(
                    f"{at}: column {name!r} of {table.name!r} is NOT NULL, and the query may give NULL; "
                    "use COALESCE, or WHERE ... IS NOT NULL"
                )
        return replace(relation, tables={"": renamed}).output(self.where)

    def done(self) -> Script:
        """The script, with every table's role."""
        read = {stream for query in self.queries for stream in query.streams}
        written = {query.table for query in self.queries}
        roles: dict[str, Role] = {**dict.fromkeys(written, "sink"), **dict.fromkeys(read, "source")}
        tables = {name: replace(table, role=roles.get(name, "unused")) for name, table in self.tables.items()}
        return Script(self.streams, tuple(self.queries), tables)


def parse_script(
    text: str,
    *,
    streams: Mapping[str, Stream] | None = None,
    functions: Mapping[str, Function] | None = None,
    where: str = "sql",
) -> Script:
    """The queries of a SQL text, over given streams and those it creates; every error begins with `where`.

    INSERT INTO t SELECT ... makes a query named after its table, the others are query_1, query_2 and so on.
    """
    reading = _Reading(functions or {}, where, dict(streams or {}))
    for name, stream in reading.streams.items():
        reading.relations[name] = Relation.of(stream, name)
    try:
        for tree in parse(text, where):
            check_clauses(tree, where)
            reading.take(tree)
            check_read(tree, where)
    except RecursionError:
        raise SqlError(f"{where}: the text is nested too deeply to be read") from None
    if not reading.queries:
        raise SqlError(f"{where}: there is no query; write a SELECT or INSERT INTO t SELECT")
    return reading.done()
