"""Generated streams: event number n is always the same event, so any range can be generated again anywhere."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.connectors.sources.rate import EventTime, Rate, rate_of
from shoal.connectors.sources.source import DRAIN, Offset, RawBatch, Slice, Wanted
from shoal.errors import ConfigError, SourceError
from shoal.storage.directory import Directory

BATCH_ROWS = 1 << 18
SLICE_ROWS = 20_000


class Events(Protocol):
    """A pure function from event numbers to events."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number start .. stop - 1."""


@runtime_checkable
class PlainEvents(Events, Protocol):
    """Events that are also available as plain arrays: numbers and times in microseconds, without nulls."""

    def columns(self, start: int, stop: int) -> Mapping[str, NDArray[np.generic] | pa.DictionaryArray]:
        """Events number start .. stop - 1: a NumPy array per column, a dictionary of distinct entries for texts."""


@runtime_checkable
class ConcurrentEvents(Events, Protocol):
    """Events that say whether several threads may make some at the same time."""

    @property
    def concurrent(self) -> bool:
        """Whether threads may call `batch` and `columns` at the same time."""


@runtime_checkable
class CountedEvents(Events, Protocol):
    """Events that can be counted by the values of a column without making them."""

    def counted(self, start: int, stop: int, column: str) -> tuple[NDArray[np.generic], NDArray[np.int64]] | None:
        """Distinct values of a column among events number start .. stop - 1, and how many of them have each.

        None if the events cannot tell for this column. A value may come with a count of 0.
        """


@runtime_checkable
class TimedEvents(Events, Protocol):
    """Events that know when they occur, in seconds after the first."""

    def index_at(self, seconds: float) -> int:
        """The number of events before a time."""

    def seconds_at(self, index: int) -> float:
        """The time of an event."""


@dataclass(frozen=True)
class Played:
    """A stream played by its own times, from event number `base` on; see `Rate` for the methods."""

    events: TimedEvents
    base: int = 0

    def due(self, elapsed_s: float) -> int:
        """The number of events due after a time."""
        return self.events.index_at(self.events.seconds_at(self.base) + elapsed_s) - self.base

    def when(self, event: int) -> float:
        """The time, in seconds, at which an event is due."""
        return self.events.seconds_at(self.base + event) - self.events.seconds_at(self.base)


