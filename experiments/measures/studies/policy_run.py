"""A run of a point of the studies under one policy: latencies, moves and utilisation."""

import json
import tempfile
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from measures.studies.scenario import EPOCH_S, RESULTS_PER_S, SAMPLE_ROWS, SPEED, STEP_S, Scenario, costs_by_complexity
from shoal.control.observation import merged_snapshots
from shoal.control.settings import ControlSettings
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Snapshot
from shoal.policies.binding.layout import Layout
from shoal.policies.binding.metis import Metis
from shoal.session.run import Run, start

PROFILE_S = 2
"""Static METIS binds by a profile of this time, of the beginning."""
BUCKET_S, BUCKETS = 0.01, 10
"""Latencies are counted by 10 ms, those of 90 ms and more together."""
ASKED = {"decision": "always", "window_s": "0.19", "rest_s": "0.19", "most_rest_s": "0.19"}
"""A policy of the studies decides by the latest epoch, and all that it proposes is done at once."""
EVERY_2_S = {**ASKED, "window_s": "1.99", "trigger": "periodic:1.9"}
POLICIES: Mapping[str, Mapping[str, str]] = {
    "single-queue": {},
    "node-queue": {},
    "round-robin": {},
    "partition": {},
    "greedy": EVERY_2_S,
    "metis": {},
    "dynamic-metis": EVERY_2_S,
    "two-level": {**ASKED, "trigger": "latency:0.03"},
    "guarded": {},
}
"""Settings of the controller by policy; `guarded`, Shoal's own, has its defaults."""


@dataclass
class Followed:
    """What epochs have shown, up to the end of the input."""

    seconds: int
    warm_up_s: int = 0
    latency: Histogram = field(default_factory=Histogram)
    by_second: dict[int, Histogram] = field(default_factory=dict)
    busy_s: Any = 0.0
    moves: int = 0
    migration_s: float = 0.0
    snapshots: list[Snapshot] = field(default_factory=list)
    binding: Binding | None = None
    """A binding that is put in force after the first epoch."""

    def take(self, run: Run, epoch: EpochCommitted) -> None:
        """Add an epoch."""
        self.snapshots.append(epoch.snapshot)
        if epoch.epoch == 0 and self.binding is not None:
            run.rebind(self.binding)
        if epoch.at_s > self.seconds + EPOCH_S / 2:
            return
        self.busy_s = self.busy_s + np.array(epoch.snapshot.busy_s)
        self.moves += epoch.moves
        self.migration_s += epoch.migration_s
        if epoch.latency is not None:
            second = min(self.seconds - 1, int(epoch.at_s - EPOCH_S / 2))
            self.by_second[second] = merged([self.by_second.get(second, Histogram()), epoch.latency])
            if epoch.at_s > self.warm_up_s + EPOCH_S / 2:
                self.latency = merged([self.latency, epoch.latency])


def run_scenario(scenario: Scenario, policy: str, work: float) -> dict[str, Any]:
    """Run a policy; `work` calibrates the costs."""
    binding = profiled(scenario, work) if policy == "metis" else None
    return follow(scenario, policy, work, Followed(scenario.seconds, scenario.warm_up_s, binding=binding))


def profiled(scenario: Scenario, work: float) -> Binding:
    """The binding of static METIS, by all that the first seconds under round-robin have to compute."""
    followed = Followed(PROFILE_S)
    follow(scenario, "round-robin", work, followed, PROFILE_S)
    whole = merged_snapshots(followed.snapshots)
    assert whole.topology is not None
    assert whole.graph is not None
    return Metis().propose(Layout.of(whole.graph).loads(whole), whole.binding, whole.topology)


def follow(scenario: Scenario, policy: str, work: float, followed: Followed, seconds: int = 0) -> dict[str, Any]:
    """Run a policy, or its first seconds, to the end of its input and until all of that is processed."""
    job = scenario.job(seconds)
    factor = work * scenario.stands_for / SPEED.get(scenario.topology, 1.0)
    conf = {"source": "outside", "arrival": "step", "turn_steps": "1", "step_s": repr(STEP_S), "epoch_s": repr(EPOCH_S)}
    conf |= {"work_factor": repr(factor), "measure_policy": "true", **scenario.settings}
    with tempfile.TemporaryDirectory(prefix="shoal-study-") as directory:
        if scenario.study == "000":
            profile = Path(directory) / "profile.json"
            profile.write_text(json.dumps(costs_by_complexity(job.graph, 1e-9)))
            conf |= {"delay": "traced", "trace": str(profile), "mode": "statistical", "sample_rows": str(SAMPLE_ROWS)}
        control = ControlSettings.of(POLICIES[policy])
        bound = "round-robin" if policy == "metis" else policy
        run = start(job, on="simulated", policy=bound, topology=scenario.topology, conf=conf, control=control)
        tally = run.wait(followed.take)
    counted_s = scenario.seconds - scenario.warm_up_s
    expected = len(scenario.queries) * (counted_s * RESULTS_PER_S[scenario.study] - 2)
    return {
        "scenario": {**asdict(scenario), "name": scenario.name},
        "policy": policy,
        "mean_ms": 1000 * followed.latency.sum_s / max(1, followed.latency.total),
        "p99_ms": 1000 * followed.latency.percentile(99),
        "latency_ms": [_mean_ms(followed.by_second.get(second)) for second in range(scenario.seconds)],
        "shares": shares(followed.latency, expected),
        "moves": followed.moves,
        "compute_s": float(np.sum(followed.busy_s)),
        "migration_s": followed.migration_s,
        "policy_s": tally.policy_s,
        "busy": (np.asarray(followed.busy_s) / scenario.seconds).tolist(),
    }


def shares(latency: Histogram, expected: int) -> list[float]:
    """Shares of queries and steps by latency, in buckets of 10 ms; what has not come in time is in the last one."""
    counts = np.zeros(BUCKETS)
    limits = [_bucket_of(number * BUCKET_S) for number in range(1, BUCKETS)]
    for bucket, times in latency.counts.items():
        counts[bisect_right(limits, bucket)] += times
    counts[-1] += max(0, expected - latency.total)
    return (counts / counts.sum()).tolist()


def _bucket_of(value_s: float) -> int:
    """The bucket of a histogram that a latency is in."""
    one = Histogram()
    one.record(value_s)
    return next(iter(one.counts))


def below(outcome: Mapping[str, Any], milliseconds: int) -> float:
    """The share of queries and steps below a latency, a multiple of 10 ms up to 90."""
    return float(sum(outcome["shares"][: round(milliseconds / 1000 / BUCKET_S)]))


def _mean_ms(latency: Histogram | None) -> float | None:
    return None if latency is None or not latency.total else 1000 * latency.sum_s / latency.total
