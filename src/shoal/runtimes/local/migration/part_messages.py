"""Messages between the parts of a lane on different workers; the package docstring says who sends which, and when."""

from typing import NamedTuple

from shoal.kernels.columns.block import Block
from shoal.model.control.messages import LostState
from shoal.runtimes.local.dataflow.lane_state import LaneState
from shoal.runtimes.local.migration.way import AT_ONCE, MoveWay
from shoal.runtimes.migration.state_copy import Difference


class MigrationRequest(NamedTuple):
    """A worker requests an instance, and has emitted a watermark."""

    instance: int
    target: int
    watermark_us: int
    way: MoveWay = AT_ONCE


class MissingState(NamedTuple):
    """State that follows its instance.

    Watermarks up to `limit_us` need nothing of it. `rows_fetch` and `results_fetch`: the new owner asks for it when the
    first row of the instance comes, or when the watermark is past the limit.
    """

    limit_us: int
    rows_fetch: bool = False
    results_fetch: bool = False


class RestOfState(NamedTuple):
    """What turns the replica of an instance into its state; without a difference, the replica is that already."""

    difference: Difference | None = None

    @property
    def nbytes(self) -> int:
        """Bytes to send."""
        return 0 if self.difference is None else self.difference.nbytes


class Arrival(NamedTuple):
    """An instance with its state, its old owner, the size of the state, and when it was taken out there.

    `missing`: the state is empty, and the real one follows. `lost`: the real one was dropped. `rest`: the real one is
    made of the replica.
    """

    instance: int
    state: LaneState
    source: int
    state_bytes: int
    left_s: float
    missing: MissingState | None = None
    lost: LostState | None = None
    rest: RestOfState | None = None


class FetchState(NamedTuple):
    """The new owner of an instance needs its state now."""

    instance: int


class StateArrival(NamedTuple):
    """The state of an instance that came without it, and its size."""

    instance: int
    state: LaneState
    state_bytes: int


class ForwardedRows(NamedTuple):
    """Rows of an outgoing instance that its old owner got from one input, at a watermark."""

    instance: int
    number: int
    block: Block
    watermark_us: int


class InputDrained(NamedTuple):
    """The old owner will forward no more rows of an instance from one input."""

    instance: int
    number: int


class WatermarkPromise(NamedTuple):
    """The watermark of the rows that may still be forwarded."""

    instance: int
    watermark_us: int


class Gone(NamedTuple):
    """A requested instance no longer exists: it was merged into another."""

    instance: int


class PrepareRequest(NamedTuple):
    """A worker is to have an instance, and wants a replica of it first."""

    instance: int
    target: int
    way: MoveWay


class CopiedState(NamedTuple):
    """The beginning of a replica: a copy of the state of an instance, or an empty state, and its size."""

    instance: int
    state: LaneState
    source: int
    state_bytes: int


class MirroredRows(NamedTuple):
    """Rows of an instance that its owner has got from one input, at a watermark, for the replica."""

    instance: int
    number: int
    block: Block
    watermark_us: int
    source: int


class Prepared(NamedTuple):
    """The replica of an instance is all that its worker needs beside the rest."""

    instance: int


class Unprepared(NamedTuple):
    """An instance is not prepared any more: what there is of a replica is of no use."""

    instance: int
    source: int


OfReplica = PrepareRequest | CopiedState | MirroredRows | Prepared | Unprepared
OfIncoming = ForwardedRows | InputDrained | WatermarkPromise | StateArrival
Message = MigrationRequest | Arrival | FetchState | Gone | OfIncoming | OfReplica


class HandOver(NamedTuple):
    """A finished move; fields are those of `MoveReport`, `ended_s` is by the performance counter."""

    instance: int
    source: int
    target: int
    state_bytes: int
    frozen_s: float
    late_s: float = 0.0
    ended_s: float = 0.0
    late_results: int | None = None
    emission_delay_s: float | None = None
    emission_delay_sum_s: float | None = None
    lost: LostState | None = None
