"""Delay models: what they say that streams and lanes cost."""

import json
from dataclasses import asdict, replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.compiler.program import Program, compile_graph
from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.delay.measured_contention import Contention
from shoal.runtimes.simulated.delay.model import DELAY_MODELS, delay_model
from shoal.runtimes.simulated.delay.state_dependent import WEIGHT_S
from shoal.runtimes.simulated.delay.traced import TURN_EVENTS
from shoal.runtimes.simulated.delay.uniform import EVENT_S
from shoal.runtimes.simulated.settings import SimulatedSettings
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

DECISION_S = 1e-5


def program(name: str, **settings: str) -> Program:
    return compile_graph(workload(name).ready(0, Amount(10), settings).job.graph)


def costs(fixed_s: float = 0.0, event_s: float = 0.0, result_s: float = 0.0) -> dict[str, float]:
    nothing = dict.fromkeys(("state_byte_s", "merged_row_s", "merged_event_s", "pair_s"), 0.0)
    return {"fixed_s": fixed_s, "event_s": event_s, "result_s": result_s, "spread": 0.1, **nothing}


def profile_of(compiled: Program) -> dict[str, Any]:
    """A profile of ysb: 1000 events in 10 turns, a third of which pass the filter, and 4 results in 2 turns."""
    lane = compiled.lanes[0]
    operators = sorted({str(instance).rpartition("/")[0] for instance in lane.instances})
    made: list[tuple[Any, ...]] = [
        ("source ad_events", "source", [], 1000, 1000, 10, costs(1e-4, 1e-8)),
        ("filter", "steps", ["source ad_events"], 1000, 300, 5, costs(1e-5, 2e-9, 1e-9)),
        ("lane 0", "lane", ["filter"], 300, 4, 8, costs(1e-6, 5e-9, 3e-9)),
        ("sink views", "outlet", ["lane 0"], 4, 4, 2, costs(1e-6, 4e-8)),
    ]
    names = ("name", "kind", "inputs", "events_in", "events_out", "turns", "cost")
    nodes = [dict(zip(names, each, strict=True)) for each in made]
    for node in nodes:
        node["operators"] = operators if node["kind"] == "lane" else [node["name"]]
        node["selectivity"] = node["events_out"] / node["events_in"]
    nodes[2]["lane"] = 0
    return {"simulator": {"nodes": nodes, "worker": {"decision_s": DECISION_S}}, "divided": {"nodes": nodes[:1]}}


def near(found: Cost, expected: Cost) -> bool:
    return asdict(found) == {name: pytest.approx(value, rel=1e-9, abs=0) for name, value in asdict(expected).items()}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.integers(0, 100), st.floats(0, 1e9))
def test_a_cost_is_linear_in_events_results_and_bytes(events: list[int], results: int, state_bytes: float) -> None:
    cost = Cost(1e-4, 2e-8, 3e-7, 4e-9, emit_s=5e-5)
    expected = [1e-4 + 5e-5 * (results > 0) + 2e-8 * each + 3e-7 * results + 4e-9 * state_bytes for each in events]
    assert cost.seconds(events, results, state_bytes) == pytest.approx(expected)
    assert cost.seconds(np.array([events]), results, state_bytes).shape == (1, len(events))


@pytest.mark.parametrize("value", [-1e-9, float("nan"), float("inf"), "1"])
def test_a_cost_that_is_no_number_from_0_on_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="event_s of a cost must be a number from 0 on"):
        Cost(event_s=value)


def test_uniform_adds_up_the_steps_of_a_stream_each_once() -> None:
    cost = delay_model("uniform", program("ysb")).stream("ad_events")
    steps = ("source", "filter", "select", "filter", "group")
    assert near(cost, Cost(event_s=sum(EVENT_S[kind] for kind in steps)))


def test_uniform_emits_results_without_state_with_the_stream() -> None:
    compiled = program("nexmark", queries="0")
    cost = delay_model("uniform", compiled).stream("bid")
    assert cost.event_s >= EVENT_S["source"] + EVENT_S["sink"]
    assert all(delay_model("uniform", compiled).lane(lane) == Cost() for lane in compiled.lanes)


