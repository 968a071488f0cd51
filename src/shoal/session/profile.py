"""Profiles: measured cost, selectivity and state of every operator of a job."""

from typing import Any

from shoal.errors import ConfigError
from shoal.runtimes.registry import kinds
from shoal.session.job import Job


def profiled(job: Job) -> dict[str, Any]:
    """Run a job with every operator separate, on one worker of the first runtime that can, and return its costs."""
    for kind in kinds():
        if kind.profile is not None:
            return kind.profile(job.graph, job.sources)
    raise ConfigError("no runtime measures operators separately")
