"""Workloads: jobs that ship with Shoal, each with the expected results for any seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from shoal.connectors.sources.rate import EventTime, Rate
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, did_you_mean
from shoal.session.job import Job


@dataclass(frozen=True)
class Amount:
    """How much to run: a number of events, or no limit; at a rate, or as fast as possible."""

    events: int | None = None
    rate: float | Rate | EventTime | None = None
    rows_per_epoch: int = 1_000_000


@dataclass(frozen=True)
class Ready:
    """A workload that has been set up: the job, and the expected results of its first n events."""

    job: Job
    expected: Callable[[int], Mapping[str, pa.Table]]


Build = Callable[[int, Amount, Mapping[str, Any], Source | None], Ready]
"""Builds a job with its oracle from a seed, an amount, settings and a source that replaces the generator, if any."""


@dataclass(frozen=True)
class Workload:
    """A job by name, with its settings and the default numbers of events and of rows per epoch."""

    name: str
    summary: str
    build: Build
    settings: Mapping[str, Any] = field(default_factory=dict)
    events: int = 1_000_000
    rows_per_epoch: int = Amount.rows_per_epoch

    def ready(self, seed: int, amount: Amount, settings: Mapping[str, str], source: Source | None = None) -> Ready:
        """Set the workload up; settings are texts from the command line."""
        values = dict(self.settings)
        for name, text in settings.items():
            if name not in values:
                raise ConfigError(
                    f"workload {self.name!r} has no setting {name!r}; there are {', '.join(self.settings)}"
                    + did_you_mean(name, self.settings)
                )
            values[name] = _like(self.settings[name], text, name)
        return self.build(seed, amount, values, source)


def _like(default: Any, text: str, name: str) -> Any:
    """A text as a value of the default's type."""
    try:
        return type(default)(text)
    except ValueError as error:
        raise ConfigError(f"setting {name!r} must be of type {type(default).__name__}; got {text!r}") from error
