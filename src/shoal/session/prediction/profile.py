"""Profiles: measured cost, selectivity and state of every operator of a job."""

from typing import Any

from shoal.errors import ConfigError
from shoal.runtimes.protocol import Say
from shoal.runtimes.registry import kinds, runtime_kind
from shoal.session.job import Job
from shoal.session.prediction.calibration import calibrated


def profiled(job: Job, on: str = "local", say: Say | None = None) -> dict[str, Any]:
    """Run a job on a runtime, several times, and return what its parts cost.

    Where workers slow each other down, runs at rates are simulated by what was found, and its waits are calibrated.
    """
    measure = runtime_kind(on).profile
    if measure is None:
        able = ", ".join(kind.capabilities.name for kind in kinds() if kind.profile is not None)
        raise ConfigError(f"runtime of a profile must be one of {able}; got {on!r}")
    found = measure(job.graph, job.sources, say)
    tell: Say = say if say is not None else lambda _text: None
    return calibrated(job, found, on, tell) if "contention" in found else found
