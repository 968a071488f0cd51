"""Validation: the same run for real and simulated, by a profile, with the errors of what the simulation says."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from statistics import median
from typing import Any

import pyarrow as pa

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.rate import Rate
from shoal.errors import ConfigError
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.measured.result_path import ResultTimes
from shoal.runtimes.protocol import Say
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import start

POLICY = "round-robin"
"""The policy if none is given: the simulated runtime always binds instances, so the real one must, too."""
LEAST_S = 4.0
"""How long a run should take after its warm-up, if the number of its events is not given."""
LIMITS: Mapping[str, float | None] = {
    "mean_ms": 0.15,
    "p50_ms": None,
    "p99_ms": 0.30,
    "events_per_s": 0.10,
    "utilisation": None,
    "epoch_ms": 0.15,
}
"""What is compared, and the largest relative error that is wanted, if any."""
ONLY = {"epoch_ms": "spark"}
"""What is compared on one runtime only: epochs of the others are the times between two reports."""
IMITATED: Mapping[str, Mapping[str, str]] = {
    "local": {
        "topology": "cores:{workers}",
        "contention": "profile",
        "step_s": "0.0004",
        "epoch_s": "0.05",
    },
    "spark": {"topology": "spark:1x{workers}"},
}
"""How the simulated runtime imitates a real one: its machine, and how often that polls and reports."""
AGAINST = tuple(IMITATED)
TRACES = ("local",)
"""The runtimes that can trace where the time of results goes."""
Watch = Callable[[], float | None]
"""Called when a run has ended: the share of the processors that other programs had meanwhile, if it is known."""


@dataclass(frozen=True)
class Figures:
    """What a run did between its warm-up and its last input."""

    mean_ms: float
    p50_ms: float
    p99_ms: float
    events_per_s: float
    utilisation: float
    """The busy share of the workers."""
    epoch_ms: float
    seconds: float
    results: int


def measured(epochs: Sequence[EpochCommitted], workers: int, warm_up_s: float, what: str) -> Figures:
    """What the epochs after the warm-up say, without the last that read rows and those that only close windows."""
    kept = kept_epochs(epochs, warm_up_s, what)
    latency = merged([latency_of(each) for each in kept])
    seconds = sum(each.duration_s for each in kept)
    if not seconds or not latency.total:
        raise ConfigError(
            f"the {what} run must emit results after its warm-up of {warm_up_s:g} s and before the input ends; "
            f"got {latency.total} in {seconds:.3g} s; use more events, shorter windows or a shorter warm-up"
        )
    busy_s = sum(sum(each.snapshot.busy_s) for each in kept)
    return Figures(
        mean_ms=latency.sum_s / latency.total * 1e3,
        p50_ms=latency.percentile(50) * 1e3,
        p99_ms=latency.percentile(99) * 1e3,
        events_per_s=sum(each.rows for each in kept) / seconds,
        utilisation=busy_s / seconds / workers,
        epoch_ms=seconds / len(kept) * 1e3,
        seconds=seconds,
        results=latency.total,
    )


def kept_epochs(epochs: Sequence[EpochCommitted], warm_up_s: float, what: str) -> list[EpochCommitted]:
    """The epochs that count."""
    reading = [number for number, each in enumerate(epochs) if each.rows]
    if not reading:
        raise ConfigError(f"the {what} run read no events; there is nothing to compare")
    began_s = epochs[0].at_s - epochs[0].duration_s
    # the end of an epoch decides: the first epoch of a run may reach into its start
    return [each for each in epochs[: reading[-1]] if each.at_s - each.duration_s >= began_s + warm_up_s]


def enough_events(usual: int, rate: Rate | None, profile: Mapping[str, Any], workers: int, warm_up_s: float) -> int:
    """The usual number of events of a target, or as many as a run of some seconds after its warm-up needs.

    Without a rate, workers are taken to be as fast as the one thread of the profile, so that a run is rather too long.
    Where a profile does not say that, as on Spark, the usual number has to do.
    """
    seconds = warm_up_s + LEAST_S
    if rate is not None:
        return max(usual, rate.due(seconds))
    events, cpu_s = profile.get("events", 0), profile.get("cpu_s", 0.0)
    return max(usual, math.ceil(workers * events / cpu_s * seconds)) if cpu_s else usual


def latency_of(epoch: EpochCommitted) -> Histogram:
    """The latency of the results of an epoch; without a histogram, all have that of the epoch."""
    if epoch.latency is not None:
        return epoch.latency
    found = Histogram()
    if epoch.results:
        found.record(epoch.latency_s, epoch.results)
    return found


def median_of(figures: Sequence[Figures]) -> Figures:
    """The median of every figure of several runs."""
    return Figures(*(type(values[0])(median(values)) for values in zip(*map(astuple, figures), strict=True)))


@dataclass(frozen=True)
class PartTimes:
    """The mean milliseconds of every part of the time of a result, of a traced real run and of the simulated one."""

    real_ms: Mapping[str, float]
    simulated_ms: Mapping[str, float]

    def data(self) -> dict[str, dict[str, float]]:
        """The parts as plain data, with their sum."""
        both = {"real": self.real_ms, "simulated": self.simulated_ms}
        rows = {part: {on: round(ms[part], 6) for on, ms in both.items()} for part in self.real_ms}
        return rows | {"sum": {on: round(sum(ms.values()), 6) for on, ms in both.items()}}


@dataclass(frozen=True)
class Validation:
    """Real runs and simulated ones, side by side; `wrong` are differences between their results.

    `others`: the share of the processors that other programs had during every real run, where that is known.
    """

    against: str
    workers: int
    policy: str
    reals: tuple[Figures, ...]
    simulations: tuple[Figures, ...]
    wrong: tuple[str, ...] = ()
    others: tuple[float, ...] = ()
    parts: PartTimes | None = None

    @property
    def real(self) -> Figures:
        """The median of the real runs."""
        return median_of(self.reals)

    @property
    def simulated(self) -> Figures:
        """The median of the simulated runs."""
        return median_of(self.simulations)

    def spread(self, name: str) -> tuple[float, float]:
        """The smallest and the largest figure of the real runs."""
        values = [getattr(each, name) for each in self.reals]
        return min(values), max(values)

    def error(self, name: str) -> float | None:
        """The relative error of the simulation, positive if it says too much; None if the real value is 0.

        >>> slow, fast = (Figures(x, x, x, 1e6, 0.0, 50.0, 2.0, 100) for x in (10.0, 9.0))
        >>> round(Validation("local", 2, "round-robin", (slow,), (fast,)).error("mean_ms"), 3)
        -0.1
        """
        real = getattr(self.real, name)
        return getattr(self.simulated, name) / real - 1 if real else None

    @property
    def compared(self) -> list[str]:
        """The names of what is compared."""
        return [name for name in LIMITS if ONLY.get(name, self.against) == self.against]

    def within(self, name: str) -> bool | None:
        """Whether an error is within its limit; None if there is none."""
        limit, error = LIMITS[name], self.error(name)
        return None if limit is None or error is None else abs(error) <= limit

    def data(self) -> dict[str, Any]:
        """The validation as plain data."""
        rows = {
            name: {
                "real": round(getattr(self.real, name), 6),
                "real_runs": [round(getattr(each, name), 6) for each in self.reals],
                "simulated": round(getattr(self.simulated, name), 6),
                "simulated_runs": [round(getattr(each, name), 6) for each in self.simulations],
                "error": None if (error := self.error(name)) is None else round(error, 6),
                "limit": LIMITS[name],
                "within": self.within(name),
            }
            for name in self.compared
        }
        return {
            "against": self.against,
            "workers": self.workers,
            "policy": self.policy,
            "results": "different" if self.wrong else "equal",
            "differences": list(self.wrong),
            "others_share": [round(share, 4) for share in self.others],
            "measured_s": {"real": round(self.real.seconds, 3), "simulated": round(self.simulated.seconds, 3)},
            "measured_results": {"real": self.real.results, "simulated": self.simulated.results},
            "compared": rows,
            **({} if self.parts is None else {"parts": self.parts.data()}),
        }


@dataclass(frozen=True)
class TwoRuns:
    """What to run for real and simulated; `settings` are those of the simulation that differ from the usual ones."""

    job: Job
    against: str = "local"
    workers: int = 2
    policy: str = POLICY
    warm_up_s: float = 1.0
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    repeat: int = 1
    """The number of real runs, and of simulated ones, which draw their delays by one seed after another."""
    watched: Callable[[], Watch] = lambda: lambda: None
    """Called when a real run begins, to watch other programs; nobody does by default."""
    parts: bool = False
    """Whether the parts of the time of results are compared as well, by one more real run that is traced."""

    def __post_init__(self) -> None:
        """Reject a runtime that is not real, and no run."""
        if self.repeat < 1:
            raise ConfigError(f"number of real runs must be at least 1; got {self.repeat}")
        if self.against not in AGAINST:
            raise ConfigError(f"runtime to validate against must be one of {', '.join(AGAINST)}; got {self.against!r}")
        if self.parts and self.against not in TRACES:
            raise ConfigError(f"where the time of results goes is traced on {', '.join(TRACES)}; got {self.against}")

    def validated(self, profile: str, say: Say) -> Validation:
        """Run both by a profile in a file, and compare; simulated first, so that mistakes show at once."""
        say("running simulated ...")
        usual = {name: text.format(workers=self.workers) for name, text in IMITATED[self.against].items()}
        traced = {"trace_results": "true"} if self.parts else {}
        imitation = {"delay": "traced", "trace": profile, **usual, **self.settings, **traced}
        runs = [self._run("simulated", imitation, self.seed + number) for number in range(self.repeat)]
        simulations, found, simulated_ms = tuple(each[0] for each in runs), runs[0][1], runs[0][2]
        reals, wrong, others = [], list[str](), list[float]()
        for number in range(self.repeat):
            say(f"running on {self.against}, {self.workers} workers, policy {self.policy}, run {number + 1} ...")
            share_of_others = self.watched()
            real, expected, _ = self._run(self.against, {})
            share = share_of_others()
            others += [] if share is None else [share]
            reals.append(real)
            wrong = wrong or differences(found, expected)
        parts = None
        if self.parts:
            say(f"tracing a run on {self.against} ...")
            parts = PartTimes(self._run(self.against, traced)[2], simulated_ms)
        both = tuple(reals), simulations
        return Validation(self.against, self.workers, self.policy, *both, tuple(wrong), tuple(others), parts)

    def _run(
        self, on: str, conf: Mapping[str, str], seed: int = 0
    ) -> tuple[Figures, dict[str, pa.Table], Mapping[str, float]]:
        """Run once: the figures, the results, and the mean milliseconds of the parts of their time, if it is traced."""
        epochs: list[EpochCommitted] = []
        sink = MemorySink()
        run = start(
            self.job,
            on=on,
            workers=self.workers,
            policy=self.policy,
            sink=sink,
            conf=conf,
            seed=seed,
        )
        run.wait(lambda _run, event: epochs.append(event))
        found = measured(epochs, self.workers, self.warm_up_s, on)
        tables = {query.table for query in self.job.graph.queries.values()}
        times = run.runtime.result_times()
        parts_ms = {} if times is None else _parts_ms(times, kept_epochs(epochs, self.warm_up_s, on))
        return found, {table: sink.table(table) for table in sorted(tables & set(sink.names()))}, parts_ms


def _parts_ms(times: ResultTimes, kept: Sequence[EpochCommitted]) -> dict[str, float]:
    """The mean milliseconds of every part, of results in some epochs that follow each other."""
    within = times.between(kept[0].at_s - kept[0].duration_s, kept[-1].at_s)
    return {part: 1e3 * mean_s for part, mean_s in within.mean_s().items()}
