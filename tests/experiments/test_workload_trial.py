"""Trials of workloads: what is measured beside the results."""

from pathlib import Path

import pytest

from shoal.experiments.experiment import Parameters
from shoal.experiments.workload_trial import run_workload

PARAMETERS: Parameters = {"engine": "shoal-local", "events": 20_000, "workers": 1, "set.per_s": 1000}


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not say what others do")
def test_a_trial_says_what_share_of_the_processors_others_had() -> None:
    assert 0 <= run_workload("ysb", PARAMETERS, 0).metrics["others_share"] <= 1


def test_a_share_that_is_not_known_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.experiments.processor_use.STATISTICS", Path("/nonexistent"))
    assert "others_share" not in run_workload("ysb", PARAMETERS, 0).metrics
