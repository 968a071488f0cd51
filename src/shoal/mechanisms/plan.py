"""Plans: the steps that move instances from one worker to another, in the order of their execution."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shoal.errors import MechanismError
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.fragment import NO_DEADLINE_US, Ids
from shoal.model.query.graph import InstanceId


class Queue(IntEnum):
    """Queues in the order in which they are served: a queue is served once all queues before it are empty.

    Only `PREAMBLE` and `CRITICAL` may keep the target from starting.
    """

    PREAMBLE = 0
    """Served while the source still processes."""
    CRITICAL = 1
    """Required before the target can start."""
    FETCH = 2
    """Requested by the target, which needs it now; batches of a plan come here from other queues."""
    DEADLINE = 3
    """Must arrive by a certain time."""
    NORMAL = 4
    """Everything else, throttled."""


class StepKind(StrEnum):
    """What a runtime does with the transfers of a batch in one step."""

    PREAMBLE = "preamble"
    """Copy the state to the target while the source still processes; later changes are extracted afterwards."""
    REPLICA = "replica"
    """Use a copy of the state that the target has from before, as if it had just been sent as a preamble."""
    DUPLICATE = "duplicate"
    """Events go to both from now on; only the source emits results."""
    PAUSE = "pause"
    """The source stops processing the instances."""
    REDIRECT = "redirect"
    """Events go to the target from now on."""
    BUFFER = "buffer"
    """The target buffers events of the instances until it resumes them."""
    TELL = "tell"
    """Send which fragments will follow: the essential part, enough to know which events need them."""
    START = "start"
    """The target processes the instances without the state that is still on its way; events that need it wait."""
    EXTRACT = "extract"
    """The source takes the instances out of its state, or what has changed in them since a preamble."""
    SEND = "send"
    """Send the extracted state over the link."""
    IMPORT = "import"
    """The target adds the state that was sent to its own."""
    EXPIRE = "expire"
    """Wait until the source has dropped all state from before events were duplicated."""
    DROP = "drop"
    """Discard state; the report of the move says how much."""
    RESUME = "resume"
    """The target processes the instances, buffered events first; results are its own from now on."""


class MigrationStep(NamedTuple):
    """A step of a plan with its transfers."""

    kind: StepKind
    queue: Queue
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """Transfers that are executed at once, and their steps in order.

    `ids`: the fragments that it moves; None for all that no other batch moves. `due_us`: the watermark by which they
    should be there. `fetched`: the target may ask for it before its turn. `note`: what is done otherwise than the
    mechanism promises, and why; reports of its moves say so. `rank`: of the batches of several transfers that share a
    link and a queue, the lowest goes first.
    """

    queue: Queue
    kinds: tuple[StepKind, ...]
    transfers: tuple[Transfer, ...]
    ids: Ids | None = None
    due_us: int = NO_DEADLINE_US
    fetched: bool = False
    note: str = ""
    rank: int = 0

    def __post_init__(self) -> None:
        """Reject steps in an impossible order."""
        _check_order(self.kinds)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same steps for the same transfers and fragments."""
        if not isinstance(other, Batch):
            return NotImplemented
        mine, theirs = ((x.queue, x.kinds, x.transfers, x.due_us, x.fetched, x.note, x.rank) for x in (self, other))
        if mine != theirs or (self.ids is None) != (other.ids is None):
            return False
        return self.ids is None or np.array_equal(self.ids, other.ids)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        """A hash that equal batches share."""
        return hash((self.queue, self.kinds, self.transfers))

    @property
    def moves(self) -> bool:
        """Whether it completes its transfers, rather than only preparing them or moving some of their fragments."""
        return StepKind.RESUME in self.kinds and self.ids is None


REQUIRED = (
    (StepKind.SEND, (StepKind.EXTRACT,)),
    (StepKind.IMPORT, (StepKind.SEND,)),
    (StepKind.RESUME, (StepKind.IMPORT, StepKind.DROP, StepKind.EXPIRE)),
)
"""Steps that require another one before them, any of those named."""


@lru_cache
def _check_order(kinds: tuple[StepKind, ...]) -> None:
    """Reject steps without those that they require; cached, since plans have many batches of few kinds."""
    text = ", ".join(kinds)
    for later, earlier in REQUIRED:
        if later in kinds and not set(earlier) & set(kinds[: kinds.index(later)]):
            raise MechanismError(f"a batch has step {later} without {' or '.join(earlier)} before it; got {text}")
    if len(set(kinds)) != len(kinds):
        raise MechanismError(f"a batch must have each step at most once; got {text}")


@dataclass(frozen=True)
class Plan:
    """How a mechanism executes transfers: batches in the order in which they are served.

    The constructor checks that queues are in order, that every instance is resumed exactly once and that no fragment is
    moved twice. Batches with fragments of an instance come before the one that completes it.
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
        self._check_fragments()
        self._check_completed_last()

    def _check_fragments(self) -> None:
        moved = dict[tuple[InstanceId, ...], list[Ids]]()
        for batch in self.batches:
            if batch.ids is not None:
                moved.setdefault(tuple(each.instance for each in batch.transfers), []).append(batch.ids)
        for instances, ids in moved.items():
            ordered = np.sort(np.concatenate(ids))
            if (ordered[1:] == ordered[:-1]).any():
                raise MechanismError(f"a plan of {self.mechanism} moves a fragment of {instances[0]!r} twice")

    def _check_completed_last(self) -> None:
        done = set[InstanceId]()
        for batch in self.batches:
            late = done.intersection(transfer.instance for transfer in batch.transfers)
            if late:
                raise MechanismError(f"a plan of {self.mechanism} moves parts of {min(late)!r} after it is complete")
            if batch.moves:
                done.update(transfer.instance for transfer in batch.transfers)

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