def test_weights_replace_the_defaults() -> None:
    compiled = program("ysb")
    plain, other = (delay_model("uniform", compiled, weights=weights) for weights in (None, {"aggregate": 1e-3}))
    lane = compiled.lanes[0]
    assert other.lane(lane).event_s == 1e-3
    assert other.lane(lane).result_s == plain.lane(lane).result_s == EVENT_S["sink"]


def test_an_aggregate_weighs_by_the_windows_that_an_event_lies_in() -> None:
    compiled = program("traffic", regions="2")
    model = delay_model("state-dependent", compiled)
    found = sorted(model.lane(lane).event_s / WEIGHT_S["aggregate"] for lane in compiled.lanes)
    assert found == pytest.approx([10, 20, 30])


def test_a_join_weighs_by_its_matches_and_a_pattern_by_its_conditions() -> None:
    compiled = program("skew")
    model = delay_model("state-dependent", compiled)
    kind_of = {
        compiled.graph.operators[str(lane.instances[0]).partition("/")[0]].kind: model.lane(lane)  # type: ignore[index]
        for lane in compiled.lanes
    }
    assert kind_of["join"].event_s == 0
    assert kind_of["join"].result_s >= WEIGHT_S["join"]
    assert kind_of["match"].event_s == pytest.approx(3 * WEIGHT_S["match"])


PAUSES = ((1e-5, 1e-5), (2e-5, 6e-5))


def test_traced_slows_the_fixed_part_of_every_node_down_by_its_own_factor() -> None:
    compiled = program("ysb")
    waits = {"source ad_events": (0.5, 1.5), "lane 0": (0.0, 2.0)}
    slowed = Contention(
        (1.0, 2.0), (1.0, 4.0), (), (), {"source ad_events": 3.0, "sink views": 0.5}, waits, (), inf, PAUSES
    )
    model = delay_model("traced", compiled, profile_of(compiled), slowed=slowed)
    pause_s = 4e-5 / 4  # beside a busy worker the core multiplies it by 4 again
    assert model.stream("ad_events").fixed_s == pytest.approx(3e-4)
    assert model.feed("ad_events", compiled.lanes[0]).fixed_s == pytest.approx(1e-5 / 2)
    lane = model.lane(compiled.lanes[0])
    assert lane.fixed_s == pytest.approx(1e-6)
    assert (min(lane.waits), max(lane.waits)) == pytest.approx((0.0, 2.0), abs=0.05)
    assert 0.49 < min(model.stream("ad_events").waits) < max(model.stream("ad_events").waits) < 1.51
    assert model.feed("ad_events", compiled.lanes[0]).waits == ()
    assert lane.emit_s == pytest.approx((0.5e-6 + pause_s) * 4 / 2)


def test_steps_that_take_turns_of_their_own_cost_as_much_in_all_as_those_of_the_stream() -> None:
    compiled = program("ysb")
    lane, slowed = compiled.lanes[0], Contention((1.0,), (1.0,), (), (), {}, {}, (), inf, ())
    whole, apart = (delay_model("traced", compiled, profile_of(compiled), slowed=each) for each in (None, slowed))
    stream, feed = apart.stream("ad_events"), apart.feed("ad_events", lane)
    assert (feed.fixed_s, feed.event_s) > (0.0, 0.0)
    first_s = DECISION_S * 1.5  # with contention a worker pauses before each of the tasks
    assert stream.fixed_s + feed.fixed_s + first_s == pytest.approx(whole.stream("ad_events").fixed_s)
    assert stream.event_s + feed.event_s == pytest.approx(whole.stream("ad_events").event_s, rel=0.01)
    assert whole.feed("ad_events", lane) == delay_model("uniform", compiled).feed("ad_events", lane) == Cost()


