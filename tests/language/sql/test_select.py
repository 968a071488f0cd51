"""SELECT, WHERE, FROM, UNION ALL and DISTINCT: the same graphs as in Python."""

import pytest
from tests.language.sql.tables import BIDS, CARS, TRIPS, assert_same, columns, kinds, refused

from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.functions import is_null
from shoal.model.query.window import tumbling


@pytest.mark.parametrize(
    ("sql", "flow"),
    [
        pytest.param("SELECT * FROM cars", CARS, id="everything"),
        pytest.param("SELECT * FROM cars WHERE speed > 30", CARS.filter(col("speed") > 30), id="a condition"),
        pytest.param(
            "SELECT ts, road FROM cars WHERE speed > 30 AND toll",
            CARS.filter((col("speed") > 30) & col("toll")).select("ts", "road"),
            id="conditions and columns",
        ),
        pytest.param(
            "SELECT ts, speed * 3.6 AS kmh FROM cars",
            CARS.select("ts", kmh=col("speed") * 3.6),
            id="a computed column",
        ),
        pytest.param(
            "SELECT c.ts, c.road AS way FROM cars AS c",
            CARS.select("ts", way=col("road")),
            id="an alias and a name",
        ),
        pytest.param(
            "SELECT * FROM (SELECT ts, road FROM cars) WHERE road = 1",
            CARS.filter(col("road") == 1).select("ts", "road"),
            id="a sub-query that only leaves columns out costs nothing",
        ),
        pytest.param(
            "SELECT * FROM (SELECT ts, speed * 2 AS twice FROM cars) AS t WHERE t.twice > 5",
            CARS.select("ts", twice=col("speed") * 2).filter(col("twice") > 5),
            id="a sub-query that computes",
        ),
        pytest.param(
            "WITH fast AS (SELECT * FROM cars WHERE speed > 30) SELECT road FROM fast",
            CARS.filter(col("speed") > 30).select("road"),
            id="a table of WITH",
        ),
        pytest.param(
            "SELECT ts, road FROM cars WHERE speed IS NOT NULL",
            CARS.filter(~is_null("speed")).select("ts", "road"),
            id="what may be null is filtered out",
        ),
        pytest.param(
            "WITH c (t, r) AS (SELECT ts, road FROM cars) SELECT d.x, d.y FROM (SELECT t, r FROM c) AS d (x, y)",
            CARS.select(t=col("ts"), r=col("road")).select(x=col("t"), y=col("r")),
            id="columns named by the alias of a table",
        ),
        pytest.param(
            "SELECT ts, road FROM cars WHERE ts IS NOT NULL",
            CARS.select("ts", "road"),
            id="what is never null needs no filter",
        ),
        pytest.param(
            "SELECT ts, road FROM cars UNION ALL SELECT ts, auction FROM bids",
            CARS.select("ts", "road").union(BIDS.select("ts", road=col("auction"))),
            id="a union, whose columns have the names of the first query",
        ),
        pytest.param(
            "SELECT ts, road FROM cars UNION ALL SELECT ts, road FROM trips UNION ALL SELECT ts, auction FROM bids",
            CARS.select("ts", "road").union(TRIPS.select("ts", "road"), BIDS.select("ts", road=col("auction"))),
            id="a union of three",
        ),
        pytest.param(
            "SELECT DISTINCT road, window_end FROM TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))",
            CARS.assign(tumbling(10)).select("road", "window_end").key_by("road", "window_end").deduplicate(10),
            id="what is different within a window",
        ),
        pytest.param(
            "SELECT ts, TUMBLE_START(ts, INTERVAL '5' SECOND) AS window_start, "
            "TUMBLE_END(ts, INTERVAL '5' SECOND) AS window_end FROM (SELECT ts FROM cars)",
            CARS.assign(tumbling(5)).select("ts", "window_start", "window_end"),
            id="the window of a row",
        ),
    ],
)
def test_a_query_in_sql_is_the_graph_of_the_same_query_in_python(sql: str, flow: Flow) -> None:
    assert_same(sql, flow)


def test_columns_stand_in_the_order_of_the_select_list() -> None:
    assert list(columns("SELECT speed * 2 AS twice, ts, road FROM cars")) == ["twice", "ts", "road"]
    assert list(columns("SELECT road, ts, kind FROM cars")) == ["road", "ts", "kind"]


