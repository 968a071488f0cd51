"""The `mixed` workload: any number of the ad, taxi and toll queries side by side, each over a stream of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.generator import Events, Generator
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError
from shoal.model.query.graph import Query
from shoal.session.job import Job
from shoal.workloads.linear_road import oracle as linear_road_oracle
from shoal.workloads.linear_road import queries as linear_road
from shoal.workloads.linear_road.events import LinearRoadEvents
from shoal.workloads.nyt import oracle as nyt_oracle
from shoal.workloads.nyt import queries as nyt
from shoal.workloads.nyt.events import NytEvents
from shoal.workloads.oracle_input import oracle_input
from shoal.workloads.workload import Amount, Ready, Workload
from shoal.workloads.ysb import oracle as ysb_oracle
from shoal.workloads.ysb import queries as ysb
from shoal.workloads.ysb.events import YsbEvents

KINDS = ("ysb", "nyt", "linear_road")
GROUPS = 8


@dataclass(frozen=True)
class MixedPart:
    """One stream with its queries, and the expected results of its first events."""

    stream: str
    events: Events
    queries: tuple[Query, ...]
    expected: Callable[[int], Mapping[str, pa.Table]]


def part(kind: str, number: int, seed: int) -> MixedPart:
    """The n-th stream of a kind, with its own seed.

    >>> [query.name for query in part("linear_road", 2, seed=0).queries]
    ['tolls_2', 'accidents_2']
    """
    stream, suffix, seed = f"{kind}_{number}", f"_{number}", seed + number
    if kind == "ysb":
        ads = YsbEvents(seed=seed)
        table, name = ads.campaign_of_ad(), f"views{suffix}"
        expected: Callable[[int], Mapping[str, pa.Table]] = lambda n: ysb_oracle.expected(  # noqa: E731
            oracle_input(ads, n, ysb_oracle.COLUMNS, None), table
        )
        return MixedPart(stream, ads, (ysb.query(table, ads.campaigns, stream, name),), _renamed(expected, suffix))
    if kind == "nyt":
        trips = NytEvents(seed=seed)
        query = nyt.query(GROUPS, stream, f"trips{suffix}")
        found = _renamed(lambda n: nyt_oracle.expected(oracle_input(trips, n, nyt_oracle.COLUMNS, None)), suffix)
        return MixedPart(stream, trips, (query,), found)
    road = LinearRoadEvents(seed=seed)
    columns = linear_road_oracle.COLUMNS
    found = _renamed(lambda n: linear_road_oracle.expected(oracle_input(road, n, columns, None)), suffix)
    return MixedPart(stream, road, tuple(linear_road.queries(GROUPS, stream, suffix)), found)


def _renamed(expected: Callable[[int], Mapping[str, pa.Table]], suffix: str) -> Callable[[int], Mapping[str, pa.Table]]:
    return lambda number: {f"{name}{suffix}": table for name, table in expected(number).items()}


def build(seed: int, amount: Amount, settings: Mapping[str, Any], source: Source | None) -> Ready:
    """The job and its oracle over generated events, which are divided evenly among the streams."""
    if source is not None:
        raise ConfigError("mixed has several streams; --source cannot replace them")
    for kind in KINDS:
        if not 0 <= settings[kind] <= 1000:
            raise ConfigError(f"mixed {kind} must be a number from 0 to 1000; got {settings[kind]}")
    parts = [part(kind, number, seed) for kind in KINDS for number in range(settings[kind])]
    if not parts:
        raise ConfigError(f"mixed needs at least one stream; set one of {', '.join(KINDS)}")
    each = None if amount.events is None else amount.events // len(parts)
    rate = None if amount.rate is None else amount.rate * (1 / len(parts))
    rows = max(1, amount.rows_per_epoch // len(parts))
    sources = {part.stream: Generator(part.events, each, rate, rows) for part in parts}

    def expected_tables(number: int) -> dict[str, pa.Table]:
        if each is None or number != each * len(parts):
            raise ConfigError("mixed's oracle needs all events; leave --seconds out or --check")
        return {name: table for part in parts for name, table in part.expected(each).items()}

    return Ready(Job.of("mixed", [query for part in parts for query in part.queries], sources), expected_tables)


MIXED = Workload(
    "mixed",
    "ad, taxi and toll queries side by side, each over a stream of its own",
    build,
    {"ysb": 1, "nyt": 1, "linear_road": 1},
    events=1_500_000,
)
