"""Scripts: tables, views, inserts and selects; and the three queries of the traffic study as they were printed."""

import pytest
from tests import traffic_study
from tests.language.sql.tables import CARS, STREAMS, refused

from shoal.errors import SqlError
from shoal.language.python.stream import Stream
from shoal.language.sql.script import Script, parse_script
from shoal.model.query.aggregate import count
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling

CREATE = """
CREATE TABLE readings (
    ts TIMESTAMP(3), sensor BIGINT NOT NULL, place STRING, value DOUBLE, ok BOOLEAN,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'files', 'path' = 'readings', 'format' = 'csv', 'follow' = 'false');
"""
READINGS = Stream(
    "readings",
    {"ts": "timestamp", "sensor": "int64 not null", "place": "string", "value": "float64", "ok": "bool"},
    time="ts",
    lateness_s=5,
)


@pytest.mark.parametrize("name", traffic_study.SQL)
def test_the_queries_of_the_traffic_study_are_read_as_they_were_printed(name: str) -> None:
    streams = {"vehicle_stream": traffic_study.VEHICLES}
    script = parse_script(traffic_study.SQL[name], streams=streams, functions=traffic_study.FUNCTIONS)
    assert Graph.of(script.queries).digest == Graph.of([traffic_study.PYTHON[name].sink("query_1")]).digest


def read(text: str) -> Script:
    return parse_script(text, streams=STREAMS)


def test_a_created_table_is_a_stream_with_its_watermark() -> None:
    script = read(CREATE + "SELECT * FROM readings")
    assert Graph.of(script.queries).digest == Graph.of([READINGS.sink("query_1")]).digest
    assert script.streams["readings"] == READINGS
    assert script.streams["cars"] is CARS
    assert script.tables["readings"].role == "source"
    assert script.tables["readings"].options == {
        "connector": "files",
        "path": "readings",
        "format": "csv",
        "follow": "false",
    }


def test_a_watermark_may_have_no_delay() -> None:
    script = read("CREATE TABLE t (`at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at`); SELECT * FROM t")
    assert script.streams["t"] == Stream("t", {"at": "timestamp"}, time="at")


IDLE = "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('idle_s' = '{}'); SELECT * FROM t"


def test_a_table_may_say_after_how_many_seconds_it_is_idle() -> None:
    stream = read(IDLE.format("1.5")).streams["t"]
    assert stream == Stream("t", {"ts": "timestamp"}, time="ts", idle_s=1.5)
    assert stream.operators[0].parameters["idle_us"] == 1_500_000


@pytest.mark.parametrize("text", ["soon", "", "0", "-1", "nan", "inf", "90 s"])
def test_an_idle_time_that_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(
        SqlError, match=f"option 'idle_s' of table 't' must be a number of seconds above 0; got '{text}'"
    ):
        read(IDLE.format(text))


def test_inserts_are_queries_named_after_their_table() -> None:
    script = read(
        "CREATE TABLE speeds (road BIGINT, speed DOUBLE) WITH ('connector' = 'files', 'path' = 'out');"
        "INSERT INTO speeds SELECT road, speed FROM cars; INSERT INTO speeds SELECT road, length FROM trips;"
        "INSERT INTO others SELECT road FROM cars; SELECT ts FROM cars; SELECT ts FROM trips"
    )
    assert [(query.name, query.table) for query in script.queries] == [
        ("speeds", "speeds"),
        ("speeds_2", "speeds"),
        ("others", "others"),
        ("query_1", "query_1"),
        ("query_2", "query_2"),
    ]
    assert script.queries[1].columns == {"road": "int64", "speed": "float64"}
    assert script.tables["speeds"].role == "sink"
    assert len(Graph.of(script.queries).queries) == 5


def test_an_insert_may_list_its_columns_in_another_order() -> None:
    script = read("CREATE TABLE t (a BIGINT, b DOUBLE); INSERT INTO t (b, a) SELECT speed, road FROM cars")
    assert script.queries[0].columns == {"a": "int64", "b": "float64"}
    wanted = CARS.select(a=col("road"), b=col("speed")).sink("t")
    assert Graph.of(script.queries).digest == Graph.of([wanted]).digest


