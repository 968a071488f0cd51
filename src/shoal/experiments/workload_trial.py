"""Trials: one run of a workload on one engine, in its own process; plain data in and out."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from shoal.errors import ConfigError, RunError, ShoalError


@dataclass(frozen=True)
class WorkloadTrial:
    """A workload on an engine, for a number of events or seconds, as fast as possible or at a rate."""

    workload: str
    engine: str = "shoal-local"
    events: int | None = None
    seconds: float | None = None
    rate: str | None = None
    workers: int = 2
    seed: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)
    check: bool = True

    def __post_init__(self) -> None:
        """Reject unknown engines."""
        from shoal.experiments.engines.engine import ENGINES

        if self.engine not in ENGINES:
            raise ConfigError(f"engine must be one of {', '.join(ENGINES)}; got {self.engine!r}")


@dataclass(frozen=True)
class WorkloadOutcome:
    """The outcome of a trial; a number that an engine does not report is None.

    `latency_ms` is from when an event was due to its result in the sink; `marker_ms` from when it was due to the
    sinks, of a marker sent every 50 ms. `timeline` holds (second, events/s, marker latency in ms).
    """

    events: int
    elapsed_s: float
    oracle: str = "not checked"
    digest: str = ""
    cpu_s: float | None = None
    latency_ms: Mapping[str, float] | None = None
    marker_ms: Mapping[str, float] | None = None
    decision_us: float | None = None
    start_up_s: float | None = None
    peak_rss_mb: float | None = None
    timeline: list[list[float]] = field(default_factory=list)

    @property
    def events_per_s(self) -> float:
        """Throughput."""
        return self.events / self.elapsed_s if self.elapsed_s else 0.0


def run_apart(trial: WorkloadTrial) -> WorkloadOutcome:
    """Run a trial in a fresh process, so that no trial depends on the state another has left."""
    command = [sys.executable, "-m", "shoal.experiments.workload_trial", json.dumps(asdict(trial))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RunError(f"{trial.workload} on {trial.engine}: {reason}")
    return WorkloadOutcome(**json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Run the trial given as JSON and print its outcome as JSON."""
    from shoal.experiments.engines.engine import ENGINES

    trial = WorkloadTrial(**json.loads(sys.argv[1]))
    try:
        outcome = ENGINES[trial.engine](trial)
    except ShoalError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    main()
