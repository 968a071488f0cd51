"""Triggers: when they fire, and what they say."""

import pytest

from shoal.control.observation import Observation
from shoal.control.trigger import Imbalance, Latency, Periodic, reason, triggers_of
from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Load, Loads

A, B = InstanceId("a/0"), InstanceId("b/0")


def observation(work: tuple[float, float] = (1.0, 1.0), **latency_s: float) -> Observation:
    loads = Loads.of({A: Load(work[0], 0.0, 1.0), B: Load(work[1], 0.0, 1.0)}, latency_s=latency_s)
    return Observation(loads, Binding.of({A: 0, B: 1}, 2), Topology.of(1, 2), 1.0)


def test_latency_fires_until_it_is_clearly_lower_again() -> None:
    trigger = Latency(0.030)
    fired = [bool(trigger.fires(observation(t=ms / 1000), 0.0)) for ms in (20, 29, 31, 28, 25, 23, 28, 31)]
    assert fired == [False, False, True, True, True, False, False, True]


def test_latency_names_the_slowest_table() -> None:
    text = Latency(0.030).fires(observation(fast=0.001, slow=0.2, middling=0.1), 0.0)
    assert text == "latency of slow was 200 ms, over the threshold of 30 ms"


def test_a_table_without_rows_is_not_slow() -> None:
    trigger = Latency(0.030)
    assert trigger.fires(observation(t=1.0), 0.0)
    assert trigger.fires(observation(), 0.0) == ""


def test_imbalance_names_the_busiest_worker() -> None:
    assert Imbalance(1.4).fires(observation((1.0, 3.0)), 0.0) == "worker 1 had 1.50 times the mean load of the workers"
    assert Imbalance(1.5).fires(observation((1.0, 3.0)), 0.0) == ""


def test_periodic_fires_by_the_time_it_is_told() -> None:
    trigger = Periodic(2.0)
    assert [bool(trigger.fires(observation(), now_s)) for now_s in (10, 11, 12, 13, 13.9, 14.5, 16)] == [
        False,
        False,
        True,
        False,
        False,
        True,
        False,
    ]


def test_all_triggers_are_asked_and_all_reasons_told() -> None:
    triggers = triggers_of("latency:0.03,imbalance:1.2,periodic:5")
    observed = observation((1.0, 3.0), t=1.0)
    assert reason(triggers, observed, 0.0).count(";") == 1
    assert reason(triggers, observed, 5.0).count(";") == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("moon:1", "trigger must be one of latency, imbalance, periodic, each with a number; got 'moon:1'"),
        ("latency", "trigger latency needs a number after its colon; got 'latency'"),
        ("imbalance:1", "an imbalance trigger needs a ratio above 1; got 1.0"),
        ("periodic:0", "a periodic trigger needs more than 0 seconds; got 0.0"),
        ("latency:-1", "a latency trigger needs a threshold above 0 s and a release from 0 to 1; got -1.0 s and 0.8"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_a_clear_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        triggers_of(text)
    assert str(caught.value) == message