@dataclass(frozen=True)
class Generator:
    """A generated stream: `events` in all, `rate` per second, at most `rows_per_epoch` per epoch.

    Without `events` it runs until it is drained; without `rate` it is as fast as the run can read it. A rate may
    change in steps: `"1000,5000@10"` is 1000 events per second, and 5000 from second 10 on. With `"event-time"` each
    event is due at its own time.
    """

    made_by: Events
    events: int | None = None
    rate: float | str | Rate | EventTime | None = None
    rows_per_epoch: int = 1_000_000

    def __post_init__(self) -> None:
        """Reject negative limits and empty epochs."""
        if self.events is not None and self.events < 0:
            raise ConfigError(f"number of events must not be negative; got {self.events}")
        if self.rate is not None:
            self.pace()
        if self.rows_per_epoch < 1:
            raise ConfigError(f"rows per epoch must be at least 1; got {self.rows_per_epoch}")

    def pace(self, base: int = 0) -> Rate | Played | None:
        """When events from number `base` on are due; None if all are at once."""
        rate = None if self.rate is None else rate_of(self.rate)
        if not isinstance(rate, EventTime):
            return rate
        if not isinstance(self.made_by, TimedEvents):
            raise ConfigError(f"rate event-time needs events that know their times; got {type(self.made_by).__name__}")
        return Played(self.made_by, base)

    def start(self) -> Offset:
        """Before event 0."""
        return {"position": 0, "ended": False}

    def cursor(self, directory: str) -> "GeneratorCursor":
        """A cursor whose clock starts now."""
        return GeneratorCursor(self, Directory(directory))

    @property
    def place(self) -> str:
        """What event numbers count in, for people."""
        return f"generator {type(self.made_by).__name__}"

    @cached_property
    def plain(self) -> PlainEvents | None:
        """The events as plain arrays, which need no admission, if available; sources ask for every block."""
        return self.made_by if isinstance(self.made_by, PlainEvents) else None

    @property
    def concurrent(self) -> bool:
        """Whether several threads may make events at the same time; events that do not say so may not."""
        return isinstance(self.made_by, ConcurrentEvents) and self.made_by.concurrent

    @property
    def counted(self) -> CountedEvents | None:
        """The events, if they can be counted without making them."""
        return self.made_by if isinstance(self.made_by, CountedEvents) else None

    def read_wanted(self, piece: Slice, wanted: Wanted) -> Iterator[RawBatch]:
        """The same; plain events fit, so that columns which nobody reads need no check."""
        checked = () if self.plain is not None else wanted.checked.names
        return self.read(piece, (*wanted.read, *checked))

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        """Generate the events of a slice; a column that the events lack is left out, and admission reports it."""
        start, stop = piece.data["start"], piece.data["stop"]
        for first in range(start, stop, BATCH_ROWS):
            last = min(stop, first + BATCH_ROWS)
            batch = self.made_by.batch(first, last)
            if batch.num_rows != last - first:
                raise SourceError(
                    f"generator {type(self.made_by).__name__} must make {last - first} events "
                    f"for numbers {first} to {last - 1}; got {batch.num_rows}"
                )
            present = [name for name in columns if name in batch.schema.names]
            yield RawBatch(batch.select(present), self.place, first)


class GeneratorCursor:
    """Computes how many events are due."""

    def __init__(self, generator: Generator, directory: Directory, clock: Callable[[], float] = time.monotonic) -> None:
        """The rate counts from the first call of `latest`."""
        self._generator = generator
        self._directory = directory
        self._clock = clock
        self._rate = generator.pace()
        self._begun: tuple[float, int] | None = None

    def latest(self, start: Offset) -> Offset:
        """The end of the events that are due, within the limits per epoch and in all."""
        if start["ended"]:
            return start
        position = start["position"]
        if self._directory.exists(DRAIN):
            return {"position": position, "ended": True}
        end = position + self._generator.rows_per_epoch
        if self._rate is not None:
            end = min(end, self._due(position, self._rate))
        limit = self._generator.events
        if limit is not None:
            end = min(end, limit)
        return {"position": end, "ended": limit is not None and end >= limit}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """Ranges of about equal length."""
        first, last = start["position"], end["position"]
        pieces = min(parallelism, max(1, (last - first) // SLICE_ROWS))
        cuts = [first + (last - first) * i // pieces for i in range(pieces + 1)]
        return [_slice(a, b) for a, b in pairwise(cuts)]

    def scheduled_s(self, piece: Slice) -> float | None:
        """When the first event of a slice was due, on the wall clock; None without a rate."""
        if self._rate is None or self._begun is None:
            return None
        began, base = self._begun
        due = began + self._rate.when(piece.data["start"] - base)
        return time.time() - (self._clock() - due)

    def due_s(self, offset: Offset) -> float | None:
        """When the first event after an offset is due, on the clock of the cursor; None without a rate."""
        if self._rate is None or self._begun is None:
            return None
        began, base = self._begun
        return began + self._rate.when(offset["position"] - base)

    def _due(self, position: int, rate: Rate | Played) -> int:
        now = self._clock()
        if self._begun is None:
            self._begun = (now, position)
            self._rate = rate = self._generator.pace(position) or rate
        began, base = self._begun
        return max(position, base + rate.due(now - began))


def _slice(start: int, stop: int) -> Slice:
    data: dict[str, Any] = {"start": start, "stop": stop}
    return Slice(f"events {start}..{stop}", stop - start, data)
