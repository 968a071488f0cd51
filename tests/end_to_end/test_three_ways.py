"""One set of queries written in Python, in SQL and in YAML: the same graphs, and the same results."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import traffic_study
from tests.small_city import digest, result_tables

from shoal.connectors.sources.files import Files
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.language.sql.script import parse_script
from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.query.aggregate import count, max_, mean
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.query.pattern import prev
from shoal.model.query.window import hop, sessions, tumbling
from shoal.session.job import Job
from shoal.session.run import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3_000
SECONDS = 60
CARS = Stream("cars", {"ts": "timestamp", "road": "int64", "kind": "string", "speed": "float64"}, time="ts")
TRIPS = Stream("trips", {"ts": "timestamp", "road": "int64", "km": "float64"}, time="ts")
PRINTED = {f"query_{number}": name for number, name in enumerate(traffic_study.SQL, start=1)}
"""The queries of the traffic study, by the names that a script gives to queries without one."""

PYTHON: dict[str, Flow] = {
    "busy": CARS.filter(col("speed") > 30)
    .key_by("road")
    .window(hop(10, 2))
    .aggregate(n=count(), mean_speed=mean("speed")),
    "near": CARS.join(TRIPS, on="road", within_s=(0, 5), band=("speed", "km", -5, 5)).select(
        "ts", "road", "speed", "km"
    ),
    "visits": CARS.key_by("road", "kind")
    .window(sessions(2))
    .aggregate(n=count(), fastest=max_("speed"))
    .select("road", "kind", "window_end", "n", "fastest"),
    "largest": CARS.key_by("road").window(tumbling(10)).aggregate(n=count()).key_by("window_end").rank("n", 3),
    "falls": CARS.key_by("road").match(
        "A+ B",
        within_s=60,
        measures={"began": "first(A.ts)", "ended": "last(B.ts)", "n": "count(A.speed)"},
        define={"A": col("speed") < prev("speed"), "B": col("speed") > 60},
    ),
    **{query: traffic_study.PYTHON[name] for query, name in PRINTED.items()},
}

SQL = {
    "busy": """
        INSERT INTO busy
        SELECT road, HOP_END(ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND) AS window_end,
               COUNT(*) AS n, AVG(speed) AS mean_speed
        FROM cars WHERE speed > 30
        GROUP BY road, HOP(ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND);
    """,
    "near": """
        INSERT INTO near
        SELECT c.ts, c.road, c.speed, t.km FROM cars AS c JOIN trips AS t
        ON c.road = t.road AND t.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND AND ABS(c.speed - t.km) <= 5;
    """,
    "visits": """
        INSERT INTO visits
        SELECT road, kind, SESSION_END(ts, INTERVAL '2' SECOND) AS window_end, COUNT(*) AS n, MAX(speed) AS fastest
        FROM cars GROUP BY road, kind, SESSION(ts, INTERVAL '2' SECOND);
    """,
    "largest": """
        INSERT INTO largest
        SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC) AS rank
            FROM (
                SELECT road, window_end, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                GROUP BY road, window_start, window_end
            )
        ) WHERE rank <= 3;
    """,
    "falls": """
        INSERT INTO falls
        SELECT * FROM cars MATCH_RECOGNIZE (
            PARTITION BY road ORDER BY ts
            MEASURES FIRST(A.ts) AS began, LAST(B.ts) AS ended, COUNT(A.speed) AS n
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A+ B) WITHIN INTERVAL '1' MINUTE
            DEFINE A AS A.speed < PREV(A.speed), B AS B.speed > 60
        );
    """,
    **{query: traffic_study.SQL[name] for query, name in PRINTED.items()},
}

STREAMS_YAML = """
stream-definitions:
- name: cars
  tuple-format: [{name: ts, type: timestamp}, {name: road, type: int}, {name: kind, type: string},
                 {name: speed, type: double}]
- name: trips
  tuple-format: [{name: ts, type: timestamp}, {name: road, type: int}, {name: km, type: double}]
- name: vehicle_stream
  tuple-format: [{name: ts, type: timestamp}, {name: vehicle_type, type: string}, {name: speed, type: double},
                 {name: latitude, type: double}, {name: longitude, type: double}]
spequeries:
  queries:
