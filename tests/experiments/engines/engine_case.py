"""What all engines are asked: streams, queries in their languages, and sessions that keep what is emitted."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from tests.experiments.engines.sqlite_engine import SQLITE

from shoal.experiments.engines.catalog import engine_named
from shoal.experiments.engines.contract import Engine, EngineJob, EngineQuery, EngineSession
from shoal.language.yaml.definitions import StreamDefinition, definitions
from shoal.language.yaml.document import YamlPart

DIRECTORY = str(Path(__file__).parent)
"""Where the programs are that queries name."""
SECOND_US = 1_000_000
FIRST_US = 1_700_000_000 * SECOND_US
DECLARED = """
stream-definitions:
- stream-id: 1
  name: cars
  tuple-format:
  - {name: ts, type: timestamp}
  - {name: road, type: long}
  - {name: kind, type: string}
  - {name: speed, type: double}
- stream-id: 2
  name: tolls
  tuple-format:
  - {name: ts, type: timestamp}
  - {name: gate, type: long}
  - {name: price, type: long}
"""


def declared(text: str) -> dict[str, StreamDefinition]:
    """Stream definitions of a YAML text."""
    part = YamlPart.of(text, "test.yaml", needs="stream-definitions")
    return definitions(part.entries("a file", ("stream-definitions",), hyphens=True)["stream-definitions"])


STREAMS = declared(DECLARED)
CARS = pa.schema([("ts", pa.timestamp("us")), ("road", pa.int64()), ("kind", pa.string()), ("speed", pa.float64())])
TOLLS = pa.schema([("ts", pa.timestamp("us")), ("gate", pa.int64()), ("price", pa.int64())])
_TUMBLE = """
SELECT road, window_end, COUNT(*) AS n, AVG(speed) AS mean_speed
FROM TABLE(TUMBLE(TABLE cars, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY road, window_start, window_end
"""
_BOUNDED = "t.{time} BETWEEN c.{time} - INTERVAL '2' SECOND AND c.{time} + INTERVAL '2' SECOND"
_JOIN = """
SELECT c.road AS road, c.kind AS kind, t.price AS price FROM cars AS c JOIN tolls AS t ON c.road = t.gate
AND """
_BYTEWAX, _PATHWAY = "programs/bytewax_programs.py", "programs/pathway_programs.py"
_MARKED = 'ts AS "ts [timestamp]"'
PASSTHROUGH = "SELECT ts, road, kind, speed FROM cars"
PROJECTION = "SELECT ts, road + 1 AS next_road, speed / 3.6 AS ms FROM cars"
FILTER = "SELECT ts, road, speed FROM cars WHERE speed > 50"
TEXTS: Mapping[str, Mapping[str, str]] = {
    "passthrough": {
        "sql": PASSTHROUGH,
        "sqlite": PASSTHROUGH.replace("ts", _MARKED),
        "bytewax": f"{_BYTEWAX}:passthrough",
    },
    "filter": {
        "sql": FILTER,
        "sqlite": FILTER.replace("ts", _MARKED),
        "bytewax": f"{_BYTEWAX}:fast",
        "pathway": f"{_PATHWAY}:fast",
    },
    "projection": {
        "sql": PROJECTION,
        "sqlite": PROJECTION.replace("ts", _MARKED),
        "bytewax": f"{_BYTEWAX}:projection",
        "pathway": f"{_PATHWAY}:projection",
    },
    "window": {
        "shoal": _TUMBLE,
        "flink": _TUMBLE.replace("(ts)", "(rowtime)"),
        "spark-sql": """
SELECT road, window.end AS window_end, count(*) AS n, avg(speed) AS mean_speed
FROM cars GROUP BY road, window(ts, '10 seconds')
""",
        "duckdb": """
SELECT road, time_bucket(INTERVAL 10 SECOND, ts, TIMESTAMP '1970-01-01') + INTERVAL 10 SECOND AS window_end,
       count(*) AS n, avg(speed) AS mean_speed FROM cars GROUP BY ALL
""",
        "sqlite": """
SELECT road, (ts / 10000000 + 1) * 10000000 AS "window_end [timestamp]", count(*) AS n, avg(speed) AS mean_speed
FROM cars GROUP BY 1, 2
""",
        "bytewax": f"{_BYTEWAX}:window",
        "pathway": f"{_PATHWAY}:window",
    },
    "join": {
        "sql": _JOIN + _BOUNDED.format(time="ts"),
        "flink": _JOIN + _BOUNDED.format(time="rowtime").replace("'2'", "'3'") + " AND " + _BOUNDED.format(time="ts"),
        "sqlite": _JOIN + "t.ts BETWEEN c.ts - 2000000 AND c.ts + 2000000",
        "bytewax": f"{_BYTEWAX}:join",
        "pathway": f"{_PATHWAY}:join",
    },
}
"""Queries by what they do, for a language or for all that have no text of their own."""


def engine_of(name: str) -> Engine:
    """An engine of the catalog, or the example."""
    example: Engine = SQLITE
    return example if name == example.name else engine_named(name)


def query(case: str, engine: str, output: str = "out") -> EngineQuery:
    """A query in the language of an engine."""
    texts = TEXTS[case]
    text = next(texts[each] for each in (*engine_of(engine).languages, "sql") if each in texts)
    return EngineQuery(case, output, text)


@dataclass
class Kept:
    """Results that were emitted, by output."""

    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    arrived: threading.Event = field(default_factory=threading.Event)

    def __call__(self, output: str, rows: pa.RecordBatch) -> None:
        self.batches[output].append(rows)
        if rows.num_rows:
            self.arrived.set()

    def table(self, output: str = "out") -> pa.Table | None:
        """All rows of an output; None if there were none."""
        return pa.Table.from_batches(self.batches[output]) if self.batches[output] else None

    def rows(self, output: str = "out") -> list[dict[str, object]]:
        """All rows of an output, sorted."""
        found = [row for batch in self.batches[output] for row in batch.to_pylist()]
        return sorted(found, key=lambda row: repr(sorted(row.items())))


def cars(number: int, first: int = 0) -> pa.RecordBatch:
    """Rows in order of time: ten a second, to the microsecond, some of them with nulls."""
    at = range(first, first + number)
    return pa.RecordBatch.from_pydict(
        {
            "ts": [FIRST_US + n * SECOND_US // 10 + 137 for n in at],
            "road": [n % 7 for n in at],
            "kind": [None if n % 11 == 0 else ("bus" if n % 3 else "car") for n in at],
            "speed": [None if n % 13 == 5 else float(n * 37 % 120) for n in at],
        },
        schema=CARS,
    )


def tolls(number: int, first: int = 0) -> pa.RecordBatch:
    """One row a second."""
    at = range(first, first + number)
    columns = {"ts": [FIRST_US + n * SECOND_US for n in at], "gate": [n % 7 for n in at], "price": [n * 3 for n in at]}
    return pa.RecordBatch.from_pydict(columns, schema=TOLLS)


def opened(engine: str, queries: Sequence[EngineQuery], kept: Kept, workers: int = 2) -> EngineSession:
    """A session over both streams."""
    return engine_of(engine).open(EngineJob(STREAMS, tuple(queries), workers, directory=DIRECTORY), kept)


def answered(engine: str, queries: Sequence[EngineQuery], given: Sequence[tuple[str, pa.RecordBatch]]) -> Kept:
    """What an engine has emitted for some rows, after its end."""
    kept = Kept()
    session = opened(engine, queries, kept)
    try:
        session.start()
        for stream, rows in given:
            session.receive(stream, rows)
        session.end()
    finally:
        session.stop()
    return kept
