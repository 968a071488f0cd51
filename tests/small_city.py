"""The traffic workload in small: a few regions, half a minute of events, results in a moment."""

import pyarrow as pa

from shoal.connectors.sinks import MemorySink, ParquetSink
from shoal.connectors.sources.source import Source
from shoal.session.digest import result_digest
from shoal.session.run import Run
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import TRAFFIC
from shoal.workloads.workload import Amount, Ready

REGIONS = 4
VEHICLES = 300
EVENTS = 9_000
ROWS_PER_EPOCH = 3_000


def city(
    profile: str = "W1",
    seed: int = 0,
    *,
    events: int | None = EVENTS,
    rows_per_epoch: int = ROWS_PER_EPOCH,
    rate: float | None = None,
    disorder_s: float = 0.0,
    source: Source | None = None,
) -> Ready:
    """Twelve queries over four regions, with their oracle; 30 s of events by default."""
    settings = {"profile": profile, "vehicles": VEHICLES, "regions": REGIONS, "disorder_s": disorder_s}
    texts = {name: str(value) for name, value in settings.items()}
    return TRAFFIC.ready(seed, Amount(events, rate, rows_per_epoch), texts, source)


def city_events(profile: str = "W1", seed: int = 0, *, disorder_s: float = 0.0) -> TrafficEvents:
    """The events `city` is fed with."""
    return TrafficEvents(profile, VEHICLES, REGIONS, seed, disorder_s=disorder_s)  # type: ignore[arg-type]


def result_tables(run: Run) -> dict[str, pa.Table]:
    """Every result table of a run, without dead letters."""
    assert isinstance(run.sink, MemorySink | ParquetSink)
    return {name: run.sink.table(name) for name in run.sink.names() if name != "dead_letters"}


def digest(run: Run) -> str:
    """The digest of all results of a run."""
    return result_digest(result_tables(run))
