"""Runs queries in Python and SQL in one job, and compares every result with DuckDB's over the same files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from tests.small_city import result_tables

from shoal import Flow, Query, Stream, start
from shoal.connectors.sources.source import Source
from shoal.language.sql.script import parse_script
from shoal.session.digest import differences
from shoal.session.job import Job


@dataclass(frozen=True)
class Case:
    """A data set: its streams, its queries in two languages, and how DuckDB reads and answers them."""

    streams: Mapping[str, Stream]
    python: Mapping[str, Flow]
    sql: Mapping[str, str]
    views: str
    in_duckdb: Mapping[str, str]
    prelude: str = ""

    def queries(self) -> list[Query]:
        """All queries; those in SQL are named `sql_...`."""
        text = "".join(f"INSERT INTO sql_{name} {query};\n" for name, query in self.sql.items())
        in_python = [flow.sink(name) for name, flow in self.python.items()]
        return [*in_python, *parse_script(self.prelude + text, streams=self.streams).queries]

    def expected(self, directory: str) -> dict[str, pa.Table]:
        """DuckDB's results, by the names of the queries in both languages."""
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            database.execute(self.views.format(directory=directory))
            found = {name: database.sql(query).to_arrow_table() for name, query in self.in_duckdb.items()}
        tables = {name: found[name] for name in self.python}
        return tables | {f"sql_{name}": found[name] for name in self.sql}

    def compare(
        self, expected: Mapping[str, pa.Table], sources: Mapping[str, Source], on: str, **options: Any
    ) -> Mapping[str, int]:
        """Run all queries at once; every table must be DuckDB's. Returns the dead letters by reason."""
        run = start(Job.of("real", self.queries(), sources), on=on, **options)
        tally = run.wait()
        actual = result_tables(run)
        assert [name for name, table in expected.items() if not table.num_rows] == [], "a query that tests nothing"
        found = differences(with_nulls(actual), with_nulls(expected))
        assert found == [], "\n".join(found)
        return dict(tally.refusals)


def with_nulls(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables with one more column: which columns of a row are null, since a null is no NaN."""
    marked = {}
    for name, table in tables.items():
        columns = [column for column in table.column_names if column != "query"]
        nulls = [pc.if_else(pc.is_null(table[column]), f"{column} ", "") for column in sorted(columns)]
        marked[name] = table.append_column("nulls", pc.binary_join_element_wise(*nulls, ""))
    return marked