"""
CHAIN = """
  - name: {name}
    operators:
    - {{name: in, type: source, parameters: {{stream: {stream}}}}}
{operators}
    - {{name: out, type: sink}}
    edges:
{edges}
"""
KNOWN = """
    - name: known
      type: filter
      parameters:
        condition: [and, [not, [call, is_null, [col, latitude]]], [not, [call, is_null, [col, longitude]]]]"""
PLACE = """
    - name: place
      type: select
      parameters:
        columns: [[ts, [col, ts]], [vehicle_type, [col, vehicle_type]], [speed, [col, speed]],
                  [latitude, [col, latitude]], [longitude, [col, longitude]],
                  [region_id, [udf, geo_to_region, [col, latitude], [col, longitude]]]]
"""


def chain(name: str, stream: str, operators: str) -> str:
    """A query in YAML whose operators stand in a row."""
    names = ["in", *(line.split("name: ")[1].split(",")[0] for line in operators.splitlines() if "- " in line[:6])]
    steps = zip(names, [*names[1:], "out"], strict=True)
    edges = "\n".join(f"    - {{from: {first}, to: {second}}}" for first, second in steps)
    return CHAIN.format(name=name, stream=stream, operators=operators.strip("\n"), edges=edges)


YAML = {
    "busy": chain(
        "busy",
        "cars",
        """
    - {name: moving, type: filter, parameters: {condition: [gt, [col, speed], [lit, 30]]}}
    - {name: ten seconds, type: window, parameters: {size_us: 10000000, slide_us: 2000000}}
    - {name: per road, type: aggregate, parameters: {keys: [road], aggregates: {n: [count], mean_speed: [mean, speed]}}}
""",
    ),
    "near": """
  - name: near
    operators:
    - {name: cars, type: source, parameters: {stream: cars}}
    - {name: trips, type: source, parameters: {stream: trips}}
    - name: pairs
      type: join
      parameters: {keys: [[road, road]], within_us: [0, 5000000], band: [speed, km, -5, 5]}
    - name: chosen
      type: select
      parameters: {columns: [[ts, [col, ts]], [road, [col, road]], [speed, [col, speed]], [km, [col, km]]]}
    - {name: out, type: sink}
    edges:
    - {from: cars, to: pairs}
    - {from: trips, to: pairs}
    - {from: pairs, to: chosen}
    - {from: chosen, to: out}
""",
    "visits": chain(
        "visits",
        "cars",
        """
    - {name: pause, type: window, parameters: {gap_us: 2000000}}
    - name: visit
      type: aggregate
      parameters: {keys: [road, kind], aggregates: {n: [count], fastest: [max, speed]}}
    - name: chosen
      type: select
      parameters:
        columns: [[road, [col, road]], [kind, [col, kind]], [window_end, [col, window_end]], [n, [col, n]],
                  [fastest, [col, fastest]]]
""",
    ),
    "largest": chain(
        "largest",
        "cars",
        """
    - {name: ten seconds, type: window, parameters: {size_us: 10000000, slide_us: 10000000}}
    - {name: per road, type: aggregate, parameters: {keys: [road], aggregates: {n: [count]}}}
    - {name: three, type: rank, parameters: {by: [[n, true]], k: 3, keys: [window_end]}}
""",
    ),
    "falls": chain(
        "falls",
        "cars",
        """
    - name: fall
      type: match
      parameters:
        pattern: A+ B
        keys: [road]
        within_us: 60000000
        define: {A: [lt, [col, speed], [prev, speed]], B: [gt, [col, speed], [lit, 60]]}
        measures: {began: [first, A, ts], ended: [last, B, ts], n: [count, A, speed]}
""",
    ),
    "query_1": chain(
        "query_1",
        "vehicle_stream",
        f"""{KNOWN}{PLACE}
    - {{name: half a minute, type: window, parameters: {{size_us: 30000000, slide_us: 1000000}}}}
    - name: average
      type: aggregate
      parameters: {{keys: [region_id, vehicle_type], aggregates: {{avg_speed: [mean, speed]}}}}
""",
    ),
    "query_2": chain(
        "query_2",
        "vehicle_stream",
        f"""{KNOWN}{PLACE}
    - {{name: ten seconds, type: window, parameters: {{size_us: 10000000, slide_us: 1000000}}}}
    - {{name: number, type: aggregate, parameters: {{keys: [region_id], aggregates: {{vehicle_count: [count]}}}}}}
