"""What an event core costs: processor time of the same model with each."""

import time

import numpy as np

from measures.outcome import checked
from measures.simulated.event_cores import CORES, OVERLOAD, STAGES, TOLERANCE_S, Model, model, with_heapq
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome


def steps(core: str, seconds: float = 10.0) -> TrialOutcome:
    """Simulate some seconds; finish times must be those of plain Python, also if workers are overloaded."""
    if core not in CORES:
        raise ConfigError(f"core must be one of {', '.join(CORES)}; got {core!r}")
    overloaded, given = model(min(seconds, 1.0), OVERLOAD), model(seconds)
    wrong = _differences(overloaded, CORES[core](overloaded))
    began = time.process_time()
    finished = CORES[core](given)
    cpu_s = time.process_time() - began
    wrong += _differences(given, finished)
    latency_ms = (finished[:, STAGES::STAGES] - given.arrivals_s[:, None]) * 1e3
    metrics = {
        "events": given.executions,
        "events_per_s": given.executions / cpu_s,
        "cpu_s": cpu_s,
        "latency_ms.mean": float(latency_ms.mean()),
        "latency_ms.p99": float(np.quantile(latency_ms, 0.99)),
    }
    return checked(metrics, wrong)


def _differences(given: Model, finished: np.ndarray) -> list[str]:
    """Where a core differs from plain Python."""
    if not (finished > 0).all():
        return ["some tasks have not run"]
    difference_s = float(np.abs(finished - with_heapq(given)).max())
    return [f"finish times differ by {difference_s} s"] if difference_s > TOLERANCE_S else []
