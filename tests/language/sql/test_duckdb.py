"""SQL over nulls and NaN: the results of the reference runtime are those of DuckDB."""

import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.connectors.sources.files import Files
from shoal.session.run import start
from shoal.session.script import job_from_sql

ROWS = 240
TABLE = "ts TIMESTAMP NOT NULL, k BIGINT, i BIGINT NOT NULL, x DOUBLE, nan DOUBLE, s VARCHAR, b BOOLEAN"
IN_WINDOWS = "(SELECT *, time_bucket(INTERVAL 10 SECOND, ts) + INTERVAL 10 SECOND AS window_end FROM {})"
NEAR = "r.ts BETWEEN l.ts - INTERVAL '2' SECOND AND l.ts + INTERVAL '2' SECOND"

STATEMENTS = {
    "comparisons with null are unknown": "SELECT i, s FROM l WHERE x > 1 OR k = 2",
    "the opposite of unknown is unknown": "SELECT i FROM l WHERE NOT (x > 1 AND k = 2)",
    "a condition that is unknown does not hold": "SELECT i FROM l WHERE b",
    "is null": "SELECT i, k IS NULL AS a, s IS NOT NULL AS c FROM l WHERE x IS NULL OR s IS NULL",
    "is true": "SELECT i, b IS TRUE AS t, b IS NOT TRUE AS nt, b IS FALSE AS f, b IS UNKNOWN AS u FROM l",
    "is distinct from": (
        "SELECT i, k IS DISTINCT FROM 2 AS a, k IS NOT DISTINCT FROM i AS c, s IS DISTINCT FROM NULL AS d FROM l"
    ),
    "the first that is not null": (
        "SELECT i, COALESCE(k, i, 7) AS a, IFNULL(s, '?') AS c, COALESCE(NULL, x) AS d FROM l"
    ),
    "null where equal": "SELECT i, NULLIF(k, i) AS a, NULLIF(s, 'a') AS c FROM l",
    "case without else": "SELECT i, CASE WHEN x > 1 THEN s WHEN b THEN 'b' END AS c FROM l",
    "case of a value": "SELECT i, CASE k WHEN 1 THEN 'one' WHEN NULL THEN 'never' ELSE 'other' END AS c FROM l",
    "a null that a case gives": "SELECT i, CASE WHEN b THEN NULL ELSE x END AS c, CAST(NULL AS BIGINT) AS n FROM l",
    "arithmetic with null": "SELECT i, k + i AS a, x * 2 AS c, -k AS d, x / i AS e, x + NULL AS f FROM l WHERE i <> 0",
    "in a list": "SELECT i, k IN (1, 2) AS a, k NOT IN (1, 2) AS c, s IN ('a', 'b') AS d FROM l",
    "in a list with null": "SELECT i, k IN (1, NULL) AS a, k NOT IN (1, NULL) AS c FROM l",
    "nothing is outside of a list with null": "SELECT i FROM l WHERE k NOT IN (1, NULL)",
    "between": "SELECT i, x BETWEEN 1 AND 3 AS a, i BETWEEN k AND 4 AS c, x NOT BETWEEN 1 AND NULL AS d FROM l",
    "texts": "SELECT i, s || '!' AS a, UPPER(s) AS c, LENGTH(s) AS d, s LIKE 'a%' AS e, s NOT LIKE '%b%' AS f FROM l",
    "least and greatest pass over null": (
        "SELECT i, LEAST(k, i) AS a, GREATEST(k, i, NULL) AS c, LEAST(x, nan) AS d FROM l"
    ),
    "NaN is a value, equal to itself and the largest": (
        "SELECT i, nan > 1 AS a, nan = nan AS c, nan <> 2 AS d, nan IS NULL AS e, GREATEST(nan, x) AS f, "
        "nan >= 1e300 AS g FROM l"
    ),
    "aggregates skip nulls": (
        "SELECT k, window_end, COUNT(*) AS n, COUNT(x) AS nx, SUM(x) AS s, AVG(x) AS a, MIN(x) AS l, MAX(x) AS h, "
        "COUNT(DISTINCT s) AS d, SUM(i) AS si FROM l10 GROUP BY k, window_end"
    ),
    "aggregates of nothing but nulls": (
        "SELECT i, window_end, COUNT(NULLIF(k, i)) AS n, SUM(NULLIF(i, i)) AS s, MAX(NULLIF(x, x)) AS m, "
        "AVG(NULLIF(i, i)) AS a, COUNT(DISTINCT NULLIF(s, s)) AS d FROM l10 GROUP BY i, window_end"
    ),
    "null is a group": "SELECT s, b, window_end, COUNT(*) AS n FROM l10 GROUP BY s, b, window_end",
    "having is unknown": "SELECT k, window_end, SUM(x) AS s FROM l10 GROUP BY k, window_end HAVING SUM(x) > 4 OR k > 2",
    "aggregates of some rows": (
        "SELECT i, window_end, COUNT(*) FILTER (WHERE b) AS n, COUNT(k) FILTER (WHERE x > 1) AS c, "
        "SUM(x) FILTER (WHERE b) AS s, AVG(x) FILTER (WHERE k = 1) AS a, MIN(k) FILTER (WHERE NOT b) AS m "
        "FROM l10 GROUP BY i, window_end"
    ),
    "NaN in aggregates": (
        "SELECT k, window_end, MIN(nan) AS l, MAX(nan) AS h, SUM(nan) AS s FROM l10 GROUP BY k, window_end"
    ),
    "distinct rows": "SELECT DISTINCT k, b, window_end FROM l10",
    "windows over the rows of outer joins": (
        "SELECT MIN(t) AS first, COUNT(*) AS n, COUNT(x) AS m FROM (SELECT GREATEST(l.ts, r.ts) AS t, "
        f"r.x FROM l LEFT JOIN r ON l.k = r.k AND l.i = r.i AND {NEAR}) GROUP BY TUMBLE(t, INTERVAL '10' SECOND)"
    ),
    "windows over the rows of a full join": (
        "SELECT MIN(t) AS first, COUNT(*) AS n, COUNT(i) AS m FROM (SELECT GREATEST(l.ts, r.ts) AS t, "
        f"l.i FROM l FULL JOIN r ON l.k = r.k AND l.i = r.i AND {NEAR}) GROUP BY TUMBLE(t, INTERVAL '10' SECOND)"
    ),
    "nulls are ranked last": (
        "SELECT k, s, i, window_end FROM (SELECT *, RANK() OVER (PARTITION BY window_end ORDER BY k DESC NULLS LAST) "
        "AS p FROM l10) WHERE p <= 3"
    ),
    "null equals no null in a join": f"SELECT l.i, r.i AS j, l.k FROM l JOIN r ON l.k = r.k AND {NEAR}",
    "a left join": f"SELECT l.i, l.k, r.k AS rk, r.x, r.s FROM l LEFT JOIN r ON l.k = r.k AND {NEAR} AND r.x > 1",
    "a left join with a condition on the left side": (
        f"SELECT l.i, r.i AS j FROM l LEFT JOIN r ON l.k = r.k AND {NEAR} AND l.x > 2"
    ),
    "rows without a partner": f"SELECT l.i, l.ts FROM l LEFT JOIN r ON l.k = r.k AND {NEAR} WHERE r.k IS NULL",
    "a right join": f"SELECT l.i, l.s, r.i AS j, r.k FROM l RIGHT JOIN r ON l.k = r.k AND {NEAR} AND l.b",
    "a full join": (
        "SELECT l.i, l.k, r.i AS j, r.k AS rk, COALESCE(l.k, r.k, -1) AS either FROM l "
        f"FULL JOIN r ON l.k = r.k AND {NEAR}"
    ),
    "a condition behind a full join": (
        f"SELECT l.i, r.i AS j FROM l FULL JOIN r ON l.k = r.k AND {NEAR} WHERE l.x > r.x"
    ),
    "a full join of groups": (
        "SELECT k, window_end, a.n, c.m FROM (SELECT k, window_end, COUNT(x) AS n FROM l10 GROUP BY k, window_end) a "
        "FULL JOIN (SELECT k, window_end, SUM(x) AS m FROM r10 WHERE b GROUP BY k, window_end) c USING (k, window_end)"
    ),
    "two left joins": (
        f"SELECT l.i, r.x AS a, q.s AS c FROM l LEFT JOIN r ON l.k = r.k AND {NEAR} AND r.b "
        "LEFT JOIN r AS q ON q.i = l.i AND q.ts = l.ts"
    ),
    "nulls are ranked last in ascending order": (
        "SELECT x, i, window_end FROM (SELECT *, RANK() OVER (PARTITION BY window_end, b ORDER BY x, i) AS p FROM l10) "
        "WHERE 3 >= p"
    ),
    "both of two tables": "SELECT i, k, s FROM l WHERE b UNION ALL SELECT i, k, NULLIF(s, 'b') AS s FROM r WHERE NOT b",
    "columns by the names of an alias": "SELECT a, c FROM (SELECT i, k FROM l) AS v (a, c) WHERE c IS NULL",
}


