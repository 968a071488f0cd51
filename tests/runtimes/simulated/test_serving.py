"""How queues are served by policy, and that it changes when results come but not which."""

import pytest
from tests.small_city import city, digest

from shoal.errors import ConfigError
from shoal.policies.catalog import SUMMARIES
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.session.run import Run, start


def run_city(policy: str = "guarded", **conf: str) -> tuple[Run, float]:
    """A busy run on two memory nodes, and the mean latency of its results."""
    options = {"source": "outside", "work_factor": "400", **conf}
    run = start(city(rate=9_000.0).job, on="simulated", topology="numa:2x2", policy=policy, conf=options)
    return run, run.wait().latency_ms()["mean"]


def test_guarded_has_results_served_first_and_no_other_policy_does() -> None:
    served = {policy: SimulatedSettings().bound(policy).serving for policy in SUMMARIES}
    assert {policy for policy, serving in served.items() if serving == "results-first"} == {"guarded"}
    assert set(served.values()) == {"results-first", "by-age"}


def test_what_the_user_says_comes_before_what_the_policy_needs() -> None:
    assert SimulatedSettings(serving="by-age").bound("guarded").serving == "by-age"
    assert SimulatedSettings(serving="results-first").bound("node-queue").serving == "results-first"


def test_queues_by_priority_are_not_served_results_first() -> None:
    assert SimulatedSettings(scheduling="min-cost").bound("guarded").serving == "by-age"
    with pytest.raises(ConfigError, match="results-first is for queues by event time; got scheduling=min-cost"):
        SimulatedSettings(scheduling="min-cost", serving="results-first").bound("guarded")


def test_a_run_that_imitates_the_local_runtime_serves_by_age() -> None:
    settings = SimulatedSettings(delay="traced", contention="profile", trace="profile.json")
    assert settings.bound("guarded").serving == "by-age"
    with pytest.raises(ConfigError, match="imitates the local runtime, which serves by age"):
        SimulatedSettings(delay="traced", contention="profile", trace="p.json", serving="results-first").bound(None)


def test_an_unknown_way_to_serve_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="serving must be one of by-age, results-first; got 'results'"):
        SimulatedSettings(serving="results")


def test_results_first_are_the_same_results_and_come_earlier_on_average() -> None:
    (first, first_ms), (by_age, by_age_ms) = run_city(), run_city(serving="by-age")
    assert digest(first) == digest(by_age)
    assert first_ms < 0.99 * by_age_ms


def test_results_first_come_at_the_same_times_in_every_run_of_a_seed() -> None:
    assert run_city()[1] == run_city()[1]


@pytest.mark.parametrize("policy", ["node-queue", "single-queue", "round-robin"])
def test_any_policy_can_have_results_served_first(policy: str) -> None:
    (first, _), (by_age, _) = run_city(policy, serving="results-first"), run_city(policy)
    assert digest(first) == digest(by_age)


def test_results_are_served_first_where_rows_are_counted_and_not_processed() -> None:
    means = [run_city(mode="statistical", serving=serving)[1] for serving in ("results-first", "by-age")]
    assert means[0] < means[1]
