"""Profiles in files, and what simulated runs take from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.measured_contention import Contention
from shoal.runtimes.simulated.settings import SimulatedSettings

SLOW = {
    "work": [1.0, 1.2],
    "turn": [1.1, 1.4],
    "long": [1.0, 1.1],
    "waits": {"lane 0": [0.5, 1.5]},
    "wake_ups": [[0.0, 0.0], [1e-4, 0.0]],
    "deliveries": [[0.0, 1e-3], [1e-3, 2e-3]],
    "pauses": [[1e-5, 3e-5], [2e-5, 6e-5]],
    "closings": {"lane 0": [0.0, 1e-4]},
}
CONTENTION = {
    "at_rate": SLOW,
    "as_fast_as_possible": {**SLOW, "work": [1.0, 1.5]},
    "nodes": {"lane 0": 2.0},
    "long_s": 0.002,
}


def test_a_machine_slows_down_as_the_profile_has_measured_if_it_shall(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"contention": CONTENTION}))
    settings = SimulatedSettings.of({"topology": "cores:4", "trace": str(file), "contention": "profile"})
    found = settings.machine_at(limited=False)
    assert (found.slowdown, found.turn_slowdown) == ((1.0, 1.2), (1.1, 1.4))
    assert (found.long_slowdown, found.long_s) == ((1.0, 1.1), 0.002)
    assert found.wake_ups == ((0.0, 0.0), (1e-4, 0.0))
    assert found.pauses == ((1e-5, 3e-5), (2e-5, 6e-5))
    assert settings.delivery(limited=False).measured_s == ((0.0, 1e-3), (1e-3, 2e-3))
    assert settings.machine_at(limited=True).slowdown == (1.0, 1.5)
    plain = SimulatedSettings.of({"topology": "cores:4", "trace": str(file)})
    assert plain.machine_at(limited=False) is plain.machine


def test_nodes_without_a_factor_are_slowed_down_like_all() -> None:
    found = Contention.of({"contention": CONTENTION}, limited=False)
    assert (found.of_node("lane 0"), found.of_node("lane 1"), found.typical) == (2.0, 1.0, 1.4)


def test_fixed_parts_of_several_nodes_vary_less_together_than_alone() -> None:
    found = Contention.of({"contention": CONTENTION}, limited=False)
    alone, both = (found.together(weights) for weights in ({"lane 0": 1.0}, {"lane 0": 1.0, "sink": 1.0}))
    assert (min(alone), max(alone)) == pytest.approx((0.5, 1.5), abs=0.05)
    assert (min(both), max(both)) == pytest.approx((0.75, 1.25), abs=0.05)
    assert found.together({"sink": 1.0}) == found.together({}) == ()


@pytest.mark.parametrize("profile", [{}, {"contention": {"at_rate": []}}, {"contention": [1.0]}])
def test_a_profile_without_contention_is_refused(profile: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="profile has no contention of workers; measure it again"):
        Contention.of(profile, limited=False)


def test_a_profile_whose_contention_lacks_a_part_is_refused() -> None:
    lacking = {"at_rate": {"work": [1.0], "turn": [1.0], "long": [1.0], "waits": {}}, "nodes": {}}
    with pytest.raises(ConfigError, match="profile has a contention that cannot be read: 'wake_ups'; measure it again"):
        Contention.of({"contention": lacking}, limited=False)


def test_contention_needs_a_profile() -> None:
    with pytest.raises(ConfigError, match="contention=profile needs trace=FILE"):
        SimulatedSettings.of({"contention": "profile"})
