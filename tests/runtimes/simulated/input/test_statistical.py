"""Statistical mode: the counts of a run without its rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.target import source_from_uri
from shoal.connectors.sinks import ConsoleSink
from shoal.connectors.sources.generator import Generator
from shoal.errors import ConfigError
from shoal.model.control.messages import EpochCommitted, Event
from shoal.model.query.aggregate import count
from shoal.model.query.window import rows
from shoal.session.job import Job
from shoal.session.run import start
from shoal.workloads.skew.queries import SKEW
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import TRAFFIC, vehicles
from shoal.workloads.workload import Amount, Ready, Workload
from shoal.workloads.ysb.queries import YSB

CITY = {"vehicles": "2000", "regions": "6", "steps_per_s": "5"}


def ready(workload: Workload, events: int, settings: Mapping[str, str], rate: float | None = None) -> Ready:
    return workload.ready(0, Amount(events, rate), settings)


def played(job: Job, mode: str, **options: Any) -> list[Event]:
    """All events of a run."""
    found: list[Event] = []
    conf = {"mode": mode, **options.pop("conf", {})}
    run = start(job, on="simulated", topology="numa:2x3", conf=conf, **options)
    run.wait(lambda _, event: found.append(event))
    return found


def totals(events: list[Event], column: str = "events") -> npt.NDArray[np.int64]:
    """The sum of a column of loads over a run, per instance."""
    loads = [event.snapshot.loads for event in events if isinstance(event, EpochCommitted)]
    found: npt.NDArray[np.int64] = sum(getattr(each, column) for each in loads)
    return found


def mean_latency_s(events: list[Event]) -> float:
    latency = [event.latency for event in events if isinstance(event, EpochCommitted) and event.latency is not None]
    return sum(each.sum_s for each in latency) / sum(each.total for each in latency)


@pytest.mark.parametrize("profile", ["W1", "W2", "W3"])
def test_traffic_has_the_events_of_a_real_run_in_every_instance(profile: str) -> None:
    job = ready(TRAFFIC, 40_000, {**CITY, "profile": profile, "period_s": "3"}, rate=10_000.0).job
    counted, real = played(job, "statistical", conf={"sample_rows": "2000"}), played(job, "real")
    assert totals(counted).tolist() == totals(real).tolist()
    assert totals(counted, "results").sum() == pytest.approx(totals(real, "results").sum(), rel=0.02)
    assert mean_latency_s(counted) == pytest.approx(mean_latency_s(real), rel=0.1)


def test_other_streams_have_them_up_to_the_error_of_the_sample() -> None:
    job = ready(YSB, 100_000, {"campaigns": "8", "ads": "80"}, rate=20_000.0).job
    counted, real = played(job, "statistical", conf={"sample_rows": "4000"}), played(job, "real")
    assert totals(counted) == pytest.approx(totals(real), rel=0.1)
    assert totals(counted).sum() == pytest.approx(totals(real).sum(), rel=0.03)
    assert totals(counted, "results").tolist() == totals(real, "results").tolist()


def test_a_run_whose_samples_have_all_rows_has_the_results_of_a_real_run() -> None:
    job = ready(TRAFFIC, 40_000, CITY, rate=10_000.0).job
    counted, real = played(job, "statistical"), played(job, "real")
    assert totals(counted, "results").tolist() == totals(real, "results").tolist()


def test_the_same_seed_gives_the_same_bytes() -> None:
    job = ready(TRAFFIC, 30_000, {**CITY, "profile": "W2"}, rate=10_000.0).job
    first, second = (played(job, "statistical", policy="greedy", seed=3) for _ in range(2))
    assert repr(first) == repr(second)


def test_events_without_a_rate_come_at_their_own_times() -> None:
    job = ready(TRAFFIC, 30_000, CITY).job
    ended = [event.at_s for event in played(job, "statistical") if isinstance(event, EpochCommitted)]
    assert ended[-1] == pytest.approx(3.0, abs=0.2)


def test_windows_of_a_number_of_rows_close_in_proportion_to_the_rows() -> None:
    query = vehicles().key_by("region").window(rows(100)).aggregate(n=count()).sink("hundreds")
    job = Job.of("rows", [query], {"vehicles": Generator(TrafficEvents(vehicles=2000, regions=4), 60_000, 20_000.0)})
    counted = played(job, "statistical", conf={"sample_rows": "5000"})
    assert totals(counted).sum() == 60_000
    assert totals(counted, "results").sum() == pytest.approx(600, rel=0.1)


def test_what_a_sample_does_not_show_needs_a_profile() -> None:
    with pytest.raises(ConfigError, match="a sample does not show the results of join"):
        played(ready(SKEW, 1000, {"queries": "join"}, rate=1000.0).job, "statistical")


def test_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table(TrafficEvents(vehicles=10).batch(0, 10)), tmp_path / "a.parquet")
    job = TRAFFIC.ready(0, Amount(), CITY, source_from_uri(f"parquet:{tmp_path}", 100)).job
    with pytest.raises(ConfigError, match="counts generated events"):
        played(job, "statistical")


def test_a_sink_is_refused() -> None:
    with pytest.raises(ConfigError, match="counts results and writes none"):
        played(ready(TRAFFIC, 1000, CITY).job, "statistical", sink=ConsoleSink())
