"""Profiles in files, and what simulated runs take from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import ConfigError
from shoal.runtimes.simulated.delay.profile_file import measured_contention
from shoal.runtimes.simulated.settings import SimulatedSettings

CONTENTION = {"at_rate": [1.1, 1.4], "as_fast_as_possible": [1.0, 1.2]}


def test_a_machine_slows_down_as_the_profile_has_measured_if_it_shall(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"contention": CONTENTION}))
    settings = SimulatedSettings.of({"topology": "cores:4", "trace": str(file), "contention": "profile"})
    assert settings.machine_at(limited=False).slowdown == (1.1, 1.4)
    assert settings.machine_at(limited=True).slowdown == (1.0, 1.2)
    plain = SimulatedSettings.of({"topology": "cores:4", "trace": str(file)})
    assert plain.machine_at(limited=False) is plain.machine


@pytest.mark.parametrize("profile", [{}, {"contention": {"at_rate": []}}, {"contention": [1.0]}])
def test_a_profile_without_contention_is_refused(profile: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="profile has no contention of workers; measure it again"):
        measured_contention(profile, limited=False)


def test_contention_needs_a_profile() -> None:
    with pytest.raises(ConfigError, match="contention=profile needs trace=FILE"):
        SimulatedSettings.of({"contention": "profile"})