def test_a_view_is_a_part_that_queries_share() -> None:
    script = read(
        "CREATE TEMPORARY VIEW fast AS SELECT ts, road, speed * 2 AS twice FROM cars WHERE speed > 30;"
        "SELECT road FROM fast; SELECT COUNT(*) AS n FROM fast GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    )
    fast = CARS.filter(col("speed") > 30).select("ts", "road", twice=col("speed") * 2)
    flows = [fast.select("road"), fast.window(tumbling(60)).aggregate(n=count()).select("n")]
    wanted = [flow.sink(f"query_{number}") for number, flow in enumerate(flows, start=1)]
    assert Graph.of(script.queries).digest == Graph.of(wanted).digest


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        pytest.param("", ["there is no query"], id="nothing"),
        pytest.param("CREATE VIEW v AS SELECT * FROM cars", ["there is no query"], id="only a view"),
        pytest.param("DROP TABLE cars", ["'DROP TABLE cars'", "CREATE VIEW"], id="another statement"),
        pytest.param("DELETE FROM cars", ["'DELETE FROM cars'"], id="a deletion"),
        pytest.param("SET 'a' = 'b'", ["SET"], id="a setting"),
        pytest.param("CREATE TABLE cars (ts TIMESTAMP)", ["'cars' is created twice"], id="a table twice"),
        pytest.param(
            "CREATE TABLE t (a BIGINT, a DOUBLE)", ["line 1, column 27", "column 'a' twice"], id="one column twice"
        ),
        pytest.param(
            "CREATE TABLE t (a BIGINT) WITH ('path' = 'x', 'path' = 'y')",
            ["'path' is given twice"],
            id="an option twice",
        ),
        pytest.param("CREATE TABLE IF NOT EXISTS t (a BIGINT)", ["EXISTS", "created once"], id="unless it exists"),
        pytest.param("CREATE OR REPLACE VIEW v AS SELECT * FROM cars", ["REPLACE", "once"], id="a view again"),
        pytest.param("CREATE TABLE t (a BIGINT UNIQUE)", ["UNIQUE"], id="a unique column"),
        pytest.param("CREATE TABLE t (a BIGINT DEFAULT 1)", ["DEFAULT"], id="a default"),
        pytest.param(
            "CREATE TABLE t (a BIGINT NOT NULL); INSERT INTO t SELECT road FROM cars",
            ["column 'a' of 't' is NOT NULL", "COALESCE"],
            id="what may be null into a column that may not",
        ),
        pytest.param("CREATE TABLE t (d DATE)", ["'d DATE'", "BIGINT"], id="a date"),
        pytest.param("CREATE TABLE t (a BIGINT, b AS a + 1)", ["neither computed"], id="a computed column"),
        pytest.param("CREATE TABLE t (a BIGINT, PRIMARY KEY (a))", ["PRIMARY KEY", "WATERMARK"], id="a key"),
        pytest.param(
            "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, WATERMARK FOR a AS b)",
            ["write WATERMARK FOR ts"],
            id="watermark",
        ),
        pytest.param("CREATE TABLE t AS SELECT * FROM cars", ["not supported", "statements are"], id="a table as"),
        pytest.param("CREATE TABLE t (a BIGINT); SELECT * FROM t", ["'t'", "cars"], id="a table without watermark"),
        pytest.param("INSERT INTO cars SELECT * FROM cars", ["cannot be written"], id="writing a stream"),
        pytest.param("INSERT OVERWRITE t SELECT * FROM cars", ["OVERWRITE"], id="overwriting"),
        pytest.param("INSERT INTO t VALUES (1)", ["SELECT"], id="values"),
        pytest.param(
            "CREATE TABLE t (a BIGINT); INSERT INTO t SELECT speed FROM cars", ["a int64", "speed float64"], id="types"
        ),
        pytest.param(
            "CREATE TABLE t (a BIGINT, b BIGINT); INSERT INTO t (a) SELECT road FROM cars", ["all columns"], id="a gap"
        ),
    ],
)
def test_what_is_not_supported_is_named_with_what_is(sql: str, said: list[str]) -> None:
    refused(sql, *said)


def test_errors_begin_with_the_place() -> None:
    with pytest.raises(SqlError, match=r"^cars.sql, line 1, column 15: there is no table 'ships'"):
        parse_script("SELECT * FROM ships", where="cars.sql")
