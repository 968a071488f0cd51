"""Overload: when a run is so late that input is shed, and when it no longer is."""

from dataclasses import dataclass

from shoal.control.journal import SheddingBegun, SheddingEnded
from shoal.control.names import readable
from shoal.control.reaction import NOTHING, Reaction
from shoal.model.control.messages import EpochCommitted, ShedInput
from shoal.model.control.shedding import Shedding

RELEASE = 0.5
"""Share of the limit below which a run counts as no longer late."""
PATIENCE = 2
"""Reports in a row that must be over the limit before input is shed."""
REST = 4.0
"""Multiple of the limit for which a run must not be late before shedding ends, at least `LEAST_REST_S`."""
LEAST_REST_S = 1.0


@dataclass(frozen=True)
class Lateness:
    """How late a run is, and what shows it."""

    seconds: float
    what: str

    @classmethod
    def of(cls, event: EpochCommitted) -> "Lateness":
        """The largest one of the latency of results, the lag of sources and the time that all backlog takes.

        The backlog takes as long as it takes to process as many events as in the last report.
        """
        loads = event.snapshot.loads.values()
        backlog, events = sum(load.backlog for load in loads), sum(load.events for load in loads)
        waiting_s = backlog * event.snapshot.period_s / max(1, events)
        found = [
            cls(event.latency_s, f"latency was {readable(event.latency_s)}"),
            cls(event.lag_s, f"events were read {readable(event.lag_s)} after they were due"),
            cls(waiting_s, f"a backlog of {backlog:,} events, or {readable(waiting_s)}"),
        ]
        return max(found, key=lambda each: each.seconds)


class Overload:
    """Decides by the reports of a run when shedding begins and ends; reads no clock.

    1. Shedding begins when so many reports in a row as `PATIENCE` says are later than the limit.
    2. It ends when no report was later than `RELEASE` times the limit for `REST` times the limit.
    3. In between everything stays as it is, so that a run at its limit does not switch all the time.
    """

    def __init__(self, shedding: Shedding) -> None:
        """No report yet."""
        self._shedding = shedding
        self._active: bool | None = None
        self._late = 0
        self._calm_since_s: float | None = None
        self._begun_s = 0.0
        self._rows = 0

    def handle(self, event: EpochCommitted) -> Reaction:
        """React to a report: a command to begin or end, and an entry for the journal."""
        self._rows += sum(count.rows for count in event.shed.values())
        is_first, always = self._active is None, self._shedding.when == "always"
        if is_first:
            self._active = any(each.active for each in event.shedding.values())
            self._begun_s = event.at_s - event.duration_s
        if always:
            return Reaction((), (self._begun(event, "it was asked for"),)) if is_first and self._active else NOTHING
        return self._ends(event) if self._active else self._begins(event)

    def _begins(self, event: EpochCommitted) -> Reaction:
        lateness = Lateness.of(event)
        self._late = self._late + 1 if lateness.seconds > self._shedding.above_s else 0
        if self._late < PATIENCE:
            return NOTHING
        reason = f"{lateness.what}, over the limit of {readable(self._shedding.above_s)}"
        self._active, self._late, self._calm_since_s = True, 0, None
        self._begun_s, self._rows = event.at_s, 0
        return Reaction((ShedInput(active=True, reason=reason),), (self._begun(event, reason),))

    def _begun(self, event: EpochCommitted, reason: str) -> SheddingBegun:
        return SheddingBegun(round(event.at_s, 3), event.epoch, self._shedding.text, reason)

    def _ends(self, event: EpochCommitted) -> Reaction:
        lateness = Lateness.of(event)
        if lateness.seconds > RELEASE * self._shedding.above_s:
            self._calm_since_s = None
            return NOTHING
        self._calm_since_s = event.at_s if self._calm_since_s is None else self._calm_since_s
        rest_s = max(LEAST_REST_S, REST * self._shedding.above_s)
        if event.at_s - self._calm_since_s < rest_s:
            return NOTHING
        self._active = False
        reason = f"{lateness.what}, and not over {readable(RELEASE * self._shedding.above_s)} for {readable(rest_s)}"
        return Reaction((ShedInput(active=False, reason=reason),), (self._ended(event.at_s, event.epoch, reason),))

    def _ended(self, at_s: float, epoch: int, reason: str) -> SheddingEnded:
        return SheddingEnded(round(at_s, 3), epoch, reason, self._rows, round(at_s - self._begun_s, 3))

    def ended(self, at_s: float, epoch: int) -> Reaction:
        """The last entry of a run that ends while input is shed."""
        return Reaction((), (self._ended(at_s, epoch, "the run ended"),)) if self._active else NOTHING