def test_traced_adds_the_nodes_behind_a_stream_by_what_they_take_of_it() -> None:
    compiled = program("ysb")
    model = delay_model("traced", compiled, profile_of(compiled))
    fixed_s = 1e-4 + DECISION_S + (1e-5 + DECISION_S) / 2
    event_s = 1e-8 + 2e-9 + 0.3 * 1e-9 + (1e-5 + DECISION_S) / 2 / TURN_EVENTS
    stream = Cost(fixed_s, event_s, spread=0.1)
    turn_s = 1e-6 + DECISION_S
    lane = Cost(turn_s, 5e-9 + turn_s / TURN_EVENTS, result_s=3e-9 + 4e-8, spread=0.1, emit_s=turn_s)
    assert near(model.stream("ad_events"), stream)
    assert near(model.lane(compiled.lanes[0]), lane)
    assert model.selectivity(compiled.lanes[0]) == 4 / 300
    assert [node["name"] for node in model.nodes() or ()] == ["source ad_events", "filter", "lane 0", "sink views"]
    assert [node["name"] for node in model.nodes(divided=True) or ()] == ["source ad_events"]


def test_the_cost_of_traced_streams_and_lanes_is_that_of_all_turns_and_decisions_of_the_profile() -> None:
    compiled = program("ysb")
    profile = profile_of(compiled)
    model = delay_model("traced", compiled, profile)
    stream, lane = model.stream("ad_events"), model.lane(compiled.lanes[0])
    total = 10 * stream.fixed_s + 1000 * stream.event_s + 8 * lane.fixed_s + 300 * lane.event_s
    total += 2 * lane.emit_s + 4 * lane.result_s
    each = profile["simulator"]["nodes"]
    expected = sum(
        node["turns"] * (node["cost"]["fixed_s"] + DECISION_S)
        + node["events_in"] * node["cost"]["event_s"]
        + node["events_out"] * node["cost"]["result_s"]
        for node in each
    )
    # turns are small in this profile; a little is added for turns that would be too large
    assert total == pytest.approx(expected, rel=0.005)


def test_turns_that_bring_only_a_watermark_belong_to_the_stream_or_to_the_lane_before_them() -> None:
    compiled = program("ysb")
    plain, profile = delay_model("traced", compiled, profile_of(compiled)), profile_of(compiled)
    for name in ("lane 0", "sink views"):
        node = next(node for node in profile["simulator"]["nodes"] if node["name"] == name)
        node["empty_turns"] = {"turns": 4, "cpu_s": 3e-5}
    model, empty_s = delay_model("traced", compiled, profile), 3e-5 + 4 * DECISION_S
    lane = compiled.lanes[0]
    assert model.stream("ad_events").fixed_s - plain.stream("ad_events").fixed_s == pytest.approx(empty_s / 10)
    assert model.lane(lane).fixed_s - plain.lane(lane).fixed_s == pytest.approx(empty_s / 8)


def test_turns_of_a_lane_behind_a_lane_that_bring_only_a_watermark_belong_to_that() -> None:
    compiled = program("ysb")
    plain, profile = delay_model("traced", compiled, profile_of(compiled)), profile_of(compiled)
    behind = {**profile["simulator"]["nodes"][2], "name": "lane 1", "inputs": ["lane 0"], "lane": 1}
    profile["simulator"]["nodes"].append({**behind, "empty_turns": {"turns": 6, "cpu_s": 2e-5}})
    found = delay_model("traced", compiled, profile).lane(compiled.lanes[0])
    more_s = (2e-5 + 6 * DECISION_S) / 8
    assert near(found, replace(plain.lane(compiled.lanes[0]), fixed_s=1e-6 + DECISION_S + more_s))