def random_rows(seed: int) -> pa.Table:
    draw = random.Random(seed)
    columns = {
        "ts": pa.array([at // 4 * 1_000_000 for at in range(ROWS)], pa.timestamp("us")),
        "k": [draw.choice([None, 1, 2, 3]) for _ in range(ROWS)],
        "i": [draw.randrange(6) for _ in range(ROWS)],
        "x": [draw.choice([None, 1.0, 1.5, 2.0, 3.25]) for _ in range(ROWS)],
        "nan": [draw.choice([None, 1.0, math.inf, math.nan]) for _ in range(ROWS)],
        "s": [draw.choice([None, "", "a", "b", "ab"]) for _ in range(ROWS)],
        "b": [draw.choice([None, False, True]) for _ in range(ROWS)],
    }
    return pa.table(columns)


TABLES = {"l": random_rows(1), "r": random_rows(2)}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """The results of all statements, from one run."""
    directory: Path = tmp_path_factory.mktemp("sql")
    texts = [f"CREATE TABLE {name} ({TABLE}, WATERMARK FOR ts AS ts);" for name in TABLES]
    for number, statement in enumerate(STATEMENTS.values()):
        text = re.sub(
            r"FROM ([lr])10", r"FROM TABLE(TUMBLE(TABLE \1, DESCRIPTOR(ts), INTERVAL '10' SECOND))", statement
        )
        texts.append(f"INSERT INTO q{number} {text};")
    for name, table in TABLES.items():
        (directory / name).mkdir()
        pq.write_table(table, directory / name / "1.parquet")
    sources = {name: Files(str(directory / name), follow=False) for name in TABLES}
    run = start(job_from_sql("\n".join(texts), "nulls", sources=sources), on="reference")
    assert not run.wait().refusals
    found = {}
    for number, name in enumerate(STATEMENTS):
        table = run.sink.table(f"q{number}").drop_columns(["query"])  # type: ignore[attr-defined]
        found[name] = [tuple(row.values()) for row in table.to_pylist()]
    return found


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO TUMBLE(t, size) AS time_bucket(size, t)")
        for name, table in TABLES.items():
            connection.register(name, table)
            connection.execute(f"CREATE VIEW {name}10 AS {IN_WINDOWS.format(name)}")
        yield connection


def comparable(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows in one order; sums of floats to 9 digits, NaN and null as words."""
    return sorted(repr(tuple(f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row)) for row in rows)


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_over_nulls_has_the_results_of_duckdb(
    name: str, results: dict[str, list[tuple[Any, ...]]], database: duckdb.DuckDBPyConnection
) -> None:
    wanted = comparable(database.execute(STATEMENTS[name]).fetchall())
    assert comparable(results[name]) == wanted
    if "outside of a list" not in name:
        assert wanted
