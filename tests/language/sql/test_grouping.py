"""GROUP BY with windows, aggregates and HAVING: the same graphs as in Python."""

import pytest
from tests.language.sql.tables import BIDS, CARS, CELL, assert_same, columns, kinds, parameters, query, refused

from shoal.errors import GraphError
from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import (
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
from shoal.model.query.expression import col
from shoal.model.query.functions import abs_, if_, null
from shoal.model.query.window import hop, sessions, tumbling

TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"
TABLE = "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
SESSIONS = "TABLE(SESSION(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
HOPS = "TABLE(HOP(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND))"
WINDOWED = CARS.key_by("road").window(tumbling(10))


@pytest.mark.parametrize(
    ("sql", "flow"),
    [
        pytest.param(
            "SELECT road, TUMBLE_END(ts, INTERVAL '10' SECOND) AS window_end, AVG(speed) AS avg_speed "
            f"FROM cars GROUP BY road, {TUMBLE}",
            WINDOWED.aggregate(avg_speed=mean("speed")),
            id="a tumbling group window",
        ),
        pytest.param(
            "SELECT road, kind, HOP_END(ts, INTERVAL '1' SECOND, INTERVAL '30' SECOND) AS window_end, COUNT(*) AS n "
            "FROM cars WHERE speed > 0 GROUP BY road, kind, HOP(ts, INTERVAL '1' SECOND, INTERVAL '30' SECOND)",
            CARS.filter(col("speed") > 0).key_by("road", "kind").window(hop(30, 1)).aggregate(n=count()),
            id="a hopping group window",
        ),
        pytest.param(
            "SELECT road, SESSION_START(ts, INTERVAL '1' MINUTE) AS window_start, "
            "SESSION_END(ts, INTERVAL '1' MINUTE) AS window_end, COUNT(*) AS n "
            "FROM cars GROUP BY road, SESSION(ts, INTERVAL '1' MINUTE)",
            CARS.key_by("road").window(sessions(60)).aggregate(n=count()),
            id="a session group window",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end",
            WINDOWED.aggregate(n=count()),
            id="a tumbling table function",
        ),
        pytest.param(
            "SELECT w.road, w.window_end, COUNT(*) AS n FROM TABLE(HOP(DATA => TABLE cars, TIMECOL => DESCRIPTOR(ts), "
            "SIZE => INTERVAL '30' SECOND, SLIDE => INTERVAL '10' SECOND)) AS w WHERE w.toll "
            "GROUP BY w.window_start, w.window_end, w.road",
            CARS.filter(col("toll")).key_by("road").window(hop(30, 10)).aggregate(n=count()),
            id="a hopping table function with named arguments, an alias and a condition",
        ),
        pytest.param(
            "SELECT road, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE cars PARTITION BY road, "
            "DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY road, window_start, window_end",
            CARS.key_by("road").window(sessions(5)).aggregate(n=count()),
            id="a session table function",
        ),
        pytest.param(
            "SELECT road, kind, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE cars PARTITION BY (road, kind), "
            "DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY road, kind, window_start, window_end",
            CARS.key_by("road", "kind")
            .window(sessions(5))
            .aggregate(n=count())
            .select("road", "kind", "window_end", "n"),
            id="a session table function with keys in parentheses",
        ),
        pytest.param(
            "SELECT road, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE cars PARTITION BY (road), "
            "DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY road, window_start, window_end",
            CARS.key_by("road").window(sessions(5)).aggregate(n=count()),
            id="a session table function with a key in parentheses",
        ),
        pytest.param(
            f"SELECT road, window_start, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end",
            WINDOWED.aggregate(n=count()).select("road", window_start=col("window_end") - 10_000_000, n=col("n")),
            id="the start of a window is computed",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end "
            "HAVING COUNT(*) > 3 AND road <> 7",
            WINDOWED.aggregate(n=count()).filter((col("n") > 3) & (col("road") != 7)),
            id="having",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end HAVING n > 3",
            WINDOWED.aggregate(n=count()).filter(col("n") > 3),
            id="having by the name of a column of the result",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end "
            "HAVING MAX(speed) > 30",
            WINDOWED.aggregate(n=count(), max_speed=max_("speed"))
            .filter(col("max_speed") > 30)
            .select("road", "window_end", "n"),
            id="having an aggregate that is not asked for",
        ),
        pytest.param(
            f"SELECT cell(speed) AS place, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY cell(speed), window_end",
            CARS.with_columns(place=CELL("speed")).key_by("place").window(tumbling(10)).aggregate(n=count()),
            id="a computed key",
        ),
        pytest.param(
            f"SELECT ABS(road) AS way, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY 1, window_start, window_end",
            CARS.with_columns(way=abs_("road")).key_by("way").window(tumbling(10)).aggregate(n=count()),
            id="a key by its position",
        ),
        pytest.param(
            f"SELECT ABS(road) AS way, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY way, window_start, window_end",
            CARS.with_columns(way=abs_("road")).key_by("way").window(tumbling(10)).aggregate(n=count()),
            id="a key by its name",
        ),
        pytest.param(
            f"SELECT road, window_end, SUM(speed * 2) AS twice FROM {TABLE} GROUP BY road, window_start, window_end",
            CARS.with_columns(twice=col("speed") * 2)
            .key_by("road")
            .window(tumbling(10))
            .aggregate(twice=sum_("twice")),
            id="an aggregate of a computed value",
        ),
        pytest.param(
            f"SELECT road, window_end, SUM(CASE WHEN toll THEN 1 ELSE 0 END) AS tolls FROM {TABLE} "
            "GROUP BY road, window_start, window_end",
            CARS.with_columns(tolls=if_(col("toll"), 1, 0))
            .key_by("road")
            .window(tumbling(10))
            .aggregate(tolls=sum_("tolls")),
            id="counting with CASE",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(*) FILTER (WHERE toll) AS tolls FROM {TABLE} "
            "GROUP BY road, window_start, window_end",
            CARS.with_columns(tolls=if_(col("toll"), 1, 0))
            .key_by("road")
            .window(tumbling(10))
            .aggregate(tolls=sum_("tolls")),
            id="counting with FILTER",
        ),
        pytest.param(
            f"SELECT road, window_end, SUM(speed) FILTER (WHERE toll) AS s, COUNT(speed) FILTER (WHERE toll) AS n "
            f"FROM {TABLE} GROUP BY road, window_start, window_end",
            CARS.with_columns(s=if_(col("toll"), col("speed"), null("float64")))
            .key_by("road")
            .window(tumbling(10))
            .aggregate(s=sum_("s"), n=count("s")),
            id="aggregates of some rows",
        ),
        pytest.param(
            f"SELECT road, window_end, COUNT(ts) AS n FROM {TABLE} GROUP BY road, window_start, window_end",
            WINDOWED.aggregate(n=count()),
            id="a count of what is never null",
        ),
        pytest.param(
            f"SELECT road, SUM(speed) / COUNT(*) AS ratio FROM {TABLE} GROUP BY road, window_start, window_end",
            WINDOWED.aggregate(sum_speed=sum_("speed"), count=count()).select(
                "road", ratio=col("sum_speed") / col("count")
            ),
            id="a value computed from aggregates",
        ),
        pytest.param(
            f"SELECT ABS(road) + 1 AS next FROM {TABLE} AS c GROUP BY ABS(c.road), c.window_end",
            CARS.with_columns(key_1=abs_("road"))
            .key_by("key_1")
            .window(tumbling(10))
            .aggregate(count=count())
            .select(next=col("key_1") + 1),
            id="a computed key without a name, in another computation",
        ),
        pytest.param(
            f"SELECT road AS way, window_end AS until, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_end",
            WINDOWED.aggregate(n=count()).select(way=col("road"), until=col("window_end"), n=col("n")),
            id="keys and window under other names",
        ),
        pytest.param(
            f"WITH counts AS (SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_end) "
            "SELECT window_end, MAX(n) AS most FROM TABLE(TUMBLE(TABLE counts, DESCRIPTOR(window_end), "
            "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
            WINDOWED.aggregate(n=count()).window(tumbling(60)).aggregate(most=max_("n")),
            id="an aggregate of aggregates in longer windows",
        ),
    ],
)
def test_a_group_in_sql_is_the_graph_of_the_same_group_in_python(sql: str, flow: Flow) -> None:
    assert_same(sql, flow)


def test_every_aggregate_has_its_own_name_in_sql() -> None:
    sql = (
        "SELECT auction, window_end, COUNT(*) AS a, COUNT(price) AS b, SUM(price) AS c, AVG(price) AS d, "
        "MIN(price) AS e, MAX(price) AS f, VAR_SAMP(price) AS g, VARIANCE(price) AS h, STDDEV(price) AS i, "
        "STDDEV_SAMP(price) AS j, COUNT(DISTINCT bidder) AS k, APPROX_COUNT_DISTINCT(bidder) AS l, "
        "TOP_K(price, 3) AS m FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY auction, window_end"
    )
    price = "price"
    flow = (
        BIDS.key_by("auction")
        .window(tumbling(10))
        .aggregate(
            a=count(),
            b=count("price"),
            c=sum_(price),
            d=mean(price),
            e=min_(price),
            f=max_(price),
            g=variance(price),
            h=variance(price),
            i=stddev(price),
            j=stddev(price),
            k=count_distinct("bidder"),
            l=approx_distinct("bidder"),
            m=top_k(price, 3),
        )
    )
    assert_same(sql, flow)


def test_columns_without_a_name_are_called_after_what_they_are() -> None:
    sql = f"SELECT road, TUMBLE_END(ts, INTERVAL '10' SECOND), AVG(speed), COUNT(*) FROM cars GROUP BY road, {TUMBLE}"
    assert list(columns(sql)) == ["road", "window_end", "avg_speed", "count"]


def test_the_row_time_of_a_window_is_a_millisecond_before_its_end() -> None:
    sql = f"SELECT TUMBLE_ROWTIME(ts, INTERVAL '10' SECOND) AS t, COUNT(*) AS n FROM cars GROUP BY {TUMBLE}"
    assert parameters(sql, "select")["columns"][0] == ["t", ["sub", ["col", "window_end"], ["lit", 1_000]]]


def test_groups_may_be_grouped_by_their_window_again() -> None:
    counts = f"SELECT road, kind, window_end, COUNT(*) AS n FROM {HOPS} GROUP BY road, kind, window_start, window_end"
    sql = f"SELECT road, window_end, MAX(n) AS most FROM ({counts}) GROUP BY road, window_end"
    flow = CARS.key_by("road", "kind").window(hop(30, 10)).aggregate(n=count())
    again = flow.key_by("road").window(tumbling(10)).aggregate(most=max_("n"))
    assert_same(sql, again)


def test_the_start_of_a_window_may_be_grouped_by_again() -> None:
    counts = f"SELECT road, window_start, COUNT(*) AS n FROM {HOPS} GROUP BY road, window_start, window_end"
    sql = f"SELECT window_end, MAX(n) AS most FROM (SELECT window_end, n FROM ({counts})) GROUP BY window_end"
    refused(sql, "unknown column 'window_end'")
    counts = counts.replace("window_start, COUNT", "window_start, window_end, COUNT")
    sql = f"SELECT window_start, window_end, MAX(n) AS most FROM ({counts}) GROUP BY window_start, window_end"
    start = ["sub", ["col", "window_end"], ["lit", 30_000_000]]
    last = [operator for operator in query(sql).operators if operator.kind == "select"][-1]
    assert last.parameters["columns"][0] == ["window_start", start]


def test_a_key_that_is_computed_under_a_taken_name_leaves_that_column_alone() -> None:
    sql = f"SELECT ABS(road) AS road, window_end, SUM(road) AS s FROM {TABLE} GROUP BY ABS(road), window_end"
    assert columns(sql) == {"road": "int64", "window_end": "timestamp", "s": "int64"}
    assert [operator for operator in kinds(sql) if operator == "select"] == ["select", "select"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param(
            "SELECT road, COUNT(*) AS n FROM cars GROUP BY road",
            ["'GROUP BY road'", "retractions", "out of scope", "TUMBLE"],
            id="no window",
        ),
        pytest.param("SELECT COUNT(*) AS n FROM cars", ["retractions"], id="no group"),
        pytest.param(f"SELECT road, COUNT(*) AS n FROM {TABLE} GROUP BY road", ["retractions"], id="window not named"),
        pytest.param(f"SELECT road FROM cars GROUP BY ROLLUP (road), {TUMBLE}", ["ROLLUP"], id="rollup"),
        pytest.param(
            f"SELECT speed, COUNT(*) AS n FROM cars GROUP BY road, {TUMBLE}",
            ["'speed' must stand in GROUP BY"],
            id="loose",
        ),
        pytest.param(f"SELECT * FROM cars GROUP BY road, {TUMBLE}", ["'*'"], id="star"),
        pytest.param(
            f"SELECT COUNT(*) AS n FROM cars GROUP BY {TUMBLE}, TUMBLE(ts, INTERVAL '5' SECOND)",
            ["one window"],
            id="two windows",
        ),
        pytest.param(
            f"SELECT TUMBLE_END(ts, INTERVAL '5' SECOND) AS e, COUNT(*) AS n FROM cars GROUP BY {TUMBLE}",
            ["another window"],
            id="the end of another window",
        ),
        pytest.param(
            "SELECT COUNT(*) AS n FROM cars GROUP BY TUMBLE(road, INTERVAL '5' SECOND)",
            ["must go by the event time, ts", "'road'"],
            id="no event time",
        ),
        pytest.param(f"SELECT SUM(DISTINCT road) AS s FROM cars GROUP BY {TUMBLE}", ["SUM(DISTINCT"], id="distinct"),
        pytest.param(
            f"SELECT AVG(*) AS s FROM cars GROUP BY {TUMBLE}", ["only COUNT takes *"], id="an average of rows"
        ),
        pytest.param(f"SELECT TOP_K(speed, 'x') AS s FROM cars GROUP BY {TUMBLE}", ["whole number"], id="no number"),
        pytest.param(f"SELECT COUNT(*) AS n FROM cars GROUP BY {TUMBLE}, 7", ["positions from 1 to 1"], id="no column"),
        pytest.param("SELECT road FROM cars HAVING road > 3", ["retractions"], id="having without a group"),
        pytest.param(
            f"SELECT road, COUNT(*) AS n FROM {SESSIONS} GROUP BY road, window_start, window_end",
            ["PARTITION BY, none"],
            id="sessions of all rows, grouped by a key",
        ),
        pytest.param(f"SELECT STDDEV_POP(speed) AS s FROM cars GROUP BY {TUMBLE}", ["STDDEV_POP"], id="population"),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)


def test_a_window_must_be_a_multiple_of_its_slide() -> None:
    with pytest.raises(GraphError, match="multiple of its slide"):
        kinds("SELECT COUNT(*) AS n FROM cars GROUP BY HOP(ts, INTERVAL '7' SECOND, INTERVAL '30' SECOND)")
