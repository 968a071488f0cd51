"""Reports: what reading tasks and workers send to the driver in an epoch, beside rows and state.

Reading tasks send a header to every worker, since every worker computes the watermarks from them. Workers send one
report per round to the driver; the first worker's report of the first round contains the headers.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from shoal.errors import MessageError, QueryError, RunError
from shoal.kernels.columns.table import Ints
from shoal.kernels.kernel import NEVER_US
from shoal.model.control.messages import LostState
from shoal.model.control.shedding import ShedCount
from shoal.model.query.graph import InstanceId
from shoal.model.spatial.arrivals import TileArrivals
from shoal.model.spatial.tiles import Tile
from shoal.runtimes.spark.state.postponed import Rest
from shoal.storage.codec import Codec

FORMAT = 1
T = TypeVar("T")


@dataclass(frozen=True)
class SliceRead:
    """What a reading task has read, and whether the stream ends with it.

    `place`: the file or range that was read. `rows`: how many, if known before reading. `planned_us`: when the epoch's
    input was fixed; None if unknown. `partition` is the one that the slice belongs to, and `open` are those that may
    have more rows after the epoch; None if the stream is one partition.
    """

    place: str
    rows: int
    ended: bool
    planned_us: int | None = None
    partition: str = ""
    open: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a reading task found in its slice; `flush` closes every window, regardless of `newest_us`."""

    stream: str
    slice: SliceRead
    rows: int = 0
    newest_us: int = NEVER_US
    refused: Mapping[str, int] = field(default_factory=dict)
    cost_s: float = 0.0
    flush: bool = False
    shed: ShedCount = field(default_factory=ShedCount)


@dataclass(frozen=True)
class TileReport:
    """`TileArrivals` in a report: the borders of a tile, and counts by row and by column; empty if all are 0."""

    borders: tuple[int, int, int, int]
    rows: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, came: TileArrivals) -> "TileReport":
        """The report of some arrivals."""
        tile = came.tile
        borders = (tile.left, tile.top, tile.right, tile.bottom)
        rows, columns = (tuple(_sparse(each) for each in axis) for axis in (came.rows, came.columns))
        return cls(borders, rows, columns)

    def arrivals(self) -> TileArrivals:
        """The inverse of `of`."""
        found = TileArrivals.none(Tile(*self.borders))
        for axis, counts in ((self.rows, found.rows), (self.columns, found.columns)):
            for kind, each in enumerate(axis):
                if each:
                    counts[kind] = each
        return found


def _sparse(counts: Ints) -> tuple[int, ...]:
    return tuple(counts.tolist()) if counts.any() else ()


@dataclass(frozen=True, kw_only=True)
class LaneReport:
    """What a lane did on a worker, in columns: one entry for every instance that had work.

    `instances`: their numbers in the lane. `rows`: received, kept and emitted rows. `carried_bytes`: received and
    written bytes. `alone_s`: the times of instances that were advanced alone, by number.
    """

    instances: tuple[int, ...]
    events: tuple[int, ...]
    rows: tuple[int, ...]
    results: tuple[int, ...]
    state_bytes: tuple[int, ...]
    carried_bytes: tuple[int, ...]
    advancing_s: float
    emitting_s: float
    alone_s: Mapping[int, float] = field(default_factory=dict)
    arrivals: tuple[TileReport, ...] = ()
    """What came to the tiles of its operator, if its keys are cells."""

    def __post_init__(self) -> None:
        """Reject columns of different lengths."""
        columns = (self.events, self.rows, self.results, self.state_bytes, self.carried_bytes)
        if {len(column) for column in columns} != {len(self.instances)}:
            lengths = ", ".join(str(len(column)) for column in columns)
            raise ValueError(f"every column must have {len(self.instances)} entries; got {lengths}")


def lane_report(
    *,
    events: Ints,
    rows: Ints,
    results: Ints,
    state_bytes: Ints,
    carried_bytes: Ints,
    advancing_s: float,
    emitting_s: float,
    alone_s: Mapping[int, float],
    arrivals: Iterable[TileArrivals] = (),
) -> LaneReport:
    """The report of a lane, from columns of all its instances."""
    busy = np.flatnonzero((rows > 0) | (events > 0))
    return LaneReport(
        instances=tuple(busy.tolist()),
        events=tuple(events[busy].tolist()),
        rows=tuple(rows[busy].tolist()),
        results=tuple(results[busy].tolist()),
        state_bytes=tuple(state_bytes[busy].tolist()),
        carried_bytes=tuple(carried_bytes[busy].tolist()),
        advancing_s=advancing_s,
        emitting_s=emitting_s,
        alone_s=alone_s,
        arrivals=tuple(map(TileReport.of, arrivals)),
    )


@dataclass(frozen=True)
class SegmentWritten:
    """A new segment and the instances whose newest state is in it."""

    segment: str
    bytes: int
    instances: tuple[InstanceId, ...]


@dataclass(frozen=True)
class StateArrived:
    """The state of an instance that another worker had before, and how long the worker waited for it."""

    bytes: int
    late_s: float


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a worker did in one round of an epoch; `executor` is the one that it ran on.

    `gone`: instances that no longer have state. `moved_bytes`: state of instances that another worker had before, by
    instance in `arrived`; `late_bytes`: the part that had to be fetched now. `ahead_bytes`: state being read for the
    next epoch. `lanes`: by number. `load_s`: the part of `cost_s` spent on loading state. `fetched`: instances whose
    state was postponed and is no longer. `rests`: how long state of instances that are about to move can be left alone.
    `lost`: state that moves have discarded.
    """

    worker: int
    executor: str
    cost_s: float
    load_s: float
    segments: tuple[SegmentWritten, ...] = ()
    gone: tuple[InstanceId, ...] = ()
    moved_bytes: int = 0
    late_bytes: int = 0
    ahead_bytes: int = 0
    arrived: Mapping[InstanceId, StateArrived] = field(default_factory=dict)
    fetched: tuple[InstanceId, ...] = ()
    rests: Mapping[InstanceId, Rest] = field(default_factory=dict)
    lost: Mapping[InstanceId, LostState] = field(default_factory=dict)
    lanes: Mapping[int, LaneReport] = field(default_factory=dict)
    watermarks_us: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True)
class TaskFailure:
    """Queries that failed in a task, as `QueryError` has them."""

    queries: tuple[str, ...]
    reason: str
    row: str = ""


@contextmanager
def query_errors_encoded() -> Iterator[None]:
    """Encode query errors, since only the text of an error reaches the driver; used around the work of a task."""
    try:
        yield
    except QueryError as error:
        failure = TaskFailure(error.queries, error.reason, error.row)
        raise QueryError(FAILURES.encode(failure).decode()) from error


FAILURES = Codec([TaskFailure], format=FORMAT)
HEADERS = Codec([Header], format=FORMAT)
REPORTS = Codec([Report], format=FORMAT)


def received(codec: Codec[T], payload: bytes, sender: str) -> T:
    """The message in a payload; an error names its sender."""
    try:
        return codec.decode(payload)
    except MessageError as error:
        raise RunError(f"message of {sender} {error}; all machines must run the same version of Shoal") from error