def test_with_contention_a_watermark_is_a_turn_of_the_lane_that_gets_it_with_what_it_costs_behind() -> None:
    compiled, profile = program("ysb"), profile_of(program("ysb"))
    slowed = Contention((1.0, 2.0), (1.0, 4.0), (), (), {}, {}, (), inf, PAUSES, {"lane 0": (1e-3, 3e-3)})
    plain = delay_model("traced", compiled, profile, slowed=slowed)
    assert plain.lane(compiled.lanes[0]).bare_s == 0.0
    for name, empty in (("lane 0", {"turns": 4, "cpu_s": 4e-5}), ("sink views", {"turns": 2, "cpu_s": 1e-5})):
        node = next(node for node in profile["simulator"]["nodes"] if node["name"] == name)
        node["empty_turns"] = empty
    model = delay_model("traced", compiled, profile, slowed=slowed)
    lane = model.lane(compiled.lanes[0])
    assert lane.bare_s == pytest.approx(1e-5 / 4 + (1e-5 + 2 * 4e-5) / 4 / 4)
    assert lane.fixed_s == pytest.approx(plain.lane(compiled.lanes[0]).fixed_s)
    assert model.stream("ad_events") == plain.stream("ad_events")
    assert lane.closings == pytest.approx((5e-4, 1.5e-3))  # beside a busy worker the core takes them twice again


def test_traced_takes_the_costs_of_divided_lanes_if_it_shall() -> None:
    compiled = program("ysb")
    profile = profile_of(compiled)
    profile["divided"] = json.loads(json.dumps(profile["simulator"]))
    profile["divided"]["nodes"][0]["cost"]["fixed_s"] = 1.0
    assert delay_model("traced", compiled, profile, divided=True).stream("ad_events").fixed_s > 1.0
    assert delay_model("traced", compiled, profile).stream("ad_events").fixed_s < 1.0


@pytest.mark.parametrize("name", DELAY_MODELS[:2])
def test_other_models_have_no_nodes_and_know_selectivities_only_from_a_profile(name: str) -> None:
    compiled = program("ysb")
    assert delay_model(name, compiled).nodes() is None
    with pytest.raises(ConfigError, match="selectivity of lane 0 is not known without a profile"):
        delay_model(name, compiled).selectivity(compiled.lanes[0])
    assert delay_model(name, compiled, profile_of(compiled)).selectivity(compiled.lanes[0]) == 4 / 300


def test_mistakes_are_named() -> None:
    compiled = program("ysb")
    profile = profile_of(compiled)
    with pytest.raises(
        ConfigError, match=r"delay model must be one of uniform, .*; got 'trace'; did you mean 'traced'"
    ):
        delay_model("trace", compiled)
    with pytest.raises(ConfigError, match="delay model traced needs a profile; measure one with shoal profile"):
        delay_model("traced", compiled)
    with pytest.raises(ConfigError, match="profile has no nodes under 'simulator'"):
        delay_model("traced", compiled, {"operators": []})
    with pytest.raises(ConfigError, match="no weight 'agregate'; did you mean 'aggregate'"):
        delay_model("uniform", compiled, weights={"agregate": 1.0})
    with pytest.raises(ConfigError, match="leave the weights out"):
        delay_model("traced", compiled, profile, {"aggregate": 1.0})
    with pytest.raises(ConfigError, match="profile is one of other queries: lane 0 has other operators there"):
        delay_model("traced", program("traffic", regions="2"), profile)
    with pytest.raises(ConfigError, match="stream must be one of ad_events; got 'ads'"):
        delay_model("traced", compiled, profile).stream("ads")


def test_weights_are_read_from_a_setting() -> None:
    compiled = program("ysb")
    found = SimulatedSettings.of({"delay": "uniform", "weights": "aggregate=1ms, filter=2us"}).delays(compiled)
    same = delay_model("uniform", compiled, weights={"aggregate": 1e-3, "filter": 2e-6})
    assert [found.lane(lane) for lane in compiled.lanes] == [same.lane(lane) for lane in compiled.lanes]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("join", "weights must be KIND=TIME, each kind once, such as join=10us,select=1us; got 'join'"),
        ("join=1us,join=2us", "each kind once"),
        ("join=soon", "weight 'join' must be a number of seconds"),
        ("join=-1us", "weight 'join' must be"),
    ],
)
def test_a_setting_of_weights_that_makes_no_sense_is_refused(weights: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SimulatedSettings.of({"weights": weights})
