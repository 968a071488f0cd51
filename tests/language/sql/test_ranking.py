"""ROW_NUMBER and RANK: the same graphs as in Python, and the limit they need."""

import pytest
from tests.language.sql.tables import CARS, assert_same, columns, kinds, refused

from shoal.language.python.flow import Flow
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.window import hop, tumbling

TABLE = "TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
COUNTS = f"(SELECT road, window_end, COUNT(*) AS n FROM {TABLE} GROUP BY road, window_start, window_end)"
COUNTED = CARS.key_by("road").window(tumbling(10)).aggregate(n=count())


@pytest.mark.parametrize(
    ("sql", "flow"),
    [
        pytest.param(
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) AS rank "
            f"FROM {COUNTS}) WHERE rank <= 3",
            COUNTED.key_by("window_end").rank("n", 3),
            id="the largest groups of every window",
        ),
        pytest.param(
            "SELECT road, n FROM (SELECT road, n, RANK() OVER (PARTITION BY window_end ORDER BY n DESC) AS place "
            f"FROM {COUNTS}) WHERE place = 1",
            COUNTED.key_by("window_end").rank("n", 1, ties=True, column="place").select("road", "n"),
            id="all of the largest",
        ),
        pytest.param(
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY road, window_start, window_end "
            f"ORDER BY speed, kind DESC) AS rn FROM {TABLE}) AS t WHERE 4 > t.rn AND t.speed > 0",
            CARS.assign(tumbling(10))
            .key_by("road", "window_end")
            .rank([("speed", False), ("kind", True)], 3, column="rn")
            .filter(col("speed") > 0),
            id="rows of a table function, with another condition",
        ),
        pytest.param(
            "SELECT ts, road, rn FROM (SELECT ts, road, ROW_NUMBER() OVER (PARTITION BY road, "
            "HOP(ts, INTERVAL '1' SECOND, INTERVAL '5' SECOND) ORDER BY speed DESC) AS rn FROM cars) WHERE rn <= 2",
            CARS.assign(hop(5, 1))
            .key_by("road", "window_end")
            .rank("speed", 2, column="rn")
            .select("ts", "road", "rn"),
            id="rows in a window that only PARTITION BY names",
        ),
        pytest.param(
            "SELECT way, kmh FROM (SELECT road AS way, speed * 3.6 AS kmh, ROW_NUMBER() OVER (PARTITION BY window_end "
            f"ORDER BY speed DESC) AS rn FROM {TABLE}) WHERE rn < 3",
            CARS.assign(tumbling(10))
            .with_columns(kmh=col("speed") * 3.6)
            .key_by("window_end")
            .rank("speed", 2, column="rn")
            .select(way=col("road"), kmh=col("kmh")),
            id="computed and renamed columns beside the rank",
        ),
    ],
)
def test_a_rank_in_sql_is_the_graph_of_the_same_rank_in_python(sql: str, flow: Flow) -> None:
    assert_same(sql, flow)


def test_a_rank_may_be_made_in_a_table_of_with() -> None:
    sql = (
        "WITH r AS (SELECT road, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY speed) AS rn "
        f"FROM {TABLE}) SELECT road FROM r WHERE rn = 1"
    )
    assert kinds(sql) == ["source", "assign", "rank", "select", "sink"]
    assert columns(sql) == {"road": "int64"}


RANK = "ROW_NUMBER() OVER (PARTITION BY road, window_end ORDER BY speed DESC) AS rn"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param(f"SELECT *, {RANK} FROM {TABLE}", ["'rn' needs a limit", "rn <= 3"], id="no limit"),
        pytest.param(f"SELECT road FROM (SELECT *, {RANK} FROM {TABLE})", ["'rn' needs a limit"], id="no limit around"),
        pytest.param(f"SELECT * FROM (SELECT *, {RANK} FROM {TABLE}) WHERE rn = 2", ["needs a limit"], id="second"),
        pytest.param(
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY road ORDER BY ts) AS rn FROM cars) WHERE rn = 1",
            ["would change with every row", "window_end"],
            id="no window",
        ),
        pytest.param(
            f"SELECT *, DENSE_RANK() OVER (PARTITION BY window_end ORDER BY speed) AS r FROM {TABLE}",
            ["DENSE_RANK()", "ROW_NUMBER() or RANK()"],
            id="dense rank",
        ),
        pytest.param(
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end) AS r FROM {TABLE}", ["ORDER BY"], id="no order"
        ),
        pytest.param(
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY speed * 2) AS r FROM {TABLE}",
            ["ordered by columns"],
            id="an order by a computed value",
        ),
        pytest.param(
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end, road + 1 ORDER BY speed) AS r FROM {TABLE}",
            ["PARTITION BY takes columns"],
            id="a computed partition",
        ),
        pytest.param(
            "SELECT *, SUM(speed) OVER (PARTITION BY road ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s "
            "FROM cars",
            ["SUM(speed) OVER", "no frame"],
            id="a frame",
        ),
        pytest.param(f"SELECT *, {RANK}, {RANK}2 FROM {TABLE}", ["one ROW_NUMBER()"], id="two ranks"),
        pytest.param(
            f"SELECT window_end, speed * 2 AS speed, {RANK} FROM {TABLE}", ["'speed' is redefined"], id="replaced"
        ),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)
