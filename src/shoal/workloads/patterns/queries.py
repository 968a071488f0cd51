"""The `bikes` and `buses` workloads: SEQ(A+ B), many small partial matches or a few large ones."""

from collections.abc import Mapping
from typing import Any

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import not_null
from shoal.session.job import Job
from shoal.workloads.bikes.events import STATION, BikesEvents
from shoal.workloads.buses.events import BLOCK, BusesEvents
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.patterns.oracle import BIKES_COLUMNS, BUSES_COLUMNS, bikes_expected, buses_expected
from shoal.workloads.workload import Amount, Ready, Workload

PATTERN = "A+? B"
"""Any rows, up to the first that matches B."""
DAY_S, HOUR_S = 86_400, 3_600
TRIPS = {
    "ts": "timestamp",
    "bikeid": "int64",
    "start_station_id": "int64",
    "end_station_id": "int64",
    "duration": "int64",
    "user_type": "string",
}
RECORDS = {
    "ts": "timestamp",
    "line_id": "int64",
    "direction": "int64",
    "vehicle_id": "int64",
    "operator": "string",
    "block_id": "int64",
    "delay": "int64",
    "latitude": "float64",
    "longitude": "float64",
    "congestion": "int64",
}


def returns(groups: int) -> Query:
    """The rides of a bike up to its arrival at one station, within a day.

    >>> [operator.kind for operator in returns(4).operators]
    ['source', 'select', 'match', 'sink']
    """
    trips = Stream("bike_trips", not_null(TRIPS), time="ts").partition_by("bikeid", groups=groups)
    return trips.match(
        PATTERN,
        within_s=DAY_S,
        define={"B": col("end_station_id") == STATION},
        measures={
            "first_ts": "first(A.ts)",
            "last_ts": "last(B.ts)",
            "trips": "count(A)",
            "from_station": "first(A.start_station_id)",
            "ridden_s": "sum(A.duration)",
        },
    ).sink("returns")


def delays(groups: int) -> list[Query]:
    """The reports of an operator, and of a vehicle, up to one of a certain block, within an hour."""
    records = Stream("bus_records", not_null(RECORDS), time="ts")
    return [
        _delays(records.partition_by("operator", groups=groups)).sink("by_operator"),
        _delays(records.partition_by("vehicle_id", groups=groups)).sink("by_vehicle"),
    ]


def _delays(keyed: Flow) -> Flow:
    return keyed.match(
        PATTERN,
        within_s=HOUR_S,
        define={"B": col("block_id") == BLOCK},
        measures={
            "first_ts": "first(A.ts)",
            "last_ts": "last(B.ts)",
            "reports": "count(A)",
            "mean_delay": "mean(A.delay)",
            "worst_delay": "max(A.delay)",
        },
    )


def build_bikes(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    events = BikesEvents(settings["bikes"], settings["stations"], settings["per_day"], seed)
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    job = Job.of("bikes", [returns(settings["groups"])], {"bike_trips": feed})
    return Ready(job, lambda number: bikes_expected(oracle_input(events, number, BIKES_COLUMNS, source)))


def build_buses(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle, over generated events or over files of the same columns."""
    events = BusesEvents(settings["vehicles"], settings["per_s"], seed)
    feed = source or Generator(events, amount.events, amount.rate, amount.rows_per_epoch)
    job = Job.of("buses", delays(settings["groups"]), {"bus_records": feed})
    return Ready(job, lambda number: buses_expected(oracle_input(events, number, BUSES_COLUMNS, source)))


BIKES = Workload(
    "bikes",
    "rides of a bike up to its arrival at one station, SEQ(A+ B) within a day",
    build_bikes,
    {"bikes": 5000, "stations": 800, "per_day": 40_000, "groups": 16},
    events=200_000,
)
BUSES = Workload(
    "buses",
    "reports of bus operators and vehicles up to a certain block, SEQ(A+ B) within an hour",
    build_buses,
    {"vehicles": 900, "per_s": 50, "groups": 8},
    events=200_000,
)
