"""The figures of the first two studies: a point of a figure under one policy.

Latencies, moves and utilisation are the same each time; only the processor time of policies is measured. The studies do
not say what an event costs, so one constant per study is chosen, `WORK`, and used for all its policies, workloads and
machines.
"""

from typing import cast

from measures.studies.policy_run import BUCKETS, below, run_scenario
from measures.studies.scenario import Scenario
from shoal.experiments.experiment import TrialOutcome
from shoal.workloads.traffic.events import Profile

WORK = {"000": 1.6, "001": 7.9}
"""000: a core that has three of the 50 operators for top speeds takes just under 20 ms for a step of 220,000 vehicles,
as the study's latencies under greedy imply. 001: 360,000 vehicles need 90 % of 24 cores, about the most that the
study's own policy carries here; in the study it just carries them."""
LIMITS_MS = (10, 20, 30, 60, 90)


def point(
    study: str, profile: str, topology: str, vehicles: int, policy: str, seconds: int, warm_up_s: int = 0
) -> TrialOutcome:
    """Latency, its distribution and its course, moves, and the use of cores."""
    scenario = Scenario(study, "", cast(Profile, profile), topology, vehicles, seconds, warm_up_s)
    found = run_scenario(scenario, policy, WORK[study])
    busy = found["busy"]
    metrics = {
        "latency_ms.mean": found["mean_ms"],
        "latency_ms.p99": found["p99_ms"],
        **{f"percent_below_{limit}_ms": 100 * below(found, limit) for limit in LIMITS_MS},
        "busy_percent.mean": 100 * sum(busy) / len(busy),
        "busy_percent.min": 100 * min(busy),
        "busy_percent.max": 100 * max(busy),
        "moves": found["moves"],
        "overhead_percent": 100 * (found["migration_s"] + found["policy_s"]) / max(found["compute_s"], 1e-9),
    }
    over_time = [[second + 0.5, value] for second, value in enumerate(found["latency_ms"]) if value]
    below_ms = [[10.0 * number, 100 * below(found, 10 * number)] for number in range(BUCKETS)]
    return TrialOutcome(metrics, series={"latency_ms": over_time, "percent_below": below_ms})
