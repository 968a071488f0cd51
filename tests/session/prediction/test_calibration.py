"""Calibration: one factor for the waits of a profile, by runs that are measured and simulated."""

import math
from dataclasses import replace
from typing import Any

import pytest

from shoal.connectors.sources.files import Files
from shoal.session.job import Job
from shoal.session.prediction import calibration
from shoal.session.prediction.calibration import LARGEST, SMALLEST, best_factor, calibrated, stretched
from shoal.session.prediction.profile import profiled
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

PART: dict[str, Any] = {"wake_ups": [[1.0, 2.0]], "pauses": [[0.5]], "turn": [1.5], "work": [1.25], "closings": {}}
PROFILE: dict[str, Any] = {
    "events": 1000,
    "cpu_s": 0.1,
    "contention": {"at_rate": PART, "as_fast_as_possible": PART, "nodes": {"a": 1.0}},
}


def traffic(events: int) -> Job:
    return workload("traffic").ready(1, Amount(events), {"regions": "4", "vehicles": "400"}).job


@pytest.mark.parametrize("exponent", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("right", [0.7, 1.0, 1.9])
def test_the_factor_is_found_at_which_errors_even_out(right: float, exponent: float) -> None:
    factor, errors = best_factor(
        lambda factor: [exponent * math.log(factor / right) + each for each in (-0.2, 0.0, 0.2)]
    )
    assert factor == pytest.approx(right, rel=0.08)
    assert sum(errors) / 3 == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize(("error", "bound"), [(-9.0, LARGEST), (9.0, SMALLEST)])
def test_waits_are_not_stretched_beyond_all_measure(error: float, bound: float) -> None:
    assert best_factor(lambda factor: [error + 0.1 * math.log(factor)])[0] == bound


def test_only_waits_at_a_rate_are_stretched() -> None:
    found = stretched(PROFILE, 3.0)["contention"]
    assert found["at_rate"] == {**PART, "wake_ups": [[3.0, 6.0]], "pauses": [[1.5]], "turn": [4.5]}
    assert found["as_fast_as_possible"] == PART
    assert PROFILE["contention"]["at_rate"]["turn"] == [1.5], "the profile that was given is as it was"


def test_means_of_simulated_runs_are_brought_to_those_of_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean_s(job: Job, on: str, workers: int, conf: dict[str, str], least: int) -> float:
        del job, workers, conf, least
        return 0.03 if on == "local" else 0.01 * seen[-1]

    seen: list[float] = []

    def noted(profile: dict[str, Any], factor: float) -> dict[str, Any]:
        seen.append(factor)
        return stretched(profile, factor)

    monkeypatch.setattr(calibration, "_mean_s", mean_s)
    monkeypatch.setattr(calibration, "stretched", noted)
    found = calibrated(traffic(10_000), PROFILE, "local", lambda _text: None)["contention"]
    assert found["calibration"] == {"factor": 3.0, "errors": [0.0, 0.0, 0.0]}
    assert found["at_rate"]["pauses"] == [[pytest.approx(1.5)]]


def test_sources_without_a_rate_leave_a_profile_as_it_is() -> None:
    job, said = traffic(10_000), list[str]()
    of_files = replace(job, sources=dict.fromkeys(job.sources, Files("events")))
    assert calibrated(of_files, PROFILE, "local", said.append) == PROFILE
    assert said == ["no run at a rate of the profile's own has enough results to calibrate its waits"]


@pytest.mark.slow
def test_a_profile_of_local_is_calibrated_by_runs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "REPEATS", 1)
    found = profiled(workload("traffic").ready(1, Amount(2_000_000), {"regions": "4"}).job)
    calibrated_by = found["contention"]["calibration"]
    assert SMALLEST <= calibrated_by["factor"] <= LARGEST
    assert len(calibrated_by["errors"]) == 3
