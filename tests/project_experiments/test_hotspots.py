"""Policies that divide the plane in a small hotspot: the one that follows the load does more work, in less time."""

from measures.spatial.policies import hotspot
from shoal.experiments.experiment import TrialOutcome


def small(policy: str) -> TrialOutcome:
    return hotspot(
        "step", policy, per_s=20, subscriptions=2000, work_factor=15_000.0, minutes=24, cells=50, history_s=1.0
    )


def test_swarm_does_more_work_in_a_hotspot_than_a_grid_by_history() -> None:
    swarm, history = small("swarm+uneven"), small("history-grid")
    assert (swarm.oracle, history.oracle) == ("equal", "equal")
    assert swarm.metrics["work_hot"] > 1.8 * history.metrics["work_hot"]
    assert swarm.metrics["latency_ms_hot"] < 0.75 * history.metrics["latency_ms_hot"]
    assert swarm.metrics["busy_percent.min"] > history.metrics["busy_percent.min"]
