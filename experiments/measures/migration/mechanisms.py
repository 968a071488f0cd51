"""What a move of much state costs, by mechanism: freeze, latency spike, time and bytes, on Spark and between threads.

A hop window by user holds about 250 MB of state in 16 instances on two workers. When its windows are full, half of the
instances change their worker, once, and enough events follow that the move ends before they do; `in_time` is 0 if it
does not. Mechanism `none` moves nothing: its spike is the noise.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pyarrow as pa

import shoal
from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.language.python.flow import Flow
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count, max_, mean, min_
from shoal.model.query.graph import Query
from shoal.model.query.window import hop
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.ysb.events import SCHEMA, YsbEvents

GROUPS, WORKERS = 16, 2
WINDOW_S, SLIDE_S = 16, 4
EPOCH_ROWS = 940_000
"""Events of an epoch, in which the windows of a million users slide once."""
EPOCHS = {"spark": (7, 8), "local": (7, 6)}
"""Epochs' worth of events before the move, which fill the windows, and after it; a window closes in each."""
FULL = 3
"""The last results before the move, those of full windows, whose median latency is the usual one."""
NEVER = 1_000_000
RATE = 480_000
"""Events per second between threads; Spark reads as fast as it can."""
NO_MOVE = "none"


def windows(
    on: str, mechanism: str, rows_per_epoch: int = EPOCH_ROWS, more_than: int = 12, twice: bool = False
) -> TrialOutcome:
    """A run in which half of the state moves; results are the users with more than a number of events in a window.

    With `twice` half of the users are aggregated a second time, as if their new worker received all events as well.
    """
    before, after = (epochs * rows_per_epoch for epochs in EPOCHS[on])
    rate = None if on == "spark" else float(RATE)
    source = Generator(YsbEvents(per_s=rows_per_epoch // SLIDE_S), before + after, rate, rows_per_epoch)
    job = Job("users", shoal.Graph.of(_queries(more_than, twice)), {"ads": source})
    given: dict[str, Any] = {}
    if on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        given["spark"] = spark_session({})
    chosen = None if mechanism == NO_MOVE else mechanism
    move = HalfMove(on, chosen, before)
    run = start(job, on=on, workers=WORKERS, policy="round-robin", mechanism=chosen, **given)
    run.wait(move)
    if not isinstance(run.sink, MemorySink):
        raise RunError(f"results must be in memory to be compared; got {type(run.sink).__name__}")
    digest = result_digest({"users": run.sink.table("users")})
    return TrialOutcome(move.metrics(run), {"users": digest})


def _queries(more_than: int, twice: bool) -> list[Query]:
    types = {
        name: "timestamp" if pa.types.is_timestamp(type_) else "int64"
        for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True)
    }
    ads = shoal.Stream("ads", types, time="event_time")
    found = [_busy(ads.partition_by("user_id", groups=GROUPS), more_than).sink("users")]
    if twice:
        half = ads.filter(shoal.col("user_id") % 2 == 0).partition_by("user_id", groups=GROUPS // 2)
        found.append(_busy(half, NEVER).sink("again"))
    return found


def _busy(ads: Any, more_than: int) -> Flow:
    """Windows of users with more than a number of events."""
    rows = ads.window(hop(WINDOW_S, SLIDE_S)).aggregate(
        n=count(), ads=mean("ad_id"), first=min_("page_id"), last=max_("page_id"), ip=max_("ip")
    )
    found: Flow = rows.filter(shoal.col("n") > more_than)
    return found


@dataclass
class HalfMove:
    """Asks for the move once the windows are full, and records what epochs took before and after."""

    on: str
    mechanism: str | None
    before: int
    before_s: list[float] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)
    asked: str = ""
    in_time: bool = False
    state_bytes: int = 0

    def __call__(self, run: Run, event: EpochCommitted) -> None:
        """Take in an epoch."""
        is_later = run.consumed > self.before
        latency_s = event.latency.max_s if event.latency is not None else event.duration_s
        if event.rows and (event.results or self.on == "spark"):
            (self.after_s if is_later else self.before_s).append(latency_s)
        if is_later and self.mechanism is not None and not self.asked:
            self.state_bytes = event.state_bytes
            self.asked = run.rebind(Binding.of(_swapped(run), WORKERS), self.mechanism)
        elif event.rows and any(each.rebind == self.asked for each in run.finished):
            self.in_time = True

    def metrics(self, run: Run) -> dict[str, float]:
        """What the move cost."""
        reports = [move for event in run.finished for move in event.moves]
        moves = [move for move in reports if not move.aborted]
        usual_s = median(self.before_s[-FULL:])
        return {
            "freeze_ms": 1000 * max((move.frozen_s or 0.0 for move in moves), default=0.0),
            "spike_ms": 1000 * (max(self.after_s, default=usual_s) - usual_s),
            "usual_ms": 1000 * usual_s,
            "move_s": max((move.seconds or 0.0 for move in moves), default=0.0),
            "moved_mb": sum(move.state_bytes for move in moves) / 1e6,
            "state_mb": self.state_bytes / 1e6,
            "moves": len(moves),
            "asked": len(reports),
            "in_time": float(self.in_time or self.mechanism is None),
        }


def _swapped(run: Run) -> dict[Any, int]:
    """The binding with half of the instances of each worker on the other one: the load stays even."""
    now = {} if run.binding is None else run.binding.worker_of
    return {
        instance: (now.get(instance, 0) + number // WORKERS) % WORKERS
        for number, instance in enumerate(run.job.graph.stateful_instances)
    }
