import numpy as np
import pytest

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Snapshot
from shoal.model.control.topology import Topology
from shoal.session.summary import Summary, Tally

KEYS = [
    *("workload", "runtime", "simulated_time", "policy", "mechanism", "workers", "topology", "seed"),
    *("events", "results", "elapsed_s", "events_per_s", "start_up_s", "latency_ms", "marker_latency_ms"),
    *("epochs", "moves", "state_bytes_moved", "migrations", "cost_share"),
    *("result_digest", "oracle", "deviation", "sink", "dead_letters", "refused_rows", "peak_rss_mb", "parked"),
]


def epoch(
    number: int,
    *,
    rows: int = 100,
    results: int = 10,
    latency_s: float = 0.5,
    refusals: dict[str, int] | None = None,
    at_s: float = 1.0,
) -> EpochCommitted:
    return EpochCommitted(
        epoch=number,
        rows=rows,
        results=results,
        dead_letters=sum((refusals or {}).values()),
        moves=1,
        state_bytes=1000,
        state_bytes_moved=5,
        duration_s=0.4,
        latency_s=latency_s,
        compute_s=0.3,
        migration_s=0.1,
        policy_s=0.0,
        snapshot=Snapshot(number, Binding({}, 1)),
        refusals=refusals or {},
        at_s=at_s,
    )


def test_elapsed_time_runs_from_the_first_event_in_to_the_last_result_out() -> None:
    tally = Tally()
    assert tally.elapsed_s == 0.0
    tally.add(epoch(0, latency_s=0.5, at_s=100.0))
    tally.add(epoch(1, latency_s=2.0, at_s=104.0))
    assert tally.elapsed_s == pytest.approx(4.5)


def test_latency_is_weighed_by_results() -> None:
    tally = Tally()
    tally.add(epoch(0, latency_s=1.0, results=90, at_s=1.0))
    tally.add(epoch(1, latency_s=3.0, results=10, at_s=2.0))
    tally.add(epoch(2, latency_s=99.0, results=0, at_s=3.0))
    wanted = {"mean": 1200.0, "p50": 1000.0, "p95": 3000.0, "p99": 3000.0, "max": 3000.0}
    assert tally.latency_ms() == pytest.approx(wanted, rel=0.01)


def test_latency_percentiles_are_those_of_all_results_one_by_one() -> None:
    draw = np.random.default_rng(0)
    latencies, weights = draw.random(50), draw.integers(1, 20, 50)
    tally = Tally()
    for number, (latency, weight) in enumerate(zip(latencies, weights, strict=True)):
        tally.add(epoch(number, latency_s=float(latency), results=int(weight), at_s=float(number)))
    every = np.repeat(latencies, weights) * 1000
    for name, value in tally.latency_ms().items():
        if name.startswith("p"):
            assert value == pytest.approx(np.percentile(every, int(name[1:]), method="inverted_cdf"), rel=0.01)


def test_no_results_have_no_latency() -> None:
    assert set(Tally().latency_ms().values()) == {0.0}


def test_cost_shares_add_up_to_one() -> None:
    tally = Tally()
    tally.add(epoch(0, at_s=1.0))
    assert tally.cost_share() == {"compute": 0.75, "migration": 0.25, "policy": 0.0}
    assert Tally().cost_share() == {"compute": 0.0, "migration": 0.0, "policy": 0.0}


def test_refusals_are_counted_by_reason() -> None:
    tally = Tally()
    tally.add(epoch(0, refusals={"late": 2, "null": 1}, at_s=1.0))
    tally.add(epoch(1, refusals={"late": 3}, at_s=2.0))
    assert dict(tally.refusals) == {"late": 5, "null": 1}
    assert tally.dead_letters == 6


def test_a_summary_has_exactly_the_keys_of_the_contract() -> None:
    tally = Tally()
    tally.add(epoch(0, at_s=1.0))
    data = Summary("traffic", "spark", "round-robin", "megaphone", 2, Topology.of(1, 2), 0, 1.5, tally, "abc").data()
    assert list(data) == KEYS
    assert list(data["latency_ms"]) == ["mean", "p50", "p95", "p99", "max"]
    assert list(data["cost_share"]) == ["compute", "migration", "policy"]
    assert data["events_per_s"] == 200.0
    assert data["oracle"] == "not checked"
    assert data["topology"] == "2 workers on 1 node"
    assert (data["simulated_time"], data["start_up_s"]) == (False, 1.5)


def test_a_summary_of_simulated_time_claims_no_time_to_start_up() -> None:
    tally = Tally()
    tally.add(epoch(0, at_s=0.1))
    topology = Topology.of(1, 2)
    summary = Summary(
        "traffic", "simulated", "greedy", "all-at-once", 2, topology, 0, 0.0, tally, "abc", simulated_time=True
    )
    assert (summary.data()["simulated_time"], summary.data()["start_up_s"]) == (True, None)


def test_the_memory_of_a_run_is_measured_however_short_it_is() -> None:
    tally = Tally()
    tally.add(epoch(0, at_s=0.01))
    assert tally.peak_rss_mb > 1
