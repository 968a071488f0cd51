"""Calibration: the waits of a profile, stretched until simulated runs of its own rates are as late as real ones.

The turns of a profile do not say all that results wait for: code that has not run for a while is cold, and one worker
that keeps the interpreter lock delays all that the others have to do. What is missing is about the same share of all
waits at all rates of a target. So runs at rates of the profile's own are made, and simulated:

1. The mean latency of results of every run is compared with that of its simulation.
2. All waits before and between turns, and the factors of the fixed part of turns, are multiplied by one factor, at
   which the simulated means are too large as much as they are too small.
3. The errors that are left are kept in the profile: it predicts other rates no better.

Runs that are compared with simulated ones later have other rates and other events.
"""

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.pace import paced
from shoal.model.control.histogram import merged
from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.protocol import Say
from shoal.session.job import Job
from shoal.session.prediction.validation import IMITATED, POLICY, kept_epochs, latency_of
from shoal.session.run import start

LOADS = (0.1, 0.25, 0.4)
"""The loads of every worker, if turns had no fixed part; in proportion less where a job has too few events for them."""
REPEATS = 2
"""How often a run of each load is made."""
RUN_S, WARM_UP_S = 4.0, 1.0
"""How long a run takes, and how much of its beginning does not count."""
LEAST_RESULTS = 20
"""A run with fewer results says nothing."""
STRETCHED = ("wake_ups", "pauses", "turn")
"""What is multiplied, of the contention at a rate."""
SMALLEST, LARGEST = 0.5, 4.0
CLOSE = 0.02
TRIES = 5


@dataclass(frozen=True)
class RealRuns:
    """A job at a rate, and the mean latency of its results in seconds, of the mean run."""

    job: Job
    mean_s: float


def calibrated(job: Job, profile: Mapping[str, Any], on: str, say: Say) -> dict[str, Any]:
    """The profile with its waits stretched; as it is if none of the runs at its rates has results."""
    workers = len(profile["contention"]["at_rate"]["turn"])
    reals = _real_runs(job, profile, on, workers, say)
    if not reals:
        say("no run at a rate of the profile's own has enough results to calibrate its waits")
        return dict(profile)
    say("comparing simulated runs with those at the profile's rates ...")
    factor, errors = best_factor(lambda factor: _errors(stretched(profile, factor), reals, on, workers))
    found = stretched(profile, factor)
    calibration = {"factor": round(factor, 6), "errors": [round(math.expm1(each), 4) for each in errors]}
    return {**found, "contention": {**found["contention"], "calibration": calibration}}


def stretched(profile: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """The profile with its waits multiplied by a factor.

    >>> part = {"wake_ups": [[1.0, 2.0]], "pauses": [[0.5]], "turn": [1.5], "work": [1.0]}
    >>> stretched({"contention": {"at_rate": part}}, 2.0)["contention"]["at_rate"]
    {'wake_ups': [[2.0, 4.0]], 'pauses': [[1.0]], 'turn': [3.0], 'work': [1.0]}
    """
    contention = profile["contention"]
    part = contention["at_rate"]
    longer = {name: _times(part[name], factor) for name in STRETCHED}
    return {**profile, "contention": {**contention, "at_rate": {**part, **longer}}}


def _times(values: Any, factor: float) -> Any:
    return values * factor if isinstance(values, int | float) else [_times(each, factor) for each in values]


def _real_runs(job: Job, profile: Mapping[str, Any], on: str, workers: int, say: Say) -> list[RealRuns]:
    """Runs at the profile's rates that have results; rates take turns, so that a slow minute is not one of them."""
    if not all(isinstance(each, Generator) and each.events is not None for each in job.sources.values()):
        return []
    most = sum(each.events for each in job.sources.values()) / RUN_S
    highest = min(most, LOADS[-1] * workers * profile["events"] / max(profile["cpu_s"], 1e-9))
    rates = [highest * load / LOADS[-1] for load in LOADS]
    jobs = [replace(job, sources=paced(job.sources, rate, rate * RUN_S)) for rate in rates]
    means_s: list[list[float]] = [[] for _ in jobs]
    for number in range(len(jobs) * REPEATS):
        say(f"running at rates of the profile's own, {number + 1} of {len(jobs) * REPEATS} ...")
        mean_s = _mean_s(jobs[number % len(jobs)], on, workers, {}, LEAST_RESULTS)
        means_s[number % len(jobs)] += [] if mean_s is None else [mean_s]
    return [RealRuns(each, mean(found)) for each, found in zip(jobs, means_s, strict=True) if found]


def _errors(profile: Mapping[str, Any], reals: Sequence[RealRuns], on: str, workers: int) -> list[float]:
    """How much too late simulated results are at every rate, as the logarithm of a factor."""
    usual = {name: text.format(workers=workers) for name, text in IMITATED[on].items()}
    with tempfile.TemporaryDirectory(prefix="shoal-calibration-") as directory:
        file = Path(directory) / "profile.json"
        file.write_text(json.dumps(profile), encoding="utf-8")
        conf = {"delay": "traced", "trace": str(file), **usual}
        simulated = [(real, _mean_s(real.job, "simulated", workers, conf, 1)) for real in reals]
    return [math.log(mean_s / real.mean_s) for real, mean_s in simulated if mean_s is not None]


def _mean_s(job: Job, on: str, workers: int, conf: Mapping[str, str], least: int) -> float | None:
    """The mean latency of the results of a run; None if there are fewer than the least."""
    epochs: list[EpochCommitted] = []
    run = start(job, on=on, workers=workers, policy=POLICY, conf=conf)
    run.wait(lambda _run, event: epochs.append(event))
    latency = merged([latency_of(each) for each in kept_epochs(epochs, WARM_UP_S, on)])
    return latency.sum_s / latency.total if latency.total >= least else None


def best_factor(errors_of: Callable[[float], list[float]]) -> tuple[float, list[float]]:
    """The factor with the smallest mean error, by the secant of the last two tries, and the errors with it.

    >>> factor, errors = best_factor(lambda factor: [math.log(factor / 2.5), math.log(factor / 1.6)])
    >>> round(factor, 2), [round(each, 2) for each in errors]
    (2.0, [-0.22, 0.22])
    """
    tried: list[tuple[float, list[float]]] = []
    factor = 1.0
    for _ in range(TRIES):
        errors = errors_of(factor)
        if not errors:
            return factor, errors
        tried.append((factor, errors))
        if abs(mean(tried[-1][1])) < CLOSE:
            break
        factor = _next(tried)
        if any(math.isclose(factor, before, rel_tol=1e-3) for before, _ in tried):
            break
    return min(tried, key=lambda each: abs(mean(each[1])))


def _next(tried: Sequence[tuple[float, list[float]]]) -> float:
    """Where the mean error is 0 by the last two tries; after one, where it is if latency is in proportion to waits."""
    last, error = tried[-1][0], mean(tried[-1][1])
    slope = 1.0
    if len(tried) > 1:
        before, others = tried[-2]
        slope = max(0.1, (error - mean(others)) / (math.log(last) - math.log(before)))
    return min(LARGEST, max(SMALLEST, last * math.exp(-error / slope)))
