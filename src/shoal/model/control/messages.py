"""Messages between a session and a runtime: events up, commands down.

Every event carries `at_s`, the time at which it happened by the runtime's own clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.errors import BindingError
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.histogram import Histogram
from shoal.model.control.partitioning import Change
from shoal.model.control.shedding import ShedCount, StreamShedding
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import InstanceId, Query


@dataclass(frozen=True)
class MoveLimit:
    """How much state a rebinding can move: what reaches the new workers by a time, or so many bytes.

    `deadline_s`: when the old workers are expected to be gone, by the runtime's clock. `capacity_bytes`: bytes of state
    that can be sent between any two hosts. `ends`: what has not arrived at the deadline is dropped; otherwise it is
    sent for as long as the link lives.

    >>> MoveLimit(capacity_bytes=1000).drops, MoveLimit(deadline_s=9.0, ends=False).drops
    (True, False)
    """

    deadline_s: float | None = None
    capacity_bytes: int | None = None
    ends: bool = True

    def __post_init__(self) -> None:
        """Reject a limit that limits nothing, and one that is no number."""
        if self.deadline_s is None and self.capacity_bytes is None:
            raise BindingError("the limit of a rebinding must have deadline_s or capacity_bytes; got neither")
        if self.deadline_s is not None and not math.isfinite(self.deadline_s):
            raise BindingError(f"deadline_s of a rebinding must be finite; got {self.deadline_s}")
        if self.capacity_bytes is not None and self.capacity_bytes < 0:
            raise BindingError(f"capacity_bytes of a rebinding must be 0 or more; got {self.capacity_bytes}")

    @classmethod
    def of(cls, within_s: float | None, capacity_bytes: int | None, now_s: float) -> "MoveLimit | None":
        """The limit of a move that may take some time from now on, and send some bytes; None if neither is given."""
        if within_s is None and capacity_bytes is None:
            return None
        return cls(None if within_s is None else now_s + within_s, capacity_bytes)

    @property
    def drops(self) -> bool:
        """Whether state may be dropped though nothing fails."""
        return self.capacity_bytes is not None or self.ends


@dataclass(frozen=True)
class Rebind:
    """Use another binding from the next epoch on; it may have more or fewer workers.

    `mechanism`: how state moves; None for that of the run. `id`: how `MovesFinished` refers to it. A newer rebinding
    supersedes an older one that is still in progress. `limit`: how much state can move; None if all of it can.
    """

    binding: Binding
    mechanism: str | None = None
    id: str = ""
    limit: MoveLimit | None = None


@dataclass(frozen=True)
class Repartition:
    """Split and merge instances and their state, one change after another; no result changes.

    `worker_of`: the workers of new instances; those not listed go to the worker with the fewest instances.
    """

    changes: tuple[Change, ...]
    worker_of: Mapping[InstanceId, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AddQuery:
    """Run one more query from the next epoch on; all others keep their state."""

    query: Query


@dataclass(frozen=True)
class ReplaceQuery:
    """Replace a running query from the next epoch on; operators that are the same keep their state."""

    query: Query


@dataclass(frozen=True)
class RemoveQuery:
    """Stop a query with the next epoch and drop the state that no other query needs."""

    name: str


@dataclass(frozen=True)
class Drain:
    """Accept no more input, emit every open window, and end."""


@dataclass(frozen=True)
class ShedInput:
    """Begin or end to shed input, with the rows that are still to come; by the rules that the run was started with."""

    active: bool
    reason: str = ""


Command = Rebind | Repartition | AddQuery | ReplaceQuery | RemoveQuery | Drain | ShedInput


@dataclass(frozen=True)
class RefusedRows:
    """Dead letters of one kind: how many rows of a stream were refused for a reason, in which column, and the first.

    `detail` says what is wrong with the first one, `place` where it is, `row` holds it as JSON. `column` is empty if
    the reason is not in one column, `row` if a whole file was refused.
    """

    stream: str
    reason: str
    column: str
    rows: int
    detail: str
    place: str
    row: str


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch is done: its results are in the sinks, its state and position are durable."""

    epoch: int
    rows: int
    results: int
    dead_letters: int
    moves: int
    state_bytes: int
    state_bytes_moved: int
    duration_s: float
    latency_s: float
    compute_s: float
    migration_s: float
    policy_s: float
    snapshot: Snapshot
    replayed: bool = False
    refusals: dict[str, int] = field(default_factory=dict)
    refused_rows: tuple[RefusedRows, ...] = ()
    """The same dead letters by stream, reason and column, with examples."""
    latency: Histogram | None = None
    """Latency of each result, if the runtime measures it more precisely than by epoch."""
    state_bytes_late: int = 0
    """Moved bytes that a worker had to fetch when it first needed them."""
    state_bytes_ahead: int = 0
    """Bytes that workers began to read for the next epoch, or that were replicated to a standby host."""
    markers: Histogram | None = None
    """How long markers took to the sinks since the beginning of the run; None if the runtime sends none."""
    lag_s: float = 0.0
    """How late the newest rows were read, by when they were due; 0 if the runtime or the source does not know."""
    shed: Mapping[str, ShedCount] = field(default_factory=dict)
    """Rows that were shed by stream; they count as read."""
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    """Streams of which rows may be shed, and the event times in which they were."""
    at_s: float = field(kw_only=True)


