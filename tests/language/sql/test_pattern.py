"""MATCH_RECOGNIZE: the same graphs as in Python."""

import pytest
from tests.language.sql.tables import BIDS, CARS, assert_same, columns, parameters, query, refused

from shoal.errors import GraphError
from shoal.language.python.flow import Flow
from shoal.language.sql.pattern import LONGEST_S
from shoal.model.query.expression import col
from shoal.model.query.pattern import prev


@pytest.mark.parametrize(
    ("sql", "flow"),
    [
        pytest.param(
            """SELECT * FROM bids MATCH_RECOGNIZE (
                 PARTITION BY auction ORDER BY ts
                 MEASURES FIRST(A.ts) AS began, LAST(B.ts) AS ended, COUNT(A.*) AS n, COUNT(A.price) AS known,
                          COUNT(price) AS all_known, COUNT(B.ts) AS b, AVG(A.price) AS p, MIN(A.price) AS least,
                          MAX(price) AS most, SUM(B.price) AS s
                 ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
                 PATTERN (A+ B) WITHIN INTERVAL '1' HOUR
                 DEFINE A AS A.price > PREV(A.price), B AS B.price < PREV(price)) AS m""",
            BIDS.key_by("auction").match(
                "A+ B",
                within_s=3600,
                measures={
                    "began": "first(A.ts)",
                    "ended": "last(B.ts)",
                    "n": "count(A)",
                    "known": "count(A.price)",
                    "all_known": "count(price)",
                    "b": "count(B)",
                    "p": "mean(A.price)",
                    "least": "min(A.price)",
                    "most": "max(price)",
                    "s": "sum(B.price)",
                },
                define={"A": col("price") > prev("price"), "B": col("price") < prev("price")},
            ),
            id="rising, then falling",
        ),
        pytest.param(
            """SELECT m.n FROM (SELECT * FROM cars WHERE toll) MATCH_RECOGNIZE (
                 ORDER BY ts MEASURES COUNT(*) AS n, B.road AS road
                 AFTER MATCH SKIP TO NEXT ROW PATTERN (A+? (B | C){2,3}) DEFINE A AS speed > 5) AS m WHERE m.n > 3""",
            CARS.filter(col("toll"))
            .match(
                "A+? (B | C){2,3}",
                within_s=LONGEST_S,
                measures={"n": "count(*)", "road": "last(B.road)"},
                define={"A": col("speed") > 5},
                after="next_row",
            )
            .filter(col("n") > 3)
            .select("n"),
            id="without keys and an end, behind a filter, with a condition on the matches",
        ),
    ],
)
def test_a_pattern_in_sql_is_the_graph_of_the_same_pattern_in_python(sql: str, flow: Flow) -> None:
    assert_same(sql, flow)


def match(**changes: str) -> str:
    """A query for a pattern, with some of its clauses changed."""
    clauses = {
        "partition": "PARTITION BY auction",
        "order": "ORDER BY ts",
        "measures": "MEASURES COUNT(*) AS n",
        "rows": "ONE ROW PER MATCH",
        "after": "",
        "pattern": "PATTERN (A B)",
        "define": "DEFINE A AS price > 1",
        **changes,
    }
    return f"SELECT * FROM bids MATCH_RECOGNIZE ({' '.join(clauses.values())})"


def test_matches_have_the_keys_and_the_measures() -> None:
    assert columns(match(measures="MEASURES LAST(ts) AS t")) == {"auction": "int64", "t": "timestamp"}


def test_conditions_behind_a_match_of_joined_rows_are_about_matches() -> None:
    sql = (
        "SELECT m.n FROM cars c JOIN trips t ON c.road = t.road AND c.ts = t.ts MATCH_RECOGNIZE (PARTITION BY kind "
        "ORDER BY c.ts MEASURES COUNT(*) AS n PATTERN (A B) DEFINE A AS length > 1) AS m WHERE m.n > 1"
    )
    kinds = [operator.kind for operator in query(sql).operators if operator.kind != "select"]
    assert kinds == ["source", "source", "join", "match", "filter", "sink"]


def test_a_match_may_be_counted_in_windows_by_its_last_time() -> None:
    inner = match(measures="MEASURES LAST(ts) AS t")
    sql = f"SELECT COUNT(*) AS n FROM ({inner}) GROUP BY TUMBLE(t, INTERVAL '1' MINUTE)"
    assert parameters(sql, "window")["size_us"] == 60_000_000


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param(match(rows="ALL ROWS PER MATCH"), ["'ALL ROWS PER MATCH'", "ONE ROW PER MATCH"], id="all rows"),
        pytest.param(match(after="AFTER MATCH SKIP TO LAST A"), ["SKIP TO LAST A", "TO NEXT ROW"], id="skip to"),
        pytest.param(match(order="ORDER BY price"), ["event time, ts", "'price'"], id="another order"),
        pytest.param(match(order="ORDER BY ts DESC"), ["ORDER BY ts", "DESC"], id="backwards"),
        pytest.param(match(order=""), ["ORDER BY ts"], id="no order"),
        pytest.param(match(measures="MEASURES A.price + 1 AS p"), ["A.price + 1"], id="a computed measure"),
        pytest.param(match(measures="MEASURES STDDEV(A.price) AS p"), ["measures are"], id="an unknown measure"),
        pytest.param(match(measures="MEASURES FIRST(A.cost) AS p"), ["'cost'", "price"], id="an unknown column"),
        pytest.param(match(define="DEFINE B AS B.price > A.price"), ["'B' reads rows of 'A'"], id="another"),
        pytest.param(match(define="DEFINE B AS B.price > PREV(price, 2)"), ["PREV(column)"], id="two rows before"),
        pytest.param(match(pattern=""), ["needs a PATTERN"], id="no pattern"),
        pytest.param(match(partition="PARTITION BY auction + 1"), ["takes columns"], id="a computed key"),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)


def test_a_pattern_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(GraphError, match="cannot be read"):
        columns(match(pattern="PATTERN (A % B)"))
