"""Plans: the steps in which instances get from one worker to another, in the order in which they are served."""

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
    """One instance that is to change its worker: how much state it has, in how many fragments, over which link."""

    instance: InstanceId
    source: WorkerId
    target: WorkerId
    state_bytes: int = 0
    fragments: int = 0
    link: Link = (0, 0)

    def __post_init__(self) -> None:
        """Reject a transfer that changes nothing."""
        if self.source == self.target:
            raise MechanismError(f"instance {self.instance!r} is to move from worker {self.source} to itself")


class Queue(IntEnum):
    """Queues in the order in which they are served: nothing of a queue goes before all queues in front are empty.

    Of the queues only `PREAMBLE` and `CRITICAL` may keep the target from starting.
    """

    PREAMBLE = 0
    """While the source goes on to work."""
    CRITICAL = 1
    """What the target cannot start without."""
    FETCH = 2
    """What the target has asked for, since it needs it now."""
    DEADLINE = 3
    """What must have arrived by a certain time."""
    NORMAL = 4
    """Everything else, as fast as it does not disturb."""


class StepKind(StrEnum):
    """What a runtime does with the transfers of a batch in one step."""

    PREAMBLE = "preamble"
    """Copy the state to the target while the source works on; what changes meanwhile is extracted later."""
    PAUSE = "pause"
    """The source stops to process the instances."""
    REDIRECT = "redirect"
    """Events go to the target from now on."""
    BUFFER = "buffer"
    """The target holds events of the instances back until it resumes them."""
    EXTRACT = "extract"
    """The source takes the instances out of its state."""
    SEND = "send"
    """What was extracted goes over the link."""
    IMPORT = "import"
    """The target takes what was sent into its state."""
    RESUME = "resume"
    """The target processes the instances, beginning with what it has buffered."""
    DROP = "drop"
    """State is given up; the report of a move says how much."""


class Step(NamedTuple):
    """A step of a plan with the transfers it concerns."""

    kind: StepKind
    queue: Queue
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True)
class Batch:
    """Transfers that go together, and the steps they go through, in order."""

    queue: Queue
    kinds: tuple[StepKind, ...]
    transfers: tuple[Transfer, ...]

    def __post_init__(self) -> None:
        """Reject steps in an impossible order."""
        _check_order(self.kinds)

    @property
    def moves(self) -> bool:
        """Whether its transfers are made with it, in contrast to what only prepares them."""
        return StepKind.RESUME in self.kinds


ORDER = (
    (StepKind.EXTRACT, StepKind.SEND),
    (StepKind.SEND, StepKind.IMPORT),
    (StepKind.IMPORT, StepKind.RESUME),
)
"""Pairs of steps of which the second needs the first."""


@lru_cache
def _check_order(kinds: tuple[StepKind, ...]) -> None:
    """Reject steps without those they need before them; plans have few different kinds of batches, but many batches."""
    text = ", ".join(kinds)
    for earlier, later in ORDER:
        if later in kinds and earlier not in kinds[: kinds.index(later)]:
            raise MechanismError(f"a batch has step {later} without {earlier} before it; got {text}")
    if len(set(kinds)) != len(kinds):
        raise MechanismError(f"a batch must have each step at most once; got {text}")


@dataclass(frozen=True)
class Plan:
    """How a mechanism carries transfers out: batches in the order in which they are served.

    The constructor makes sure that queues come in their order and that every instance is resumed exactly once.
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
    def steps(self) -> Iterator[Step]:
        """All steps in their order."""
        for batch in self.batches:
            for kind in batch.kinds:
                yield Step(kind, batch.queue, batch.transfers)

    @property
    def kinds(self) -> frozenset[StepKind]:
        """The kinds of steps that a runtime must be able to execute."""
        return frozenset(kind for batch in self.batches for kind in batch.kinds)

    @property
    def queues(self) -> frozenset[Queue]:
        """The queues that a runtime must have."""
        return frozenset(batch.queue for batch in self.batches)

    def served(self, queue: Queue) -> tuple[Transfer, ...]:
        """The transfers of a queue in their order."""
        return tuple(transfer for batch in self.batches if batch.queue is queue for transfer in batch.transfers)
