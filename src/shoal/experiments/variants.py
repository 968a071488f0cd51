"""Experiments: the trials to compare, declared before any is run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from shoal.errors import ConfigError, RunError
from shoal.experiments.workload_trial import WorkloadOutcome, WorkloadTrial, run_apart
from shoal.workloads.catalog import workload

WORKLOADS = ("ysb", "nyt", "linear-road", "mixed", "skew")
ABLATIONS = ("memory", "scheduling")
EVENTS = {"ysb": 150_000_000, "nyt": 50_000_000, "linear-road": 6_000_000, "mixed": 6_000_000, "skew": 1_000_000}
"""Events that keep the local runtime busy for several seconds."""
PEER_EVENTS = {"ysb": 5_000_000, "nyt": 3_000_000, "linear-road": 1_000_000, "mixed": 900_000, "skew": 400_000}
"""Events for engines that are much slower."""
QUEUE_EVENTS = {"ysb": 10_000_000, "nyt": 5_000_000, "linear-road": 1_000_000, "mixed": 900_000, "skew": 400_000}
Say = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A trial under the name it has in tables and figures; `x` where it lies on an axis."""

    label: str
    trial: WorkloadTrial
    x: float | None = None


@dataclass(frozen=True)
class Variants:
    """Points to compare; the first is the baseline."""

    name: str
    title: str
    points: tuple[Point, ...]
    axis: str = ""


@dataclass(frozen=True)
class MeasuredPoint:
    """A point and the outcomes of all its repetitions."""

    point: Point
    outcomes: list[WorkloadOutcome] = field(default_factory=list)

    @property
    def events_per_s(self) -> tuple[float, float, float]:
        """Median, smallest and largest throughput."""
        rates = [outcome.events_per_s for outcome in self.outcomes]
        return median(rates), min(rates), max(rates)

    def middle(self, value: Callable[[WorkloadOutcome], float | None]) -> float | None:
        """The median of another number; None unless all repetitions report it."""
        found = [value(outcome) for outcome in self.outcomes]
        known = [each for each in found if each is not None]
        return median(known) if len(known) == len(found) else None


def run(experiment: Variants, repeat: int, say: Say) -> list[MeasuredPoint]:
    """Run all points in turn, `repeat` times; a wrong result is an error, not a measurement.

    The first repetition is compared with the oracle, the others with the first.
    """
    measured = [MeasuredPoint(point) for point in experiment.points]
    for number in range(repeat):
        for each in measured:
            say(f"{experiment.name} {number + 1}/{repeat}: {each.point.label} ...")
            trial = each.point.trial
            outcome = run_apart(replace(trial, check=trial.check and number == 0))
            each.outcomes.append(outcome)
            fixed = trial.seconds is None and outcome.digest != each.outcomes[0].digest
            if outcome.oracle == "different" or fixed:
                raise RunError(f"{each.point.label} gave wrong results; its measurements are not valid")
    return measured


def engines(name: str, chosen: Sequence[str], base: WorkloadTrial) -> Variants:
    """The same workload on several engines, results compared first."""
    points = []
    for engine in chosen:
        events = base.events or (EVENTS if engine == "shoal-local" else PEER_EVENTS)[name]
        points.append(Point(engine, replace(base, engine=engine, events=events)))
    return Variants("engines", f"{name}: engines, {base.workers} workers", tuple(points))


def ablation(name: str, parts: Sequence[str], base: WorkloadTrial) -> Variants:
    """The effect of memory in blocks and of state-based scheduling, alone and combined: SM, TM, SQ, TQ."""
    for part in parts:
        if part not in ABLATIONS:
            raise ConfigError(f"--ablate takes {' and '.join(ABLATIONS)}; got {part!r}")
    kept = [mode for mode in ("SM", "TM", "SQ", "TQ") if _differs_in(mode) <= set(parts)]
    points = []
    for mode in kept:
        events = base.events or (QUEUE_EVENTS if "memory" in _differs_in(mode) else EVENTS)[name]
        others = {setting: value for setting, value in base.local.items() if setting not in ABLATIONS}
        points.append(Point(mode, replace(base, events=events, local={**others, "mode": mode})))
    return Variants("ablation", f"{name}: Threads or State-based, Queues or Memory in blocks", tuple(points))


def _differs_in(mode: str) -> set[str]:
    """The parts in which a mode differs from SM; its two characters stand for scheduling and memory."""
    return {part for part, symbol, ours in zip(("scheduling", "memory"), mode, "SM", strict=True) if symbol != ours}


def scaling(name: str, numbers: Sequence[int], base: WorkloadTrial) -> Variants:
    """One to many copies of the query, each over its own stream."""
    if name == "skew":
        raise ConfigError("--queries makes copies of ysb, nyt, linear-road and mixed; skew has no copies")
    if name == "mixed":
        settings = [{"ysb": str(n), "nyt": str(n), "linear_road": str(n)} for n in numbers]
    else:
        chosen = name.replace("-", "_")
        settings = [{k: str(n if k == chosen else 0) for k in ("ysb", "nyt", "linear_road")} for n in numbers]
    events = base.events or EVENTS[name]
    points = tuple(
        Point(f"{n} queries", replace(base, workload="mixed", events=events // n * n, settings=each), float(n))
        for n, each in zip(numbers, settings, strict=True)
    )
    return Variants("queries", f"{name}: number of queries, {base.workers} workers", points, "queries")


def dynamic(name: str, rate: str, seconds: float, base: WorkloadTrial) -> Variants:
    """An input rate that changes in steps: throughput and latency over time."""
    changed = replace(base, rate=rate, seconds=seconds, events=None)
    return Variants("dynamic", f"{name}: rate {rate}", (Point(f"{name} at {rate}/s", changed),), "seconds")


def sensitivity(name: str, setting: str, values: Sequence[str], base: WorkloadTrial) -> Variants:
    """One setting of the local runtime at several values."""
    points = tuple(
        Point(
            f"{setting}={value}",
            replace(base, events=base.events or EVENTS[name], local={**base.local, setting: value}),
            float(value),
        )
        for value in values
    )
    return Variants(setting, f"{name}: {setting}, {base.workers} workers", points, setting)


def half_load(measured: MeasuredPoint, seconds: float, load: float) -> Point:
    """The same trial at a share of its measured throughput, for its latency without overload."""
    rate = round(measured.events_per_s[0] * load)
    trial = replace(measured.point.trial, rate=str(rate), seconds=seconds, events=None, check=False)
    return Point(f"{measured.point.label} at {load:.0%} load", trial)


def check_name(name: str) -> None:
    """Reject workloads without declared experiments."""
    if name not in WORKLOADS:
        workload(name)
        raise ConfigError(f"there are experiments for {', '.join(WORKLOADS)}; got {name!r}")


def trial_settings(
    settings: Mapping[str, str], local: Mapping[str, str], name: str, workers: int, seed: int
) -> WorkloadTrial:
    """The trial that all points of an experiment vary."""
    return WorkloadTrial(name, workers=workers, seed=seed, settings=dict(settings), local=dict(local))
