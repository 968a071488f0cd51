"""Trials of workloads: one run of a workload on one engine; plain data in and out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from shoal.errors import ConfigError, did_you_mean
from shoal.experiments.experiment import OracleVerdict, Parameters, Scalar, TrialOutcome

PARAMETERS = ("engine", "events", "seconds", "rate", "workers", "seed", "check")
"""The parameters of a trial that are its fields."""


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
    sinks, of a marker sent every 50 ms. `others_share` is the share of all processors that other programs, and other
    machines on the same host, had meanwhile. `timeline` holds (second, events/s, marker latency in ms).
    """

    events: int
    elapsed_s: float
    oracle: str = "not checked"
    digest: str = ""
    cpu_s: float | None = None
    others_share: float | None = None
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


def run_workload(workload: str, parameters: Parameters, repetition: int) -> TrialOutcome:
    """Run a trial of an experiment over a workload.

    A run of Shoal over a fixed number of events has the same results each time, so only the first is compared with the
    oracle, and the results of others with those of the first. All other runs are compared with the oracle.
    """
    from shoal.experiments.engines.engine import ENGINES

    trial = workload_trial(workload, parameters)
    repeats_exactly = trial.seconds is None and trial.engine.startswith("shoal-")
    if repeats_exactly and repetition:
        trial = replace(trial, check=False)
    return _as_outcome(ENGINES[trial.engine](trial), repeats_exactly)


def workload_trial(workload: str, parameters: Parameters) -> WorkloadTrial:
    """A point as a trial: fields by their names, `set.NAME` for the workload, `conf.NAME` for the runtime.

    >>> workload_trial("ysb", {"engine": "duckdb", "set.per_s": 1000}).settings
    {'per_s': '1000'}
    >>> workload_trial("ysb", {"event": 5})
    Traceback (most recent call last):
    shoal.errors.ConfigError: a workload's parameters are engine, events, seconds, rate, workers, seed, check, set.NAME,
    conf.NAME; got 'event'; did you mean 'events'?
    """
    given: dict[str, Any] = {}
    settings: dict[str, str] = {}
    local: dict[str, str] = {}
    for name, value in parameters.items():
        kind, dot, rest = name.partition(".")
        if dot and kind in ("set", "conf"):
            (settings if kind == "set" else local)[rest] = _text(value)
        elif name in PARAMETERS:
            given[name] = value
        else:
            listed = ", ".join((*PARAMETERS, "set.NAME", "conf.NAME"))
            raise ConfigError(f"a workload's parameters are {listed}; got {name!r}{did_you_mean(name, PARAMETERS)}")
    if given.get("rate") is not None:
        given["rate"] = str(given["rate"])
    return WorkloadTrial(workload, **given, settings=settings, local=local)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_outcome(found: WorkloadOutcome, repeats_exactly: bool) -> TrialOutcome:
    plain = {
        "events_per_s": found.events_per_s,
        "events": found.events,
        "elapsed_s": found.elapsed_s,
        "start_up_s": found.start_up_s,
        "cpu_s": found.cpu_s,
        "cpu_ns_per_event": None if found.cpu_s is None else found.cpu_s / max(1, found.events) * 1e9,
        "others_share": found.others_share,
        "decision_us": found.decision_us,
        "peak_rss_mb": found.peak_rss_mb,
        **{f"latency_ms.{name}": value for name, value in (found.latency_ms or {}).items()},
        **{f"marker_ms.{name}": value for name, value in (found.marker_ms or {}).items()},
    }
    return TrialOutcome(
        metrics={name: value for name, value in plain.items() if value is not None},
        answers={"results": found.digest} if found.digest and repeats_exactly else {},
        oracle=cast(OracleVerdict, found.oracle),
        series={"timeline": found.timeline} if found.timeline else {},
    )