def test_an_event_time_under_another_name_still_is_one() -> None:
    sql = "SELECT TUMBLE_END(at, INTERVAL '5' SECOND), COUNT(*) AS n FROM (SELECT ts AS at, road FROM cars) GROUP BY {}"
    assert kinds(sql.format("TUMBLE(at, INTERVAL '5' SECOND)")) == [
        "source",
        "select",
        "retime",
        "window",
        "aggregate",
        "sink",
    ]


def test_columns_without_a_name_get_one() -> None:
    assert list(columns("SELECT speed + 1, cars.road, UPPER(kind) FROM cars")) == ["column_1", "road", "upper_kind"]


def test_all_columns_of_one_table_are_meant_by_its_star() -> None:
    sql = "SELECT c.* FROM cars c JOIN trips t ON c.road = t.road AND c.ts = t.ts"
    assert list(columns(sql)) == ["ts", "road", "kind", "speed", "toll"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param("SELECT * FROM cars ORDER BY speed", ["'ORDER BY speed'", "ROW_NUMBER()"], id="an order"),
        pytest.param("SELECT * FROM cars LIMIT 3", ["'LIMIT 3'", "ROW_NUMBER()"], id="a limit"),
        pytest.param("SELECT * FROM cars OFFSET 3", ["'OFFSET 3'", "no beginning"], id="an offset"),
        pytest.param("SELECT DISTINCT road FROM cars", ["'SELECT DISTINCT'", "window_end"], id="distinct for ever"),
        pytest.param("SELECT road FROM cars UNION SELECT road FROM trips", ["UNION ALL"], id="a union without ALL"),
        pytest.param("SELECT road FROM cars EXCEPT SELECT road FROM trips", ["EXCEPT", "UNION ALL"], id="a difference"),
        pytest.param("SELECT road FROM cars INTERSECT SELECT road FROM trips", ["INTERSECT"], id="an intersection"),
        pytest.param(
            "SELECT ts, road FROM cars UNION ALL SELECT ts FROM trips", ["same columns", "ts, road and ts"], id="a gap"
        ),
        pytest.param(
            "SELECT * FROM cars WHERE road IN (SELECT road FROM trips)",
            ["'SELECT road FROM trips'", "belongs in FROM"],
            id="a sub-query in a condition",
        ),
        pytest.param(
            "SELECT * FROM cars c WHERE EXISTS (SELECT 1 FROM trips t WHERE t.road = c.road)",
            ["belongs in FROM"],
            id="a correlated sub-query",
        ),
        pytest.param("SELECT (SELECT 1) AS one FROM cars", ["'(SELECT 1)'"], id="a sub-query as a value"),
        pytest.param("SELECT 1", ["must read FROM a table"], id="no table"),
        pytest.param("SELECT * FROM ships", ["'ships'", "cars, bids, auctions, trips"], id="an unknown table"),
        pytest.param("SELECT sped FROM cars", ["'sped'", "ts, road, kind, speed, toll"], id="an unknown column"),
        pytest.param("SELECT x.ts FROM cars c", ["no table 'x'", "there are c"], id="an unknown alias"),
        pytest.param("SELECT road, speed AS road FROM cars", ["'road' stands twice"], id="one name twice"),
        pytest.param("SELECT * FROM cars, LATERAL (SELECT 1) AS x", ["not supported"], id="lateral"),
        pytest.param("SELECT * FROM (VALUES (1)) AS t(x)", ["not supported in FROM"], id="values"),
        pytest.param("SELECT ts, SUM(speed) OVER (PARTITION BY road ORDER BY ts) AS s FROM cars", ["SUM"], id="over"),
        pytest.param("SELECT CURRENT_TIMESTAMP AS now FROM cars", ["CURRENT_TIMESTAMP"], id="the clock"),
        pytest.param("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", ["RECURSIVE"], id="recursion"),
        pytest.param("SELECT SESSION_END(ts, INTERVAL '5' SECOND) AS e, ts FROM cars", ["GROUP BY"], id="a session"),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)


def test_a_condition_must_be_one() -> None:
    refused("SELECT * FROM cars WHERE speed", "line 1, column 26", "expected a condition", "'speed'")


def test_counting_is_a_query_like_any_other() -> None:
    wanted = CARS.window(tumbling(60)).aggregate(n=count()).select("n")
    assert_same("SELECT COUNT(*) AS n FROM cars GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)", wanted)
