"""Hotspots under the policies that divide the plane, on simulated executors: units of work, latency, balance, recovery.

The scenario has the times of the study: an hour, a hotspot from minute 15 to 45, whose subscriptions come and go within
a minute. Sources are outside of the machine and wait while too many rows are on their way, as under back-pressure.
The machine is slowed down by `SLOWER`, so that an hour of events takes about a minute at full load: a round of 15 s is
one of 0.25 s then, and an epoch of a second one of 1/60 s. History is what came before the hotspot.

The instances of an executor take a block each in turn. In the order of event time, changes of subscriptions would wait
at every executor for all points that came before them, and the points behind them wait everywhere for the slowest
executor. In the study an executor takes what comes to it, and waits for no other.

Points are far fewer for each subscription than in the study: 1.9 M in an hour for 20,000, instead of hundreds of
thousands in a second for a million. So that a minute in which subscriptions come is not spent on them alone, a change
of a subscription costs a hundredth of what it was measured to cost (`COST_OF_CHANGES`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from measures.outcome import checked
from shoal.connectors.sources.generator import Generator
from shoal.control.settings import ControlSettings
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.partitioning import operator_of
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.results import written_results
from shoal.session.run import Run, start
from shoal.workloads.catalog import workload
from shoal.workloads.geo_pubsub.change_times import BURST_US
from shoal.workloads.geo_pubsub.feed import CHANGES, POINTS
from shoal.workloads.geo_pubsub.hotspots import Heat
from shoal.workloads.geo_pubsub.points import START
from shoal.workloads.workload import Amount

Floats = NDArray[np.float64]
SLOWER = 60
MINUTE = 60
WARM_UP = 3
"""Minutes at the start that are left out: subscriptions are loaded."""
BURST_S = BURST_US / 1e6
COST_OF_CHANGES = "versions=2.5ns,new range=4.5ns,ended range=5ns"
HOTSPOTS = {
    "uniform": ("bell", "uniform"),
    "normal": ("bell", "normal"),
    "step": ("step", "uniform"),
    "double": ("double", "uniform"),
    "consecutive": ("consecutive", "uniform"),
    "none": ("none", "uniform"),
}
"""Scenario and spread by name."""
BLOCKS = 15
"""Blocks, of the points of a second each, that are on their way when sources wait."""
OPTIONS = {
    "measured": {"cost": "measured"},
    "uneven": {"cost": "measured", "rebalance": "uneven", "reductions": "8"},
}
"""Settings of the controller by what is behind the + of a policy's name."""
RECOVERED = 0.9
"""Work has recovered when it reaches this share of the work before the hotspot."""


