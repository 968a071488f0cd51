"""A hot key group on eight simulated cores: split, all of them keep up; whole, one of them bounds the run."""

import pytest

from measures.control.hot_group import pattern
from shoal.experiments.experiment import TrialOutcome

RATE = 8_000


def on_eight_cores(share: float, *, split: bool) -> TrialOutcome:
    return pattern("simulated", share, 8 * RATE, split, cores=8, rate=RATE, stands_for=100)


@pytest.mark.parametrize("share", [0.4, 0.7])
def test_splitting_a_group_that_one_core_cannot_serve_lets_the_run_keep_up(share: float) -> None:
    whole, split = on_eight_cores(share, split=False), on_eight_cores(share, split=True)
    assert split.answers == whole.answers
    assert whole.metrics["events_per_s"] < 0.8 * RATE
    assert split.metrics["events_per_s"] > 0.95 * RATE
    assert split.metrics["latency_ms.mean"] < 0.25 * whole.metrics["latency_ms.mean"]
