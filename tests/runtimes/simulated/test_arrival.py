"""Arrival of steps, the factor of all work, and the latency of every query in simulated runs."""

from collections.abc import Mapping

import pytest

from shoal.connectors.sources.generator import Generator
from shoal.errors import ConfigError
from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.session.job import Job
from shoal.session.run import start
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, queries

REPLAYED = {"source": "outside", "arrival": "step", "step_s": "0.2", "epoch_s": "0.4"}
VEHICLES, STEPS_PER_S, SECONDS = 60, 5, 4


def epochs_of(conf: Mapping[str, str]) -> list[EpochCommitted]:
    events = TrafficEvents(vehicles=VEHICLES, regions=3, steps_per_s=STEPS_PER_S)
    feed = Generator(events, SECONDS * STEPS_PER_S * VEHICLES, STEPS_PER_S * VEHICLES)
    job = Job.of("traffic", queries(3), {STREAM: feed})
    run = start(job, on="simulated", policy="round-robin", topology="cores:2", conf=conf)
    found: list[EpochCommitted] = []
    run.wait(lambda _, done: found.append(done))
    return found


def test_a_step_that_arrives_as_a_whole_waits_for_none_of_its_events() -> None:
    at_once = max(each.latency.max_s for each in epochs_of(REPLAYED) if each.latency)
    spread = [each.latency for each in epochs_of({**REPLAYED, "arrival": "spread"}) if each.latency]
    assert at_once < 0.01
    assert max(each.max_s for each in spread) > 0.19


def test_a_report_counts_the_step_that_has_just_arrived_as_pending() -> None:
    running = [each for each in epochs_of(REPLAYED) if each.rows]
    pending = [sum(load.backlog for load in each.snapshot.loads.values()) for each in running]
    assert pending[:-1] == pytest.approx([3 * VEHICLES] * (len(running) - 1), abs=3)  # three queries per vehicle
    assert [round(each.at_s, 6) for each in running] == [round(0.4 * n, 6) for n in range(1, len(running) + 1)]


def test_the_work_factor_multiplies_all_work() -> None:
    once, thrice = (
        sum(each.compute_s for each in epochs_of({**REPLAYED, "work_factor": factor})) for factor in ("1000", "3000")
    )
    assert thrice == pytest.approx(3 * once, rel=0.01)


def test_events_that_do_not_fit_into_a_block_are_read_at_once_in_several() -> None:
    events = TrafficEvents(vehicles=VEHICLES, regions=3)
    job = Job.of("traffic", queries(3), {STREAM: Generator(events, 4_000, rate=2_000)})
    conf = {"step_s": "0.2", "block_rows": "100"}  # 400 events are due in a step
    tally = start(job, on="simulated", topology="cores:2", conf=conf).wait()
    assert tally.elapsed_s == pytest.approx(4_000 / 2_000, abs=0.2)


def test_the_latency_of_every_query_is_reported() -> None:
    names = {name for each in epochs_of(REPLAYED) for name in each.snapshot.latency_s}
    assert names == {query.name for query in queries(3)}


def test_steps_arrive_as_a_whole_only_from_outside() -> None:
    with pytest.raises(ConfigError, match="arrival=step needs source=outside"):
        SimulatedSettings.of({"arrival": "step"})


@pytest.mark.parametrize("factor", ["0", "-1", "inf"])
def test_a_work_factor_must_be_a_positive_number(factor: str) -> None:
    with pytest.raises(ConfigError, match="work_factor must be more than 0"):
        SimulatedSettings.of({"work_factor": factor})
