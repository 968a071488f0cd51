"""JOIN: keys, bounds on time, bands, windows and what is missing, as in Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.language.sql.tables import (
    AUCTIONS,
    BIDS,
    CARS,
    TRIPS,
    assert_same,
    columns,
    kinds,
    parameters,
    query,
    refused,
)

from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import count, max_, sum_
from shoal.model.query.expression import col
from shoal.model.query.functions import coalesce, is_null
from shoal.model.query.window import hop, tumbling

NEAR = "b.ts BETWEEN a.opened AND a.opened + INTERVAL '1' MINUTE"
CARS_10 = "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
TRIPS_10 = "TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
ON = f"ON a.id = b.auction AND {NEAR}"
JOINED = AUCTIONS.join(BIDS, on={"id": "auction"}, within_s=(0, 60))


@pytest.mark.parametrize(
    ("sql", "flow"),
    [
        pytest.param(
            f"SELECT * FROM auctions a JOIN bids b ON a.id = b.auction AND {NEAR}", JOINED, id="keys and times"
        ),
        pytest.param(
            "SELECT * FROM auctions AS a INNER JOIN bids AS b ON b.auction = a.id "
            "WHERE b.ts >= a.opened AND b.ts <= a.opened + INTERVAL '1' MINUTE",
            JOINED,
            id="bounds in WHERE, one by one",
        ),
        pytest.param(
            f"SELECT * FROM auctions a, bids b WHERE a.id = b.auction AND {NEAR}", JOINED, id="tables with a comma"
        ),
        pytest.param(
            f"SELECT a.id, b.price FROM auctions a JOIN bids b ON a.id = b.auction AND {NEAR} AND b.price > a.reserve",
            AUCTIONS.join(BIDS, on={"id": "auction"}, within_s=(0, 60), where=col("price") > col("reserve")).select(
                "id", "price"
            ),
            id="a further condition",
        ),
        pytest.param(
            f"SELECT * FROM auctions a JOIN bids b ON a.id = b.auction AND {NEAR} WHERE a.reserve > 5 AND b.price > 9",
            AUCTIONS.filter(col("reserve") > 5).join(
                BIDS.filter(col("price") > 9), on={"id": "auction"}, within_s=(0, 60)
            ),
            id="conditions on one side go before the join",
        ),
        pytest.param(
            "SELECT * FROM cars c JOIN trips t ON c.road = t.road AND ABS(c.speed - t.length) <= 3 "
            "AND c.ts BETWEEN t.ts - INTERVAL '5' SECOND AND t.ts + INTERVAL '2' SECOND",
            CARS.join(TRIPS, on="road", within_s=(-2, 5), band=("speed", "length", -3, 3)),
            id="a band by ABS",
        ),
        pytest.param(
            "SELECT * FROM cars c JOIN trips t ON c.ts = t.ts AND c.speed BETWEEN t.length - 1.5 AND t.length + 4",
            CARS.join(TRIPS, within_s=(0, 0), band=("speed", "length", -4, 1.5)),
            id="a band by BETWEEN, without keys",
        ),
        pytest.param(
            "SELECT * FROM cars JOIN trips USING (road) WHERE cars.ts = trips.ts",
            CARS.join(TRIPS, on="road", within_s=(0, 0)),
            id="using",
        ),
        pytest.param(
            f"SELECT * FROM {CARS_10} AS c JOIN {TRIPS_10} AS t "
            "ON c.road = t.road AND c.window_start = t.window_start AND c.window_end = t.window_end",
            CARS.assign(tumbling(10)).join(TRIPS.assign(tumbling(10)), on=("road", "window_end"), within_s=(0, 0)),
            id="rows of one window",
        ),
        pytest.param(
            "SELECT * FROM "
            f"(SELECT road, window_end, COUNT(*) AS cars FROM {CARS_10} GROUP BY road, window_start, window_end) AS c "
            f"JOIN (SELECT road, window_end, SUM(people) AS people FROM {TRIPS_10} GROUP BY road, window_end) AS t "
            "ON c.road = t.road AND c.window_end = t.window_end",
            CARS.key_by("road")
            .window(tumbling(10))
            .aggregate(cars=count())
            .join(
                TRIPS.key_by("road").window(tumbling(10)).aggregate(people=sum_("people")),
                on=("road", "window_end"),
                within_s=(0, 0),
            ),
            id="groups of one window",
        ),
        pytest.param(
            "SELECT a.id, COALESCE(b.price, -1.0) AS price FROM auctions a LEFT JOIN bids b "
            f"ON a.id = b.auction AND {NEAR} AND b.price > 0",
            AUCTIONS.join(
                BIDS.filter(col("price") > 0),
                on={"id": "auction"},
                within_s=(0, 60),
                how="left",
            ).select("id", price=coalesce("price", -1.0)),
            id="a left join with another value for nulls",
        ),
        pytest.param(
            f"SELECT a.id FROM auctions a LEFT JOIN bids b ON a.id = b.auction AND {NEAR} WHERE b.price IS NULL",
            AUCTIONS.join(BIDS, on={"id": "auction"}, within_s=(0, 60), how="left")
            .filter(is_null("price"))
            .select("id"),
            id="rows without a partner",
        ),
        pytest.param(
            f"SELECT a.id, b.bidder FROM bids b RIGHT JOIN auctions a {ON}",
            AUCTIONS.join(BIDS, on={"id": "auction"}, within_s=(0, 60), how="left").select("id", "bidder"),
            id="a right join is a left join from the other side",
        ),
        pytest.param(
            f"SELECT a.id, b.auction FROM auctions a FULL JOIN bids b {ON} AND a.reserve > 3",
            AUCTIONS.join(BIDS, on={"id": "auction"}, within_s=(0, 60), how="full", where=col("reserve") > 3).select(
                "id", "auction"
            ),
            id="a full join with a condition on one side",
        ),
        pytest.param(
            "SELECT c.road, t.road AS other FROM cars c LEFT JOIN trips t ON c.road = t.road AND c.ts = t.ts",
            CARS.join(
                TRIPS.select("ts", "length", "people", road_right=col("road")),
                on={"road": "road_right"},
                within_s=(0, 0),
                how="left",
            ).select("road", other=col("road_right")),
            id="a key of the right side that may be null",
        ),
        pytest.param(
            "SELECT road, t.length FROM cars c LEFT JOIN trips t USING (road, ts)",
            CARS.join(TRIPS, on="road", within_s=(0, 0), how="left").select("road", "length"),
            id="a left join by columns of one name",
        ),
        pytest.param(
            "SELECT road, window_end, c.n, t.people FROM (SELECT road, window_end, COUNT(*) AS n "
            f"FROM {CARS_10} GROUP BY road, window_end) c FULL JOIN (SELECT road, window_end, SUM(people) AS people "
            f"FROM {TRIPS_10} GROUP BY road, window_end) t USING (road, window_end)",
            CARS.key_by("road")
            .window(tumbling(10))
            .aggregate(n=count())
            .join(
                TRIPS.key_by("road").window(tumbling(10)).aggregate(people=sum_("people")),
                on=("road", "window_end"),
                within_s=(0, 0),
                how="full",
            )
            .select("road", "window_end", "n", "people"),
            id="a full join of the groups of one window",
        ),
        pytest.param(
            "SELECT * FROM (SELECT ts, road FROM cars) c JOIN (SELECT ts, road, length FROM trips) t "
            "ON c.road = t.road AND c.ts = t.ts",
            CARS.select("ts", "road").join(TRIPS.select("ts", "road", "length"), on="road", within_s=(0, 0)),
            id="only the columns that can be seen are kept",
        ),
    ],
)
def test_a_join_in_sql_is_the_graph_of_the_same_join_in_python(sql: str, flow: Flow) -> None:
    assert_same(sql, flow)


@given(st.integers(0, 1000), st.integers(0, 1000), st.booleans(), st.booleans())
def test_bounds_mean_the_same_from_both_sides(before: int, after: int, strict: bool, swapped: bool) -> None:
    less = "<" if strict else "<="
    low, high = f"b.ts - INTERVAL '{before}' SECOND", f"b.ts + INTERVAL '{after}' SECOND"
    conditions = f"{low} {less} a.ts AND a.ts {less} {high}"
    if swapped:
        more = ">" if strict else ">="
        conditions = f"a.ts {more} {low} AND {high} {more} a.ts"
    if strict and before + after == 0:
        return
    found = parameters(f"SELECT a.ts FROM cars a JOIN trips b ON {conditions}", "join")
    assert found["within_us"] == [-after * 1_000_000 + strict, before * 1_000_000 - strict]


def test_columns_of_the_same_name_are_told_apart() -> None:
    sql = "SELECT c.ts AS here, t.ts AS there FROM cars c JOIN trips t ON c.road = t.road AND c.ts = t.ts"
    assert parameters(sql, "select")["columns"] == [["here", ["col", "ts"]], ["there", ["col", "ts_right"]]]


def test_three_tables_are_joined_one_after_another() -> None:
    sql = (
        "SELECT a.speed, b.speed AS other, t.length FROM cars a JOIN cars b ON a.road = b.road AND a.ts = b.ts "
        "JOIN trips t ON t.road = a.road AND t.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
    )
    assert [kind for kind in kinds(sql) if kind != "select"] == ["source", "join", "source", "join", "sink"]
    assert columns(sql) == {"speed": "float64", "other": "float64", "length": "float64"}


def test_the_largest_count_of_a_window_finds_its_group_again() -> None:
    table = "TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
    counts = f"SELECT auction, window_end, COUNT(*) AS n FROM {table} GROUP BY auction, window_start, window_end"
    sql = (
        f"WITH counts AS ({counts}) SELECT c.auction, c.n FROM counts c "
        "JOIN (SELECT window_end, MAX(n) AS most FROM counts GROUP BY window_end) m "
        "ON c.window_end = m.window_end AND c.n >= m.most"
    )
    counted = BIDS.key_by("auction").window(hop(10, 2)).aggregate(n=count())
    most = counted.window(tumbling(2)).aggregate(most=max_("n"))
    flow = counted.join(most, on="window_end", within_s=(0, 0), where=col("n") >= col("most")).select("auction", "n")
    assert_same(sql, flow)


def test_all_columns_of_an_outer_join_are_there_under_names_of_their_own() -> None:
    left = "SELECT * FROM cars c LEFT JOIN trips t ON c.road = t.road AND c.ts = t.ts"
    names = ["ts", "road", "kind", "speed", "toll", "ts_right", "road_right", "length", "people"]
    assert sorted(columns(left)) == sorted(names)
    right = "SELECT * FROM trips t RIGHT JOIN cars c ON c.road = t.road AND c.ts = t.ts"
    assert list(columns(right)) == ["ts", "road", "length", "people", "ts_right", "road_right", "kind", "speed", "toll"]


def test_outer_joins_follow_one_another() -> None:
    sql = (
        "SELECT c.speed, a.length, b.people FROM cars c LEFT JOIN trips a ON c.road = a.road AND c.ts = a.ts "
        "LEFT JOIN trips b ON c.road = b.road AND b.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND WHERE b.road IS NULL"
    )
    assert kinds(sql).count("join") == 2
    assert columns(sql) == {"speed": "float64", "length": "float64", "people": "int64"}


def test_conditions_on_rows_that_may_be_missing_come_after_the_join() -> None:
    sql = f"SELECT a.id FROM bids b RIGHT JOIN auctions a {ON} WHERE b.price > 3 AND a.reserve > 1"
    found = [operator.kind for operator in query(sql).operators]
    assert found.index("join") < len(found) - 1 - found[::-1].index("filter")
    assert parameters(sql.replace("b.price > 3 AND ", ""), "filter")["condition"][1] == ["col", "reserve"]


THREE = (
    "FROM cars a JOIN cars b ON a.road = b.road AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND "
    "AND a.ts + INTERVAL '3' SECOND "
)


def test_bounds_on_a_time_that_is_not_the_rows_own_are_wide_and_then_checked() -> None:
    sql = f"SELECT a.road {THREE} JOIN trips t ON t.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
    _, second = [operator for operator in query(sql).operators if operator.kind == "join"]
    assert second.parameters["within_us"] == [-3_000_000, 5_000_000]
    assert second.parameters["where"] == [
        "and",
        ["ge", ["col", "ts_t"], ["col", "ts"]],
        ["le", ["col", "ts_t"], ["add", ["col", "ts"], ["lit", 5_000_000]]],
    ]


def test_joined_rows_happen_at_the_later_of_both_times() -> None:
    group = "SELECT COUNT(*) AS n FROM (SELECT {} AS t {}) GROUP BY TUMBLE(t, INTERVAL '1' MINUTE)"
    assert kinds(group.format("GREATEST(a.ts, b.ts)", THREE))[-3:] == ["aggregate", "select", "sink"]
    refused(group.format("a.ts", THREE), "must go by the event time, GREATEST(a.ts, b.ts)")
    later = "FROM cars a JOIN trips b ON b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"
    assert "aggregate" in kinds(group.format("b.ts", later))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param(
            "SELECT * FROM auctions a JOIN bids b ON a.id = b.auction",
            ["'JOIN bids AS b ON a.id = b.auction'", "for ever", "BETWEEN"],
            id="no time",
        ),
        pytest.param(
            "SELECT * FROM auctions a JOIN bids b ON a.id = b.auction AND b.ts > a.opened", ["for ever"], id="one bound"
        ),
        pytest.param(f"SELECT * FROM auctions a LEFT SEMI JOIN bids b {ON}", ["SEMI", "LEFT, RIGHT"], id="semi"),
        pytest.param(
            "SELECT t.road FROM cars c LEFT JOIN trips t USING (road, ts)", ["'t.road'"], id="the right key of USING"
        ),
        pytest.param("SELECT c.road FROM cars c FULL JOIN trips t USING (road, ts)", ["USING", "ON a.ts"], id="times"),
        pytest.param(
            "SELECT x FROM cars c JOIN trips t USING (rode, ts)",
            ["line 1", "'rode'", "did you mean 'road'"],
            id="using",
        ),
        pytest.param("SELECT * FROM cars NATURAL JOIN trips", ["NATURAL"], id="natural"),
        pytest.param("SELECT * FROM cars JOIN cars ON 1 = 1", ["two tables are called 'cars'"], id="no alias"),
        pytest.param("SELECT ts FROM cars c JOIN trips t ON c.ts = t.ts", ["'ts'", "several tables"], id="ambiguous"),
        pytest.param("SELECT c.ts FROM cars c JOIN trips t ON c.x = t.ts", ["'c.x'"], id="unknown"),
        pytest.param(
            "SELECT * FROM cars JOIN trips FOR SYSTEM_TIME AS OF cars.ts ON cars.road = trips.road",
            ["not supported in FROM"],
            id="temporal",
        ),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)
