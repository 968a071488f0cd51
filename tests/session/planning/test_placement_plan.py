"""Plans: every instance has one host, the chosen binding is the policy's, and what cannot work is warned of."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.small_city import city

from shoal.control.names import instance_names
from shoal.errors import ConfigError
from shoal.session.planning.placement_plan import PlacementPlan, planned
from shoal.session.planning.short_run import ShortRuns

EDGE = """
hosts:
- {name: server, cores: 2, speed: 2, energy: {busy_w: 20, idle_w: 5}}
- {name: box, count: 2, cores: 2, energy: {busy_w: 3, idle_w: 1, byte_j: 1.0e-7}}
- {name: weak, cores: 1, speed: 0.5, energy: {busy_w: 1, idle_w: 0.2, byte_j: 1.0e-6, battery_j: 50}}
star: {bandwidth: 50Mbit, latency: 3ms}
"""


def runs(topology: str, policy: str = "guarded", **conf: str) -> ShortRuns:
    return ShortRuns(city(rate=5_000.0, events=None).job, {"topology": topology, **conf}, 2.0, policy)


@pytest.fixture
def edge(tmp_path: Path) -> str:
    file = tmp_path / "edge.yaml"
    file.write_text(EDGE)
    return str(file)


def plan_of(topology: str, policy: str = "guarded", deadline_ms: str = "", **conf: str) -> PlacementPlan:
    return planned(runs(topology, policy, **conf), deadline_ms)


def test_every_instance_is_on_one_host_and_the_plan_is_the_same_each_time(edge: str) -> None:
    plan = plan_of(edge, "energy-aware", work_factor="30")
    names = sorted(instance_names(city().job.graph).values())
    stateful = sorted(name for host in plan.hosts for name in host.instances)
    assert stateful == sorted(name for name in names if name.startswith("aggregate of"))
    assert plan.data() == plan_of(edge, "energy-aware", work_factor="30").data()


def test_the_chosen_policy_has_the_best_score_by_its_own_goal(edge: str) -> None:
    plan = plan_of(edge, "energy-aware", work_factor="30")
    chosen = [each for each in plan.candidates if each.chosen]
    assert [each.policy for each in chosen] == ["energy-aware"]
    assert chosen[0].score == min(each.score for each in plan.candidates)
    assert {"round-robin", "guarded", "greedy"} <= {each.policy for each in plan.candidates}
    assert plan.refused == {"deadline-aware": "policy deadline-aware needs deadlines of queries; got none"}


def test_a_path_begins_where_the_stream_is_read(edge: str) -> None:
    plan = plan_of(edge)
    host_of = {name: host.name for host in plan.hosts for name in host.instances}
    assert len(plan.queries) == 12
    for query in plan.queries:
        assert query.path == (("server",), (host_of[f"aggregate of {query.name}"],))
        assert query.simulated_s == pytest.approx(query.expected_s, rel=0.5)


def test_what_a_host_does_is_what_was_simulated(edge: str) -> None:
    plan = plan_of(edge)
    sent, received = (sum(getattr(host, name) for host in plan.hosts) for name in ("bytes_out_per_s", "bytes_in_per_s"))
    assert sent == pytest.approx(received, rel=0.01)
    server = plan.hosts[0]
    assert server.joules_per_hour == pytest.approx(3600 * (2 * 5 + 2 * server.busy * 15), rel=0.01)
    assert server.battery_end_s is None


def test_a_battery_that_ends_before_the_horizon_is_warned_of(edge: str) -> None:
    expected = runs(edge, "energy-aware")
    (warning,) = planned(expected, horizon_s=3600.0).warnings
    assert warning.startswith("the battery of host weak is empty after 2")
    assert planned(expected, horizon_s=200.0).warnings == ()


def test_a_host_that_fails_meanwhile_is_warned_of_and_planned_as_before(edge: str) -> None:
    whole = plan_of(edge, "round-robin")
    Path(edge).write_text(EDGE + "outages: [{host: box-2, at: 1.5}]\n")
    plan = plan_of(edge, "round-robin")
    assert plan.warnings[0] == "host box-2 has failed during the simulated run"
    assert [host.instances for host in plan.hosts] == [host.instances for host in whole.hosts]


@pytest.mark.parametrize(
    ("topology", "conf", "warning"),
    [
        pytest.param("cores:2", {"work_factor": "3000"}, "host host is over capacity: a core has work for ", id="host"),
        pytest.param("star:2@100kbit", {}, "link host-1->hub is too slow: it was busy for ", id="link"),
    ],
)
def test_a_machine_that_is_too_small_is_warned_of(topology: str, conf: dict[str, str], warning: str) -> None:
    assert any(text.startswith(warning) for text in plan_of(topology, **conf).warnings)
    assert plan_of("star:2@100Mbit").warnings == ()


def test_late_queries_are_warned_of_by_any_policy() -> None:
    plan = plan_of("star:3@10Mbit,50ms", "round-robin", "vehicle_count[1]:60,1000")
    assert [query.deadline_s for query in plan.queries if query.name == "vehicle_count[1]"] == [0.06]
    assert [text.partition(":")[0] for text in plan.warnings] == ["query vehicle_count[1] is late"]
    assert plan_of("star:3@10Mbit,50ms", "deadline-aware", "vehicle_count[1]:60,1000").warnings == ()


def test_what_cannot_be_planned_is_refused() -> None:
    endless = runs("cores:2")
    with pytest.raises(ConfigError, match=r"^a plan needs a policy that binds instances to workers; got single-queue$"):
        planned(replace(endless, policy="single-queue"))
    with pytest.raises(ConfigError, match=r"^a plan needs a simulated run in statistical mode: a simulated Spark proc"):
        plan_of("spark:2x2")
    with pytest.raises(ConfigError, match=r"^deadline_ms must name queries of the job; got 'nobody'"):
        planned(endless, "nobody:3")
    with pytest.raises(ConfigError, match=r"^policy energy-aware needs the energy of hosts; the topology has none"):
        plan_of("cores:2", "energy-aware")
