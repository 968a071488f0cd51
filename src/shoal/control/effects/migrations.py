"""Migrations of a run: measures every rebinding by the reports of its moves and the epochs before and during it.

Latencies are those of epochs. So a migration is measured once the epoch is committed in which it ended, or the run has
ended.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from shoal.control.journal import Migrated
from shoal.model.control.histogram import Histogram, merged
from shoal.model.control.messages import (
    CommandRefused,
    EpochCommitted,
    Event,
    MovesFinished,
    QueryLoss,
    Rebind,
    RunEnded,
)
from shoal.model.control.migration_metrics import metrics_of

KEPT_EPOCHS, EPOCHS_BEFORE = 1000, 60
"""Epochs whose latencies are kept, and how many before a migration it is compared with."""
KEPT_MIGRATIONS = 100
"""Migrations that are kept, the newest."""


@dataclass(frozen=True)
class _Epoch:
    begun_s: float
    at_s: float
    latency: Histogram


@dataclass
class Migrations:
    """The migrations of a run; `mechanism` is that of rebindings that name none.

    `earlier` gives those of earlier runs from the same checkpoint. A loss that one of them has reported may be reported
    again when the run is started again, and counts once.
    """

    mechanism: str = ""
    earlier: Callable[[], Iterable[Migrated]] = tuple
    measured: deque[Migrated] = field(default_factory=lambda: deque(maxlen=KEPT_MIGRATIONS))
    _epochs: deque[_Epoch] = field(default_factory=lambda: deque(maxlen=KEPT_EPOCHS))
    _asked: dict[str, tuple[float, str]] = field(default_factory=dict)
    _ended: list[MovesFinished] = field(default_factory=list)
    _now_s: float | None = None

    def ask(self, rebind: Rebind) -> None:
        """Note that a rebinding was asked for, after the newest event."""
        if self._now_s is not None:
            self._asked[rebind.id] = self._now_s, rebind.mechanism or self.mechanism

    def take(self, event: Event) -> tuple[Migrated, ...]:
        """Take an event; returns the migrations that have been measured with it."""
        self._now_s = event.at_s
        if isinstance(event, MovesFinished):
            self._ended += [event] if event.moves and not self._known(event) else []
        elif isinstance(event, CommandRefused) and isinstance(event.command, Rebind):
            self._asked.pop(event.command.id, None)
        elif isinstance(event, EpochCommitted):
            self._epochs.append(_Epoch(event.at_s - event.snapshot.period_s, event.at_s, latency_of(event)))
        if not self._ended or not isinstance(event, EpochCommitted | RunEnded):
            return ()
        done = [each for each in self._ended if each.at_s <= event.at_s or isinstance(event, RunEnded)]
        self._ended = [each for each in self._ended if each not in done]
        found = tuple(self._measured(each) for each in done)
        self.measured.extend(found)
        return found

    def _known(self, event: MovesFinished) -> bool:
        """Whether an earlier run has reported the same losses under the same id."""
        lost = losses_of(event)
        return event.resumed and bool(lost) and any((event.rebind, lost) == (e.rebind, e.lost) for e in self.earlier())

    def _measured(self, event: MovesFinished) -> Migrated:
        asked_s, mechanism = self._asked.pop(event.rebind, (None, self.mechanism))
        known_s = [move.seconds for move in event.moves if move.seconds is not None]
        begun_s = asked_s if asked_s is not None else event.at_s - max(known_s) if known_s else None
        before = during = None
        if begun_s is not None:
            earlier = [each.latency for each in self._epochs if each.at_s <= begun_s]
            before = merged(earlier[-EPOCHS_BEFORE:])
            span = [each for each in self._epochs if each.at_s > begun_s and each.begun_s < event.at_s]
            during = merged(each.latency for each in span)
        metrics = metrics_of(event.moves, None if begun_s is None else event.at_s - begun_s, before, during)
        lost, given_up = losses_of(event), len(event.aborted)
        notes = tuple(dict.fromkeys(move.note for move in event.moves if move.note))
        moved = len(event.moves) - given_up
        return Migrated(event.at_s, event.rebind, mechanism, moved, given_up, metrics, lost, notes)


def losses_of(event: MovesFinished) -> tuple[QueryLoss, ...]:
    """What each query has lost with the moves of a rebinding."""
    return tuple(each for move in event.moves if move.lost is not None for each in move.lost.queries)


def latency_of(event: EpochCommitted) -> Histogram:
    """The latencies of the results of an epoch; all that of the epoch if the runtime does not know better."""
    if event.latency is not None:
        return event.latency
    latency = Histogram()
    if event.results:
        latency.record(event.latency_s, event.results)
    return latency