@dataclass(frozen=True)
class CommandRefused:
    """A command could not be carried out; the run goes on without it."""

    command: Command
    reason: str
    at_s: float = field(kw_only=True)


@dataclass(frozen=True)
class MessageRejected:
    """A file in the mailbox of a run was refused and set aside; the run goes on."""

    file: str
    reason: str
    at_s: float = field(kw_only=True)


@dataclass(frozen=True)
class QueriesParked:
    """Queries failed and were parked: they stop until they are replaced, and the others go on.

    `queries`: all that need the failing part. `reason`: what failed. `row`: a row that it failed on; empty if unknown.
    """

    queries: tuple[str, ...]
    reason: str
    row: str = ""
    at_s: float = field(kw_only=True)


@dataclass(frozen=True)
class QueryLoss:
    """What a query has lost with the state of an instance, and how far its results can be off.

    `share`: the lost part of its utility. `most_results`: at most how many of its results are missing or different.
    `most_errors`: by result column, at most how far a value is off. None where there is no bound.
    """

    query: str
    fragments: int
    rows: int
    keys: int
    state_bytes: int
    share: float
    most_results: float | None = None
    most_errors: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class LostState:
    """State that a move has lost: shed on purpose, or not sent when the source went away.

    `rows`: the input rows in it. `share`: its utility, of that of all state of the instance. `queries`: what each query
    has lost of it.
    """

    fragments: int
    rows: int
    keys: int
    state_bytes: int
    share: float
    queries: tuple[QueryLoss, ...] = ()


@dataclass(frozen=True)
class MoveReport:
    """The outcome of one move; None for what the runtime has not measured.

    `frozen_s` is the time in which neither worker processed the instance, `late_s` how long events or the instance's
    worker waited for state when it was first needed, `seconds` the time from the beginning of the move to its end.
    `late_results` were emitted late because their state was, the last of them by `emission_delay_s`, all of them
    together by `emission_delay_sum_s`. `lost` is what was shed or could not be sent. `aborted` says why the move was
    not made; empty if it was. `active_s` is the time from the beginning of the move until the new worker could process
    events of the instance. `note` says what was done otherwise than the mechanism promises, and why.
    """

    instance: InstanceId
    source: WorkerId
    target: WorkerId
    state_bytes: int = 0
    frozen_s: float | None = None
    late_s: float | None = None
    aborted: str = ""
    seconds: float | None = None
    late_results: int | None = None
    emission_delay_s: float | None = None
    emission_delay_sum_s: float | None = None
    lost: LostState | None = None
    active_s: float | None = None
    note: str = ""


@dataclass(frozen=True)
class MovesFinished:
    """All moves of a rebinding have been made or aborted; reported once for every `Rebind` that was not refused.

    `rebind` is its id. If a run is stopped and restarted during a rebinding, the rebinding continues and is `resumed`:
    its moves are those made since the restart.
    """

    rebind: str
    moves: tuple[MoveReport, ...] = ()
    resumed: bool = False
    at_s: float = field(kw_only=True)

    @property
    def aborted(self) -> tuple[MoveReport, ...]:
        """The moves that were not made."""
        return tuple(move for move in self.moves if move.aborted)


@dataclass(frozen=True)
class WorkersLost:
    """Workers are gone; others take over without loss until the instances are bound to other workers."""

    workers: tuple[int, ...]
    reason: str
    at_s: float = field(kw_only=True)


@dataclass(frozen=True)
class RunEnded:
    """The run has ended and no event follows; `error` says why if it failed."""

    error: Exception | None = None
    at_s: float = field(kw_only=True)


Event = EpochCommitted | MovesFinished | CommandRefused | MessageRejected | QueriesParked | WorkersLost | RunEnded