""",
    ),
    "query_3": chain(
        "query_3",
        "vehicle_stream",
        KNOWN
        + """
    - name: place
      type: select
      parameters:
        columns: [[ts, [col, ts]], [vehicle_type, [col, vehicle_type]], [speed, [col, speed]],
                  [region_id, [udf, geo_to_region, [col, latitude], [col, longitude]]]]
    - {name: twenty seconds, type: assign, parameters: {size_us: 20000000, slide_us: 1000000}}
    - name: three
      type: rank
      parameters: {by: [[speed, true]], k: 3, keys: [region_id, vehicle_type, window_end]}
    - name: chosen
      type: select
      parameters:
        columns: [[ts, [col, ts]], [vehicle_type, [col, vehicle_type]], [speed, [col, speed]],
                  [region_id, [col, region_id]], [window_start, [col, window_start]], [rank, [col, rank]]]
""",
    ),
}


def in_python(*names: str) -> Graph:
    return Graph.of([PYTHON[name].sink(name) for name in names])


def in_sql(*names: str) -> Graph:
    streams = {stream.name: stream for stream in (traffic_study.VEHICLES, CARS, TRIPS)}
    text = "".join(SQL[name] for name in names)
    return Graph.of(parse_script(text, streams=streams, functions=traffic_study.FUNCTIONS).queries)


def in_yaml(*names: str) -> Graph:
    return load_graph(STREAMS_YAML + "".join(YAML[name] for name in names), "three.yaml", traffic_study.FUNCTIONS)


@pytest.mark.parametrize("name", [name for name in PYTHON if name not in PRINTED])
def test_a_query_is_the_same_graph_in_python_sql_and_yaml(name: str) -> None:
    wanted = in_python(name)
    for graph in (in_sql(name), in_yaml(name)):
        assert save_graph(graph) == save_graph(wanted)
        assert sorted(graph.operators) == sorted(wanted.operators)
        assert graph.digest == wanted.digest


def test_all_queries_in_one_job_are_the_same_graph_in_python_sql_and_yaml() -> None:
    wanted = in_python(*PYTHON)
    for graph in (in_sql(*PYTHON), in_yaml(*PYTHON)):
        assert graph == wanted
        assert graph.digest == wanted.digest


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """A minute of each stream in a Parquet file of several row groups, so that it takes several epochs."""
    draw = np.random.default_rng(7)
    ts = pa.array(np.sort(draw.integers(0, SECONDS * 1_000_000, ROWS)), pa.timestamp("us"))
    kinds = pa.array(["bus", "car", "van"]).take(pa.array(draw.integers(0, 3, ROWS)))
    speed, road = draw.uniform(0, 100, ROWS), draw.integers(0, 40, ROWS)
    position = draw.uniform(0, 3, (2, ROWS))
    columns = {
        "cars": {"ts": ts, "road": road, "kind": kinds, "speed": speed},
        "trips": {"ts": ts, "road": road[::-1], "km": draw.uniform(0, 100, ROWS)},
        "vehicle_stream": {
            "ts": ts,
            "vehicle_type": kinds,
            "speed": speed,
            "latitude": position[0],
            "longitude": position[1],
        },
    }
    made = {}
    for name, table in columns.items():
        path = tmp_path_factory.mktemp(name)
        pq.write_table(pa.table(table), path / "1.parquet", row_group_size=ROWS // 2)
        made[name] = Files(str(path), rows_per_epoch=ROWS // 2, follow=False)
    return made


@pytest.mark.parametrize(
    "others",
    [
        pytest.param("local", id="Python on Spark, the others on threads"),
        pytest.param("spark", id="all on Spark", marks=pytest.mark.slow),
    ],
)
def test_python_sql_and_yaml_have_the_same_results(
    others: str, sources: dict[str, Files], spark: "SparkSession"
) -> None:
    digests = {}
    for language, graph, on in (("python", in_python, "spark"), ("sql", in_sql, others), ("yaml", in_yaml, others)):
        session: dict[str, Any] = {"spark": spark} if on == "spark" else {}
        run = start(Job(language, graph(*PYTHON), sources), on=on, workers=2, **session)
        tally = run.wait()
        assert on != "spark" or tally.epochs >= 3
        assert {name for name, table in result_tables(run).items() if table.num_rows} == set(PYTHON)
        digests[language] = digest(run)
    assert len(set(digests.values())) == 1, digests
