"""Choices: a table of all mechanisms, the cheapest first, with the reason why each other one is not chosen."""

from dataclasses import replace

import pytest
from tests.control.twin.profiles import windows

from shoal.control.twin.choice import Objective, choose
from shoal.errors import ConfigError, MechanismError
from shoal.mechanisms.catalog import MECHANISMS


def test_every_mechanism_is_in_the_table_once_the_cheapest_first() -> None:
    table = choose(windows())
    assert sorted(each.mechanism for each in table) == sorted(MECHANISMS)
    assert [each.cost for each in table] == sorted(each.cost for each in table)
    assert not table[0].refused
    assert all(each.refused for each in table[1:])


def test_an_impossible_mechanism_is_last_with_the_reason() -> None:
    table = choose(replace(windows(), bounded=False))
    assert table[-1].mechanism == "window-recreation"
    assert table[-1].prediction is None
    assert "its state depends on events of any age" in table[-1].refused


def test_only_the_given_mechanisms_are_compared() -> None:
    table = choose(windows(), among=("all-at-once", "rhino"))
    assert {each.mechanism for each in table} == {"all-at-once", "rhino"}
    with pytest.raises(MechanismError, match="no mechanism of none can move this state"):
        choose(windows(), among=())


def test_the_weights_decide() -> None:
    profile = windows(left_s=0.5)
    bytes_ = choose(profile, Objective(latency=0, emission=0, bytes=1, loss=0, time=0))
    loss = choose(profile, Objective(latency=0, emission=0, bytes=0, loss=1, time=0))
    assert bytes_[0].mechanism == "drop"
    assert loss[0].mechanism == "lazy-utility"


def test_the_reason_is_the_term_that_makes_the_difference() -> None:
    reasons = {each.mechanism: each.refused for each in choose(windows(transfer_s=4.0))}
    assert reasons["drop"] == "more state would be lost"
    assert reasons["all-at-once"] == "events would wait longer"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed:1", "objective must weigh latency, emission, bytes, loss, time as TERM:WEIGHT; got 'speed:1'"),
        ("latency", "weight of latency in objective must be a number; got ''"),
        ("loss:-1", "loss of an objective must be 0 or more and finite; got -1.0"),
    ],
)
def test_an_objective_that_makes_no_sense_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Objective.of(text)
