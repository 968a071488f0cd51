"""Plans: the steps that move instances from one worker to another, in the order of their execution."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple

from shoal.errors import MechanismError
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import Link
from shoal.model.query.graph import InstanceId


@dataclass(frozen=True)
class Transfer:
    """The move of one instance: its workers, the bytes and fragments of its state, and the link."""

    instance: InstanceId
    source: WorkerId
    target: WorkerId
    state_bytes: int = 0
    fragments: int = 0
    link: Link = (0, 0)

    def __post_init__(self) -> None:
        """Reject a transfer that changes nothing."""
        if self.source == self.target:
            raise MechanismError(f"instance {self.instance!r} must move to another worker; got {self.source} twice")


class Queue(IntEnum):
    """Queues in the order in which they are served: a queue is served once all queues before it are empty.

    Only `PREAMBLE` and `CRITICAL` may keep the target from starting.
    """

    PREAMBLE = 0
    """Served while the source still processes."""
    CRITICAL = 1
    """Required before the target can start."""
    FETCH = 2
    """Requested by the target, which needs it now."""
    DEADLINE = 3
    """Must arrive by a certain time."""
    NORMAL = 4
    """Everything else, throttled."""


class StepKind(StrEnum):
    """What a runtime does with the transfers of a batch in one step."""

    PREAMBLE = "preamble"
    """Copy the state to the target while the source still processes; later changes are extracted afterwards."""
    PAUSE = "pause"
    """The source stops processing the instances."""
    REDIRECT = "redirect"
    """Events go to the target from now on."""
    BUFFER = "buffer"
    """The target buffers events of the instances until it resumes them."""
    EXTRACT = "extract"
    """The source takes the instances out of its state."""
    SEND = "send"
    """Send the extracted state over the link."""
    IMPORT = "import"
    """The target adds the state that was sent to its own."""
    RESUME = "resume"
    """The target processes the instances, buffered events first."""
    DROP = "drop"
    """Discard state; the report of the move says how much."""


class MigrationStep(NamedTuple):
    """A step of a plan with its transfers."""

    kind: StepKind
    queue: Queue
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True)
class Batch:
    """Transfers that are executed at once, and their steps in order."""

    queue: Queue
    kinds: tuple[StepKind, ...]
    transfers: tuple[Transfer, ...]

    def __post_init__(self) -> None:
        """Reject steps in an impossible order."""
        _check_order(self.kinds)

    @property
    def moves(self) -> bool:
        """Whether it completes its transfers, rather than only preparing them."""
        return StepKind.RESUME in self.kinds


ORDER = (
    (StepKind.EXTRACT, StepKind.SEND),
    (StepKind.SEND, StepKind.IMPORT),
    (StepKind.IMPORT, StepKind.RESUME),
)
"""Pairs of steps; the second requires the first."""


@lru_cache
def _check_order(kinds: tuple[StepKind, ...]) -> None:
    """Reject steps without those that they require; cached, since plans have many batches of few kinds."""
    text = ", ".join(kinds)
    for earlier, later in ORDER:
        if later in kinds and earlier not in kinds[: kinds.index(later)]:
            raise MechanismError(f"a batch has step {later} without {earlier} before it; got {text}")
    if len(set(kinds)) != len(kinds):
        raise MechanismError(f"a batch must have each step at most once; got {text}")


@dataclass(frozen=True)
class Plan:
    """How a mechanism executes transfers: batches in the order in which they are served.

    The constructor checks that queues are in order and that every instance is resumed exactly once.
    """

    mechanism: str
    batches: tuple[Batch, ...] = ()

    def __post_init__(self) -> None:
        """Reject a plan that serves a queue too early, or loses or repeats a transfer."""
        queues = [batch.queue for batch in self.batches]
        if queues != sorted(queues):
            names = ", ".join(queue.name.lower() for queue in queues)
            raise MechanismError(f"a plan of {self.mechanism} must serve its queues in their order; got {names}")
        prepared = {transfer.instance for batch in self.batches for transfer in batch.transfers}
        resumed = [transfer.instance for batch in self.batches if batch.moves for transfer in batch.transfers]
        if len(resumed) != len(prepared):
            raise MechanismError(
                f"a plan of {self.mechanism} must resume each of its {len(prepared)} instances once; "
                f"got {len(resumed)} times in all, {len(set(resumed))} instances"
            )

    @property
    def steps(self) -> Iterator[MigrationStep]:
        """All steps in their order."""
        for batch in self.batches:
            for kind in batch.kinds:
                yield MigrationStep(kind, batch.queue, batch.transfers)

    @property
    def kinds(self) -> frozenset[StepKind]:
        """The kinds of steps that a runtime must support."""
        return frozenset(kind for batch in self.batches for kind in batch.kinds)

    @property
    def queues(self) -> frozenset[Queue]:
        """The queues that a runtime must support."""
        return frozenset(batch.queue for batch in self.batches)

    def served(self, queue: Queue) -> tuple[Transfer, ...]:
        """The transfers of a queue in their order."""
        return tuple(transfer for batch in self.batches if batch.queue is queue for transfer in batch.transfers)
