"""A decision asks as few nodes as it can, and is the one that asking all of them would bring."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtimes.local.scheduling.test_worker_pool import Relay, channel_of

from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.policy import Candidate, SchedulingPolicy, Turn
from shoal.runtimes.local.dataflow.channel import Channel
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.scheduling.scheduler import TURN_S, Scheduler

NOW_S = 1e9
POLICIES = sorted(set(SCHEDULING) - {"threads"})


class Tap(Node):
    """A source that may be ready, and counts how often it was asked."""

    is_source = True

    def __init__(self, *, ready: bool) -> None:
        super().__init__("tap")
        self.asked = 0
        self._ready = ready

    @property
    def ready(self) -> bool:
        self.asked += 1
        return self._ready

    def turn(self, events: int) -> int:
        return events


@dataclass(frozen=True)
class Drawn:
    """A node: a source or a relay with some packets, whether a worker runs it, and its history."""

    is_source: bool
    packets: int
    has_room: bool
    running: bool
    last_run_s: float
    turns: int
    priority: float
    cost_s: float


drawn_nodes = st.lists(
    st.builds(
        Drawn,
        st.booleans(),
        st.integers(0, 3),
        st.booleans(),
        st.booleans(),
        st.floats(NOW_S - 0.001, NOW_S),
        st.integers(0, 5),
        st.integers(0, 3).map(float),
        st.sampled_from([1e-9, 1e-6, 1e-3]),
    ),
    min_size=1,
    max_size=8,
)


def node_of(drawn: Drawn) -> Node:
    return Tap(ready=drawn.has_room) if drawn.is_source else Relay(channel_of(*range(drawn.packets)))


def full_channel() -> Channel:
    channel = channel_of(1)
    channel.capacity = 1
    return channel


def scheduler_of(drawn: Sequence[Drawn], policy: SchedulingPolicy) -> Scheduler:
    scheduler = Scheduler([node_of(each) for each in drawn], policy, workers=2)
    scheduler._measured_s = NOW_S
    scheduler._runnable.priorities = [each.priority for each in drawn]
    scheduler._runnable.costs_s = [each.cost_s for each in drawn]
    for index, each in enumerate(drawn):
        scheduler.running[index] = each.running
        scheduler.last_run_s[index] = each.last_run_s
        scheduler.turns[index] = each.turns
        if not each.has_room:
            scheduler.nodes[index].outputs.append(full_channel())
    return scheduler


def asking_all(scheduler: Scheduler, drawn: Sequence[Drawn]) -> Turn | None:
    """The turn of the policy if every node is asked, and asked everything."""
    candidates = [
        Candidate(
            index,
            node.pending,
            each.priority,
            each.cost_s,
            NOW_S - min((channel.oldest_s for channel in node.inputs if channel.oldest_s is not None), default=NOW_S),
            NOW_S - each.last_run_s,
            each.turns,
            node.is_source,
            any(channel.full for channel in node.inputs),
        )
        for index, (node, each) in enumerate(zip(scheduler.nodes, drawn, strict=True))
        if not each.running and node.ready
    ]
    turn = scheduler.policy.choose(candidates, TURN_S) if candidates else None
    if turn is None and candidates and not any(each.running for each in drawn):
        turn = scheduler.policy.choose([each._replace(idle_s=math.inf) for each in candidates], TURN_S)
    return turn


@given(drawn_nodes, st.sampled_from(POLICIES))
def test_a_decision_is_that_of_the_policy_among_all_nodes_that_could_run(drawn: list[Drawn], name: str) -> None:
    found = scheduler_of(drawn, SCHEDULING[name])._decide(NOW_S)
    wanted = asking_all(scheduler_of(drawn, SCHEDULING[name]), drawn)
    if wanted is None or found is None:
        assert found is wanted
        return
    tied = not drawn[wanted.position].is_source and name == "round-robin"  # a source before operators of equal turns
    assert found == wanted or (tied and drawn[found.position].turns == drawn[wanted.position].turns)


@pytest.mark.parametrize("name", [name for name in POLICIES if SCHEDULING[name].sources_last])
def test_sources_are_not_asked_while_an_operator_has_a_turn(name: str) -> None:
    tap, relay = Tap(ready=True), Relay(channel_of(*range(3)))
    scheduler = Scheduler([tap, relay], SCHEDULING[name], workers=1)
    turn = scheduler._decide(NOW_S)
    assert turn is not None
    assert turn.position == 1
    assert not tap.asked


def test_a_source_that_does_not_wait_for_operators_has_its_turn_before_one() -> None:
    scheduler = Scheduler([Tap(ready=True), Relay(channel_of(*range(3)))], SCHEDULING["round-robin"], workers=1)
    scheduler.turns[1] = 1
    turn = scheduler._decide(NOW_S)
    assert turn is not None
    assert turn.position == 0


def test_a_source_is_asked_if_no_operator_is_worth_a_turn() -> None:
    tap = Tap(ready=True)
    turn = Scheduler([tap, Relay(channel_of())], SCHEDULING["state-based"], workers=1)._decide(NOW_S)
    assert turn is not None
    assert turn.position == 0
    assert tap.asked


@pytest.mark.parametrize("name", POLICIES)
def test_only_a_policy_by_age_depends_on_how_long_input_has_waited(name: str) -> None:
    policy = SCHEDULING[name]
    old = Candidate(0, 5000, 1.0, 1e-6, 9.0, 0.0, 0)
    young = Candidate(1, 5000, 1.0, 1e-6, 1.0, 0.0, 0)
    turns = [policy.choose(each, TURN_S) for each in ([young, old], [young._replace(waited_s=0.0), old])]
    by_age = policy.choose([young, old], TURN_S) != policy.choose([young, old._replace(waited_s=0.0)], TURN_S)
    assert turns[0] == turns[1]
    assert by_age == policy.by_age
