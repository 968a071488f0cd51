"""Features of SQL: each is translated, or refused with its place in the text; none is ignored."""

import re

import pytest
from tests.language.sql.tables import query

from shoal.errors import SqlError

T10 = "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
GROUP = "GROUP BY road, window_end"
ON = "c.road = t.road AND c.ts = t.ts"
RANK = f"SELECT * FROM (SELECT *, {{}} AS p FROM {T10}) WHERE p <= 3"

REFUSED = {
    # clauses of a query
    "order": "SELECT road FROM cars ORDER BY road",
    "order with nulls": "SELECT road FROM cars ORDER BY road NULLS FIRST",
    "limit": "SELECT road FROM cars LIMIT 3",
    "limit by percentage": "SELECT road FROM cars LIMIT 3 PERCENT",
    "fetch": "SELECT road FROM cars FETCH FIRST 3 ROWS ONLY",
    "offset": "SELECT road FROM cars OFFSET 3",
    "top": "SELECT TOP 3 road FROM cars",
    "qualify": "SELECT road FROM cars QUALIFY ROW_NUMBER() OVER (PARTITION BY road ORDER BY ts) = 1",
    "a window clause": "SELECT ROW_NUMBER() OVER w AS n FROM cars WINDOW w AS (PARTITION BY road ORDER BY ts)",
    "distinct": "SELECT DISTINCT road FROM cars",
    "distinct on": f"SELECT DISTINCT ON (road) road, window_end FROM {T10}",
    "having alone": "SELECT road FROM cars HAVING road > 3",
    "a lock": "SELECT road FROM cars FOR UPDATE",
    "into": "SELECT road INTO t FROM cars",
    "a struct": "SELECT AS STRUCT road FROM cars",
    "a hint": "SELECT /*+ BROADCAST(cars) */ road FROM cars",
    "sampling": "SELECT road FROM cars TABLESAMPLE (10 PERCENT)",
    "sampling of a sub-query": "SELECT road FROM (SELECT road FROM cars) TABLESAMPLE (10 PERCENT)",
    "a pivot": "SELECT * FROM cars PIVOT (COUNT(*) FOR kind IN ('a', 'b'))",
    "an unpivot": "SELECT * FROM cars UNPIVOT (v FOR n IN (speed, road))",
    "cluster by": "SELECT road FROM cars CLUSTER BY road",
    "sort by": "SELECT road FROM cars SORT BY road",
    "connect by": "SELECT road FROM cars START WITH road = 1 CONNECT BY PRIOR road = road",
    "a lateral view": "SELECT road FROM cars LATERAL VIEW EXPLODE(kind) x AS y",
    "no table": "SELECT 1 AS one",
    "a table of values": "SELECT * FROM (VALUES (1, 2)) AS v (a, b)",
    "a table function": "SELECT * FROM UNNEST(ARRAY[1, 2])",
    "a table of a schema": "SELECT road FROM main.cars",
    "a column of a schema": "SELECT main.cars.road FROM cars",
    "a table at a time": "SELECT road FROM cars FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00'",
    "ordinality": "SELECT * FROM cars WITH ORDINALITY",
    "only": "SELECT * FROM ONLY cars",
    "a table hint": "SELECT * FROM cars WITH (NOLOCK)",
    # WITH
    "recursion": "WITH RECURSIVE c AS (SELECT road FROM cars) SELECT * FROM c",
    "a materialized table": "WITH c AS MATERIALIZED (SELECT road FROM cars) SELECT * FROM c",
    "too few names": "WITH c (a) AS (SELECT ts, road FROM cars) SELECT * FROM c",
    "one name twice": "SELECT * FROM (SELECT ts, road FROM cars) AS c (a, a)",
    "names of a table function": f"SELECT a FROM {T10} AS w (a, b, c, d, e, f, g)",
    # the select list
    "all columns but one": "SELECT * EXCEPT (road) FROM cars",
    "columns that are replaced": "SELECT * REPLACE (1 AS road) FROM cars",
    "a star with a pattern": "SELECT * ILIKE '%d' FROM cars",
    "a sub-query as a value": "SELECT (SELECT MAX(road) FROM trips) AS m FROM cars",
    "an alias of several columns": "SELECT STRUCT(road) AS (a, b) FROM cars",
    "two columns of one name": "SELECT road, speed AS road FROM cars",
    # set operations
    "union": "SELECT road FROM cars UNION SELECT road FROM trips",
    "union by name": "SELECT road FROM cars UNION ALL BY NAME SELECT road FROM trips",
    "union by name within another": (
        "SELECT road FROM cars UNION ALL BY NAME SELECT road FROM trips UNION ALL SELECT road FROM cars"
    ),
    "except": "SELECT road FROM cars EXCEPT ALL SELECT road FROM trips",
    "intersect": "SELECT road FROM cars INTERSECT SELECT road FROM trips",
    "an ordered union": "SELECT road FROM cars UNION ALL SELECT road FROM trips ORDER BY road",
    "a limited union": "SELECT road FROM cars UNION ALL SELECT road FROM trips LIMIT 3",
    # joins
    "natural": "SELECT c.road FROM cars c NATURAL JOIN trips t",
    "cross": "SELECT c.road FROM cars c CROSS JOIN trips t",
    "semi": f"SELECT c.road FROM cars c LEFT SEMI JOIN trips t ON {ON}",
    "anti": f"SELECT c.road FROM cars c LEFT ANTI JOIN trips t ON {ON}",
    "as of": "SELECT c.road FROM cars c ASOF JOIN trips t ON c.road = t.road AND c.ts >= t.ts",
    "lateral": "SELECT c.road FROM cars c JOIN LATERAL (SELECT 1) AS x ON TRUE",
    "straight": f"SELECT c.road FROM cars c STRAIGHT_JOIN trips t ON {ON}",
    "cross apply": "SELECT c.road FROM cars c CROSS APPLY f(c.road)",
    "in parentheses": f"SELECT c.road FROM cars c JOIN (trips t JOIN bids b ON t.ts = b.ts) ON {ON}",
    "without a condition": "SELECT c.road FROM cars c JOIN trips t",
    "keys of USING that do not exist": "SELECT c.road FROM cars c JOIN trips t USING (roads)",
    # groups
    "no window": "SELECT road, COUNT(*) AS n FROM cars GROUP BY road",
    "all": "SELECT road, COUNT(*) AS n FROM cars GROUP BY ALL",
    "rollup": f"SELECT road, COUNT(*) AS n FROM {T10} GROUP BY ROLLUP (road), window_end",
    "cube": f"SELECT road, COUNT(*) AS n FROM {T10} GROUP BY CUBE (road), window_end",
    "grouping sets": f"SELECT road, COUNT(*) AS n FROM {T10} GROUP BY GROUPING SETS ((road), ()), window_end",
    "totals": f"SELECT road, COUNT(*) AS n FROM {T10} {GROUP} WITH TOTALS",
    "a position that does not exist": f"SELECT road, COUNT(*) AS n FROM {T10} GROUP BY 9, window_end",
    "a sum of different values": f"SELECT SUM(DISTINCT road) AS n FROM {T10} {GROUP}",
    "several different values": f"SELECT COUNT(DISTINCT road, kind) AS n FROM {T10} {GROUP}",
    "different rows": f"SELECT COUNT(DISTINCT *) AS n FROM {T10} {GROUP}",
    "an ordered aggregate": f"SELECT SUM(speed ORDER BY ts) AS n FROM {T10} {GROUP}",
    "within group": f"SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY speed) AS n FROM {T10} {GROUP}",
    "an aggregate that respects nulls": f"SELECT MAX(speed) RESPECT NULLS AS n FROM {T10} {GROUP}",
    "an aggregate that ignores nulls": f"SELECT MAX(speed IGNORE NULLS) AS n FROM {T10} {GROUP}",
    "a limited aggregate": f"SELECT COUNT(speed LIMIT 3) AS n FROM {T10} {GROUP}",
    "an unknown aggregate": f"SELECT MEDIAN(speed) AS n FROM {T10} {GROUP}",
    "an aggregate within another": f"SELECT SUM(MAX(speed)) AS n FROM {T10} {GROUP}",
    "cumulating windows": (
        "SELECT COUNT(*) AS n FROM TABLE(CUMULATE(TABLE cars, DESCRIPTOR(ts), INTERVAL '1' SECOND, "
        "INTERVAL '10' SECOND)) GROUP BY window_end"
    ),
    "the offset of a window": (
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND, "
        "INTERVAL '1' SECOND)) GROUP BY window_end"
    ),
    # functions over rows
    "an aggregate over rows": "SELECT SUM(speed) OVER (PARTITION BY road ORDER BY ts) AS s FROM cars",
    "a frame": RANK.format(
        "RANK() OVER (PARTITION BY window_end ORDER BY speed ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    ),
    "lag": "SELECT LAG(speed) OVER (PARTITION BY road ORDER BY ts) AS s FROM cars",
    "dense_rank": RANK.format("DENSE_RANK() OVER (PARTITION BY window_end ORDER BY speed)"),
    "nulls first": RANK.format("RANK() OVER (PARTITION BY window_end ORDER BY speed NULLS FIRST)"),
    "a rank without a window": "SELECT * FROM (SELECT *, RANK() OVER (ORDER BY speed) AS p FROM cars) WHERE p <= 3",
    "a rank without a limit": RANK.format("RANK() OVER (PARTITION BY window_end ORDER BY speed)").replace("<=", ">="),
    "a limit that is a lower one": (
        RANK.format("RANK() OVER (PARTITION BY window_end ORDER BY speed)").replace("p <= 3", "3 <= p")
    ),
    "a filtered rank": RANK.format("RANK() FILTER (WHERE toll) OVER (PARTITION BY window_end ORDER BY speed)"),
    "an order by position": RANK.format("RANK() OVER (PARTITION BY window_end ORDER BY 1)"),
    # expressions
    "a quantified comparison": "SELECT road FROM cars WHERE road > ALL (SELECT road FROM trips)",
    "any": "SELECT road FROM cars WHERE road = ANY (ARRAY[1, 2])",
    "exists": "SELECT road FROM cars WHERE EXISTS (SELECT 1 FROM trips)",
    "in a query": "SELECT road FROM cars WHERE road IN (SELECT road FROM trips)",
    "in an array": "SELECT road FROM cars WHERE road IN UNNEST(ARRAY[1, 2])",
    "a row value": "SELECT road FROM cars WHERE (road, speed) = (1, 2)",
    "a collation": "SELECT kind COLLATE NOCASE AS k FROM cars",
    "ilike": "SELECT kind ILIKE 'a%' AS k FROM cars",
    "like any": "SELECT kind LIKE ANY ('a%', 'b%') AS k FROM cars",
    "an escape": "SELECT kind LIKE 'a!%' ESCAPE '!' AS k FROM cars",
    "similar to": "SELECT kind SIMILAR TO 'a+' AS k FROM cars",
    "a regular expression": "SELECT kind ~ 'a+' AS k FROM cars",
    "bounds in any order": "SELECT road BETWEEN SYMMETRIC 3 AND 1 AS k FROM cars",
    "is json": "SELECT kind IS JSON AS k FROM cars",
    "overlaps": "SELECT (ts, ts) OVERLAPS (ts, ts) AS k FROM cars",
    "bits": "SELECT road & 3 AS k FROM cars",
    "a shift": "SELECT road << 3 AS k FROM cars",
    "xor": "SELECT toll XOR toll AS k FROM cars",
    "an index": "SELECT kind[1] AS k FROM cars",
    "a field": "SELECT kind.x.y.z AS k FROM cars",
    "an array": "SELECT ARRAY[1, 2] AS k FROM cars",
    "a map": "SELECT MAP {'a': 1} AS k FROM cars",
    "a lambda": "SELECT FILTER(kind, x -> x > 1) AS k FROM cars",
    "a parameter": "SELECT road FROM cars WHERE road = ?",
    "a named parameter": "SELECT road FROM cars WHERE road = :x",
    "a variable": "SELECT @x AS k FROM cars",
    "texts side by side": "SELECT 'a' 'b' AS k FROM cars",
    "a hexadecimal number": "SELECT x'ff' AS k FROM cars",
    "a decimal": "SELECT CAST(speed AS DECIMAL(5, 2)) AS k FROM cars",
    "a date": "SELECT CAST(ts AS DATE) AS k FROM cars",
    "a date literal": "SELECT DATE '2024-01-01' AS k FROM cars",
    "a short text": "SELECT CAST(kind AS VARCHAR(2)) AS k FROM cars",
    "a time of seconds": "SELECT CAST(ts AS TIMESTAMP(0)) AS k FROM cars",
    "a cast with a format": "SELECT CAST(kind AS TIMESTAMP FORMAT 'YYYY') AS k FROM cars",
    "try_cast": "SELECT TRY_CAST(kind AS BIGINT) AS k FROM cars",
    "safe_cast": "SELECT SAFE_CAST(kind AS BIGINT) AS k FROM cars",
    "a conversion of a zone": "SELECT ts AT TIME ZONE 'UTC' AS k FROM cars",
    "the clock": "SELECT CURRENT_TIMESTAMP AS k FROM cars",
    "a year": "SELECT EXTRACT(YEAR FROM ts) AS k FROM cars",
    "an interval of months": "SELECT ts + INTERVAL '1' MONTH AS k FROM cars",
    "an interval of two units": "SELECT ts + INTERVAL '1 2' DAY TO HOUR AS k FROM cars",
    "an interval that is no number": "SELECT ts + INTERVAL 'nan' SECOND AS k FROM cars",
    "trim": "SELECT TRIM(BOTH 'x' FROM kind) AS k FROM cars",
    "position": "SELECT POSITION('x' IN kind) AS k FROM cars",
    "overlay": "SELECT OVERLAY(kind PLACING 'x' FROM 1) AS k FROM cars",
    "a function of different values": "SELECT ABS(DISTINCT road) AS k FROM cars",
    "an unknown function": "SELECT SOUNDEX(kind) AS k FROM cars",
    "a named argument": "SELECT ABS(x => road) AS k FROM cars",
    "a null without a type": "SELECT NULL AS k FROM cars",
    "a default": "SELECT DEFAULT AS k FROM cars",
    "a number that is compared with a text": "SELECT road FROM cars WHERE speed > 'fast'",
    "a condition that is none": "SELECT road FROM cars WHERE speed",
    # other statements
    "values": "INSERT INTO t VALUES (1)",
    "overwriting": "INSERT OVERWRITE t SELECT road FROM cars",
    "a partition": "INSERT INTO t PARTITION (p = 1) SELECT road FROM cars",
    "a conflict": "INSERT INTO t SELECT road FROM cars ON CONFLICT DO NOTHING",
    "returning": "INSERT INTO t SELECT road FROM cars RETURNING road",
    "with before insert": "WITH c AS (SELECT road FROM cars) INSERT INTO t SELECT road FROM c",
    "insert by name": "INSERT INTO t BY NAME SELECT road FROM cars",
    "create if it does not exist": "CREATE TABLE IF NOT EXISTS t (a BIGINT); SELECT road FROM cars",
    "create or replace": "CREATE OR REPLACE VIEW v AS SELECT road FROM cars; SELECT road FROM v",
    "a view with columns": "CREATE VIEW v (a) AS SELECT road FROM cars; SELECT a FROM v",
    "a materialized view": "CREATE MATERIALIZED VIEW v AS SELECT road FROM cars; SELECT road FROM v",
    "a table like another": "CREATE TABLE t LIKE cars; SELECT road FROM cars",
    "a table of a query": "CREATE TABLE t AS SELECT road FROM cars",
    "a temporary table": "CREATE TEMPORARY TABLE t (a BIGINT); SELECT road FROM cars",
    "a partitioned table": "CREATE TABLE t (a BIGINT) PARTITIONED BY (a); SELECT road FROM cars",
    "a comment of a table": "CREATE TABLE t (a BIGINT) COMMENT 'x'; SELECT road FROM cars",
    "a key": "CREATE TABLE t (a BIGINT PRIMARY KEY); SELECT road FROM cars",
    "a check": "CREATE TABLE t (a BIGINT CHECK (a > 0)); SELECT road FROM cars",
    "a constraint with a name": "CREATE TABLE t (a BIGINT CONSTRAINT c NOT NULL); SELECT road FROM cars",
    "two watermarks": (
        "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a, WATERMARK FOR a AS a); SELECT road FROM cars"
    ),
    "drop": "DROP TABLE cars",
    "update": "UPDATE cars SET road = 1",
    "delete": "DELETE FROM cars",
    "merge": "MERGE INTO cars USING trips ON cars.road = trips.road WHEN MATCHED THEN DELETE",
    "explain": "EXPLAIN SELECT road FROM cars",
    "describe": "DESCRIBE cars",
    "set": "SET x = 1",
    "pragma": "PRAGMA x",
    "alter": "ALTER TABLE cars ADD COLUMN x BIGINT",
}


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED)
def test_what_is_not_translated_is_refused_in_one_line_with_its_place(sql: str) -> None:
    with pytest.raises(SqlError) as error:
        query(sql)
    said = str(error.value)
    assert re.match(r"sql, line \d+, column \d+: ", said)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT road,\n  sped FROM cars", "sql, line 2, column 3: unknown column 'sped'; .*did you mean 'speed'"),
        ("SELECT c.sped FROM cars c", "sql, line 1, column 8: unknown column 'c.sped'; .*did you mean 'speed'"),
        ("SELECT c.road FROM cars c JOIN trips t ON c.rod = t.road", "line 1, column 43: .*did you mean 'road'"),
        ("SELECT d.road FROM cars AS dd", "line 1, column 8: there is no table 'd' .*did you mean 'dd'"),
        ("SELECT trip.* FROM cars JOIN trips ON cars.ts = trips.ts", "line 1, column 8: .*did you mean 'trips'"),
        ("SELECT road FROM car", "line 1, column 18: there is no table 'car'.*did you mean 'cars'"),
        (
            "SELECT road FROM cars\nWHERE flor(speed) > 1",
            "line 2, column 7: there is no function 'flor'.*did you mean 'FLOOR'",
        ),
        ("SELECT CEL(speed) AS c FROM cars", "line 1, column 8: there is no function 'CEL'.*did you mean 'cell'"),
        (f"SELECT COUNT(*) AS n FROM {T10} GROUP BY rode, window_end", "there are ts, road.*did you mean 'road'"),
    ],
)
def test_a_misspelt_name_has_its_place_and_the_nearest_name(sql: str, said: str) -> None:
    with pytest.raises(SqlError, match=said):
        query(sql)