@dataclass(frozen=True)
class HotspotRun:
    """What is run: a hotspot with this many points and subscriptions, under a policy, with a factor of all costs."""

    hotspot: str
    policy: str
    per_s: int
    subscriptions: int
    work_factor: float
    minutes: int
    workers: int
    cells: int

    @cached_property
    def heat(self) -> Heat:
        """A quarter of the time before the hotspot, half of it during the hotspot."""
        scenario, spread = HOTSPOTS[self.hotspot]
        begin_s, length_s = self.minutes * MINUTE / 4, self.minutes * MINUTE / 2
        return Heat(scenario, 0.4, begin_s, length_s, spread)  # type: ignore[arg-type]

    @property
    def hot_subscriptions(self) -> int:
        """Two fifths of those at the start, in all hotspots together, as of the points."""
        return round(0.4 * self.subscriptions / max(1, len(self.heat.hotspots)))

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the workload."""
        heat = self.heat
        found = {"queries": "matches", "scenario": heat.scenario, "spread": heat.spread, "heat": heat.heat}
        found |= {"hot_from_s": heat.hot_from_s, "hot_s": heat.hot_s, "per_s": self.per_s, "cells": self.cells}
        found |= {"subscriptions": self.subscriptions, "hot_subscriptions": self.hot_subscriptions}
        found |= {"churn": max(1, self.per_s // 50), "partitions": self.workers}
        return {name: str(value) for name, value in found.items()}

    @property
    def conf(self) -> dict[str, str]:
        """The settings of the simulated machine."""
        block = max(20, self.per_s)
        found = {"source": "outside", "alignment": "event-time", "step_s": 0.001, "epoch_s": 1 / SLOWER}
        found |= {"turn_steps": 1, "scheduling": "round-robin"}
        found |= {
            "block_rows": block,
            "buffer_rows": BLOCKS * block,
            "work_factor": self.work_factor,
            "weights": COST_OF_CHANGES,
        }
        return {name: str(value) for name, value in found.items()}

    def subscribed(self, minutes: Floats) -> Floats:
        """The subscriptions that there are at some minutes."""
        found = np.full(len(minutes), float(self.subscriptions))
        for hot in self.heat.hotspots:
            burst_s = min(BURST_S, (hot.until_us - hot.from_us) / 2e6)
            for moment_us, sign in ((hot.from_us, 1), (hot.until_us, -1)):
                found += sign * self.hot_subscriptions * np.clip((minutes * MINUTE - moment_us / 1e6) / burst_s, 0, 1)
        return found

    def is_hot(self, minutes: Floats) -> NDArray[np.bool_]:
        """Whether there is a hotspot at some minutes; where there is none ever, all minutes after the warm-up."""
        spans = [(hot.from_us / 6e7, hot.until_us / 6e7) for hot in self.heat.hotspots]
        spans = spans or [(WARM_UP, self.minutes)]
        return np.any([(minutes >= begin) & (minutes < end) for begin, end in spans], axis=0)


@dataclass(frozen=True)
class Executed:
    """What the instances that match did in an epoch: rows, seconds of work, and rows that waited times seconds."""

    rows: int
    busy_s: float
    waiting_s: float

    @classmethod
    def of(cls, epoch: EpochCommitted) -> "Executed":
        """Of the instances of spatial operators; rows wait from when they come to an executor until they are done."""
        graph, loads = epoch.snapshot.graph, epoch.snapshot.loads
        assert graph is not None
        matching = {operator.id for operator in graph.spatial_operators}
        found = [load for instance, load in loads.items() if operator_of(instance) in matching]
        waiting = sum(load.backlog for load in found)
        return cls(sum(each.events for each in found), sum(each.cost_s for each in found), waiting * epoch.duration_s)


@dataclass
class Course:
    """What epochs have shown: times, how far points were read, latencies and the use of workers."""

    at_s: list[float] = field(default_factory=lambda: [0.0])
    minute: list[float] = field(default_factory=lambda: [0.0])
    latency_s: list[tuple[float, int]] = field(default_factory=list)
    busy_s: list[tuple[float, ...]] = field(default_factory=list)
    executed: list[Executed] = field(default_factory=list)
    state_bytes: int = 0
    partitions: int = 0

    def take(self, _: Run, epoch: EpochCommitted) -> None:
        """Add an epoch."""
        mark = epoch.snapshot.watermarks_us.get(POINTS, START)
        self.minute.append(max(self.minute[-1], (mark - START) / 6e7))
        self.at_s.append(epoch.at_s)
        self.latency_s.append((epoch.latency.sum_s, epoch.latency.total) if epoch.latency else (0.0, 0))
        self.busy_s.append(epoch.snapshot.busy_s)
        self.executed.append(Executed.of(epoch))
        self.state_bytes = max(self.state_bytes, epoch.state_bytes)
        self.partitions = len(epoch.snapshot.binding.worker_of)

    def seconds(self, edges: Floats) -> Floats:
        """When points were read up to some minutes."""
        return np.interp(edges, self.minute, self.at_s)

    def latency(self, begin_s: float, end_s: float) -> float:
        """The mean latency of the results between two times."""
        chosen = self._between(begin_s, end_s)
        sums, numbers = (np.array([each[at] for each in self.latency_s])[chosen].sum() for at in (0, 1))
        return float(sums / max(1, numbers))

    def execution(self, begin_s: float, end_s: float) -> tuple[float, float]:
        """Of a row between two times, the mean time at an executor, and the part of it that is spent on its work.

        The first is by Little's law: the rows that are there at the ends of epochs, over the rows per second.
        """
        chosen = [self.executed[place] for place in np.flatnonzero(self._between(begin_s, end_s))]
        rows = max(1, sum(each.rows for each in chosen))
        return sum(each.waiting_s for each in chosen) / rows, sum(each.busy_s for each in chosen) / rows

    def busy(self, begin_s: float, end_s: float) -> Floats:
        """The share of the time between two times that every worker was busy."""
        chosen = self._between(begin_s, end_s)
        period_s = np.diff(self.at_s)[chosen].sum()
        found: Floats = np.array(self.busy_s)[chosen].sum(axis=0) / max(period_s, 1e-9)
        return found

    def _between(self, begin_s: float, end_s: float) -> NDArray[np.bool_]:
        at_s = np.array(self.at_s[1:])
        return (at_s > begin_s) & (at_s <= end_s)


def hotspot(
    hotspot: str,
    policy: str,
    per_s: int = 532,
    subscriptions: int = 20_000,
    work_factor: float = 1250.0,
    minutes: int = 60,
    workers: int = 22,
    cells: int = 200,
    history_s: float = 4.0,
) -> TrialOutcome:
    """A run under a policy; `swarm+measured` stands for the policy with the settings of that name in `OPTIONS`."""
    asked = HotspotRun(hotspot, policy, per_s, subscriptions, work_factor, minutes, workers, cells)
    name, _, options = policy.partition("+")
    control = {"round_s": str(15 / SLOWER), "profile_s": str(history_s)}
    control |= OPTIONS[options] if options else {}
    amount = Amount(per_s * minutes * MINUTE, None, int(asked.conf["block_rows"]))
    ready, course = workload("geo-pubsub").ready(0, amount, asked.settings), Course()
    run = start(
        _with_fewer_blocks(ready.job),
        on="simulated",
        policy=name,
        topology=f"cores:{workers}",
        conf=asked.conf,
        control=ControlSettings.of(control),
    )
    run.wait(course.take)
    if asked.heat.hotspots and course.seconds(np.array([minutes / 4.0]))[0] <= history_s:
        raise RunError(f"history must end before the hotspot begins; {history_s} s are too long")
    wrong = differences(written_results(run.sink, ready.job.graph), ready.expected(run.consumed))
    return checked(metrics(asked, course), wrong, series={"units_of_work": series(asked, course)})


def _with_fewer_blocks(job: Job) -> Job:
    """The job with changes in larger blocks, so that there is not one for each block of points."""
    changes = job.sources[CHANGES]
    assert isinstance(changes, Generator)
    return replace(job, sources={**job.sources, CHANGES: replace(changes, rows_per_epoch=8 * changes.rows_per_epoch)})


def work_by_minute(asked: HotspotRun, course: Course) -> tuple[Floats, Floats]:
    """Minutes of the scenario, and the units of work per second in each: subscriptions times points per second."""
    edges = np.arange(asked.minutes + 1, dtype=float)
    took_s = np.maximum(np.diff(course.seconds(edges)), 1e-9)
    middle = edges[:-1] + 0.5
    return middle, asked.subscribed(middle) * asked.per_s * MINUTE / took_s


def series(asked: HotspotRun, course: Course) -> list[list[float]]:
    """Units of work by minute, in millions per second, after the warm-up."""
    rows = zip(*work_by_minute(asked, course), strict=True)
    return [[float(minute), float(work) / 1e6] for minute, work in rows if minute > WARM_UP]


def metrics(asked: HotspotRun, course: Course) -> dict[str, float]:
    """Means over minutes, as in the study's figures, during the hotspot and before; latency and use of workers."""
    minutes, work = work_by_minute(asked, course)
    hot = asked.is_hot(minutes)
    calm = (minutes > WARM_UP) & (minutes < asked.minutes / 4)
    first, last = minutes[hot][0] - 0.5, minutes[hot][-1] + 0.5
    begin_s, end_s, ended_s = course.seconds(np.array([first, last, float(asked.minutes)])).tolist()
    busy = course.busy(begin_s, end_s)
    at_executor_s, execute_s = course.execution(begin_s, end_s)
    found = {
        "work_before": float(work[calm].mean()) / 1e6,
        "work_hot": float(work[hot].mean()) / 1e6,
        "points_per_s_hot": asked.per_s * MINUTE * int(hot.sum()) / (end_s - begin_s),
        "latency_ms_hot": 1000 * course.latency(begin_s, end_s),
        "executor_ms_hot": 1000 * at_executor_s,
        "execute_us_hot": 1e6 * execute_s,
        "busy_percent.mean": 100 * float(busy.mean()),
        "busy_percent.min": 100 * float(busy.min()),
        "busy_percent.max": 100 * float(busy.max()),
        "state_mb": course.state_bytes / 1e6,
        "partitions": course.partitions,
        "simulated_s": ended_s,
    }
    return found | _recovery(asked, course, minutes[hot].tolist(), work[hot].tolist(), found["work_before"] * 1e6)


def _recovery(
    asked: HotspotRun, course: Course, minutes: Sequence[float], work: Sequence[float], before: float
) -> dict[str, float]:
    """The lowest work in the hotspot, as a share of that before, and the rounds until it has recovered, if it has."""
    lowest = int(np.argmin(work))
    found = {"lowest_percent": 100 * work[lowest] / before}
    again = [minute for minute, each in zip(minutes, work, strict=True) if each >= RECOVERED * before]
    again = [minute for minute in again if minute > minutes[lowest]]
    if found["lowest_percent"] < 100 * RECOVERED and again and asked.heat.hotspots:
        begin_s, end_s = course.seconds(np.array([minutes[0] - 0.5, again[0] + 0.5])).tolist()
        found["recovery_rounds"] = (end_s - begin_s) * SLOWER / 15
    return found
