"""Relocation: one instance between two workers, step by step as a plan says.

Rows and watermarks come in the order of the stream; shipments leave the source and arrive at the target after any time,
in the order in which they have left. The caller has the time: it decides when a shipment leaves, and when it arrives.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from shoal.errors import MechanismError
from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import NO_RESULTS, Kernel, State, concat_blocks
from shoal.mechanisms.plan import Batch, Queue, StepKind
from shoal.mechanisms.transfer import ESSENTIAL_BYTES, STATIC_BYTES
from shoal.model.control.fragment import Fragments, Ids
from shoal.runtimes.migration.departure import Departure, Listing
from shoal.runtimes.migration.interruption import (
    LossReport,
    Sent,
    after_copying,
    after_redirection,
    before_redirection,
    during_duplication,
)
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.state_copy import Difference, StateCopy
from shoal.runtimes.migration.takeover import (
    NO_KEYS,
    BufferedTakeover,
    KeyedTakeover,
    Receiver,
    SilentTakeover,
    TimedTakeover,
)


@dataclass(frozen=True, eq=False)
class Shipment:
    """What is sent at once: a batch of the plan, or the answer to a request for keys that have no state.

    `keys`: all keys whose events need to wait no longer once it has arrived.
    """

    batch: Batch | None
    nbytes: int
    piece: Piece | None = None
    difference: Difference | None = None
    told: Fragments | None = None
    keys: Ids = field(default_factory=lambda: NO_KEYS)

    def sent(self, arrived_bytes: int) -> Sent:
        """What has arrived of its state; a message in front of it has arrived first."""
        if self.batch is not None and StepKind.REPLICA in self.batch.kinds:
            return Sent(None, None, 0)  # nothing is sent of a replica
        payload = self.piece or self.difference
        return Sent(self.piece, self.difference, arrived_bytes - self.nbytes + (payload.nbytes if payload else 0))


class Relocation:
    """The move of the state of a kernel.

    `source` and `target` are the two sides. `stopped`: the source processes no more events. `started`: the target may
    process events. `sent`: bytes that have left. `fetches`: the target may ask for keys.
    """

    def __init__(
        self,
        kernel: Kernel,
        state: State,
        batches: Sequence[Batch],
        replica: StateCopy | None = None,
        listing: Listing | None = None,
    ) -> None:
        """Nothing has moved yet; the batches are those of one transfer.

        `replica`: an older copy at the target. `listing`: lists fragments with their utilities, by default the kernel.
        """
        self.kernel = kernel
        self.source = Departure(kernel, state, replica, listing)
        self.target: Receiver | None = None
        self.started = self.stopped = False
        self.sent = 0
        self._waiting = deque(batches)
        self._asked: deque[Batch] = deque()
        self._keys_of = self._keys(batches)
        self._batch_of = {key: name for name, keys in self._keys_of.items() for key in keys.tolist()}
        self.fetches = any(batch.fetched for batch in batches)
        self._moved = NO_KEYS
        self._all_moved = self._both = False
        self._copy: Piece | None = None
        self._settled: Departure | None = None
        self._under_way: list[Shipment] = []
        self._taken: list[Fragments] = []
        self._dropped: list[Piece] = []
        self._loss: LossReport | None = None

    @property
    def finished(self) -> bool:
        """Whether the target has everything that will come, and goes on alone."""
        return self._settled is not None

    @property
    def state(self) -> State:
        """The state at the target, once it is complete."""
        if self._settled is None:
            raise ValueError("the state is still between two workers")
        return self._settled.state

    @property
    def loss(self) -> LossReport:
        """What was dropped, or lost in an interruption."""
        return self._loss or LossReport.of_pieces(self.kernel, self._taken, self._dropped)

    def _keys(self, batches: Sequence[Batch]) -> dict[int, Ids]:
        """The keys of each batch that moves some fragments, by the identity of the batch."""
        ids_of = {id(batch): batch.ids for batch in batches if batch.ids is not None}
        here = self.source.fragments if ids_of else Fragments.none()
        order = np.argsort(here.ids)
        found = {}
        for name, ids in ids_of.items():
            found[name] = np.unique(here.key[order[np.searchsorted(here.ids, ids, sorter=order)]])
        return found

    # the stream

    def rows(self, port: int, block: Block) -> Block:
        """Rows of the stream, to the side or sides that should have them; returns the late ones."""
        if self._settled is not None:
            return self._settled.rows(port, block)
        if self._both and self.target is not None:
            self.target.rows(port, block)
            return self.source.rows(port, block)
        goes = self.redirected(self.kernel.row_keys(port, block))
        late = [NO_RESULTS] * 2
        if not goes.all():
            late[0] = self.source.rows(port, block.where(~goes))
        if goes.any() and self.target is not None:
            late[1] = self.target.rows(port, block.where(goes))
        return concat_blocks([each for each in late if each.length])

    def redirected(self, keys: Ids) -> NDArray[np.bool_]:
        """Whether rows of each key go to the target."""
        return np.ones(keys.size, bool) if self._all_moved else np.isin(keys, self._moved)

    def advance(self, watermark_us: int) -> Block:
        """The watermark of the stream; returns the results of both sides."""
        if self._settled is not None:
            return self._settled.advance(watermark_us)
        works = self._both or not self.stopped
        results = [self.source.advance(watermark_us) if works else self.source.ready()]
        if self.target is not None:
            results.append(self.target.advance(watermark_us))
        return concat_blocks([each for each in results if each.length])

    # the source's side

    def waiting(self) -> Iterator[tuple[Queue, int]]:
        """The queues and deadlines of the batches that can leave now, in the order in which they should."""
        yield from ((Queue.FETCH, batch.due_us) for batch in self._asked)
        yield from ((batch.queue, batch.due_us) for batch in self._waiting if self._can_leave(batch))

    @property
    def next_batch(self) -> Batch | None:
        """The batch that leaves next; None if nothing can leave now."""
        first = self._waiting[0] if self._waiting else None
        if self._asked and (first is None or first.queue > Queue.FETCH):
            return self._asked[0]
        return first if first is not None and self._can_leave(first) else None

    def keys_of(self, batch: Batch) -> Ids | None:
        """The keys that a batch moves; None for all that are left."""
        return self._keys_of.get(id(batch))

    def leave(self) -> Shipment | None:
        """Take the next steps of the source; returns what is to be sent, or None if nothing can leave now."""
        batch = self.next_batch
        if batch is None:
            return None
        (self._asked if self._asked and batch is self._asked[0] else self._waiting).popleft()
        shipment = self._left(batch)
        self.sent += shipment.nbytes
        self._under_way.append(shipment)
        return shipment

    def ask(self, keys: Ids) -> Shipment | None:
        """The target asks for keys: their batches leave next. Returns an answer if some of them have no state."""
        batches = {self._batch_of.get(key) for key in keys.tolist()}
        wanted = [each for each in self._waiting if each.fetched and id(each) in batches]
        self._asked.extend(wanted)
        asked = {id(batch) for batch in wanted}
        self._waiting = deque(batch for batch in self._waiting if id(batch) not in asked)
        empty = keys[[key not in self._batch_of for key in keys.tolist()]]
        return Shipment(None, STATIC_BYTES, keys=empty) if empty.size else None

    def _can_leave(self, batch: Batch) -> bool:
        return StepKind.EXPIRE not in batch.kinds or self.source.expired

    def _left(self, batch: Batch) -> Shipment:
        """Take the steps of a batch up to its sending."""
        kinds = batch.kinds
        if StepKind.DUPLICATE in kinds:
            self._duplicate(waits=StepKind.BUFFER in kinds)
        if StepKind.PREAMBLE in kinds:
            self._copy = self.source.copy()
            return Shipment(batch, STATIC_BYTES + self._copy.nbytes, self._copy)
        if StepKind.REPLICA in kinds:
            self._copy = self.source.replica()
            return Shipment(batch, STATIC_BYTES, self._copy)
        self.stopped = self.stopped or StepKind.PAUSE in kinds
        if StepKind.REDIRECT in kinds and not self._both:
            self._redirect(batch)
        if StepKind.DROP in kinds:
            self._dropped.append(self.source.take())
            self._taken.append(self._dropped[-1].fragments)
        if StepKind.TELL in kinds:
            told = self.source.fragments
            return Shipment(batch, STATIC_BYTES + ESSENTIAL_BYTES * len(told), told=told)
        return self._extracted(batch) if StepKind.EXTRACT in kinds else Shipment(batch, STATIC_BYTES)

    def _extracted(self, batch: Batch) -> Shipment:
        if self._both:
            if self._copy is None:
                raise MechanismError("a target that catches up needs the state of the time of duplication")
            return Shipment(batch, self._copy.nbytes, self._copy)
        if self._copy is not None:
            difference = self.source.difference()
            return Shipment(batch, difference.nbytes, difference=difference)
        keys = NO_KEYS
        if batch.ids is None:
            piece = self.source.take()
        elif isinstance(self.target, KeyedTakeover):  # a key may have other fragments than when the plan was made
            keys = self._keys_of[id(batch)]
            piece = self.source.take_keys(keys)
        else:
            piece = self.source.take(batch.ids)
        self._taken.append(piece.fragments)
        return Shipment(batch, piece.nbytes, piece, keys=keys)

    def _redirect(self, batch: Batch) -> None:
        if self.target is None:
            self.target = self._new_target(batch)
        if batch.ids is None:
            self._all_moved = True
        else:
            self._moved = np.union1d(self._moved, self._keys_of[id(batch)])

    def _new_target(self, batch: Batch) -> Receiver:
        watermark_us, to_come = self.source.state.watermark_us, self._waiting
        if any(each.queue is Queue.DEADLINE for each in to_come):
            return TimedTakeover(self.kernel, watermark_us, self.source.fragments)
        by_key = any(StepKind.RESUME in each.kinds and each.ids is not None for each in (batch, *to_come))
        keyed = by_key or StepKind.START in batch.kinds
        return (KeyedTakeover if keyed else BufferedTakeover)(self.kernel, watermark_us)

    def _duplicate(self, *, waits: bool) -> None:
        self.source.duplicate()
        self._both = True
        self._copy = self.source.copy() if waits else None
        self.target = SilentTakeover(self.kernel, self.source.state.watermark_us, waits=waits)

    # the target's side

    def arrive(self, shipment: Shipment) -> Block:
        """Take the steps of the target; returns the results that waited for it."""
        batch, target = shipment.batch, self.target
        self._under_way = [each for each in self._under_way if each is not shipment]
        if batch is None:
            return target.nothing_of(shipment.keys) if isinstance(target, KeyedTakeover) else NO_RESULTS
        results = [self._imported(shipment)]
        if shipment.keys.size and isinstance(target, KeyedTakeover):  # some may have no state any more
            results.append(target.nothing_of(shipment.keys))
        self.started = self.started or not {StepKind.START, StepKind.RESUME}.isdisjoint(batch.kinds)
        if batch.moves:
            results += self._resumed()
        return concat_blocks([each for each in results if each.length])

    def _imported(self, shipment: Shipment) -> Block:
        is_copy = shipment.piece is not None and shipment.piece is self._copy and not self._both
        if self.target is None or is_copy:  # a copy waits for its difference
            return NO_RESULTS
        if shipment.told is not None and isinstance(self.target, KeyedTakeover):
            return self.target.tell(shipment.told)
        if shipment.difference is not None and self._copy is not None:
            return self.target.arrive(shipment.difference.applied(self.kernel, self._copy))
        return NO_RESULTS if shipment.piece is None else self.target.arrive(shipment.piece)

    def _resumed(self) -> list[Block]:
        """The target takes over; returns its results, and the last of the source."""
        if self.target is None:
            raise MechanismError("an instance resumes before its events are redirected")
        results = [self.source.ready(), self.target.end()]
        self._settle(self.target.state)
        return results

    def _settle(self, state: State) -> None:
        """The target goes on alone."""
        self._both, self._all_moved = False, True
        self.started = self.stopped = True
        self._settled = Departure(self.kernel, state)

    # an interruption

    def interrupt(self, under_way: Sequence[tuple[Shipment, int]]) -> tuple[LossReport, Block]:
        """The source is gone for good; the target takes what has arrived, and goes on alone.

        `under_way`: how many bytes of each shipment have arrived, in their order; none of those not listed. Returns the
        loss and the results that waited.
        """
        whole = takewhile(lambda each: each[1] >= each[0].nbytes, under_way)  # what is empty comes after what is not
        results = [self.arrive(each) for each, _ in whole]
        if not self.finished:
            bytes_of = {id(each): nbytes for each, nbytes in under_way}
            sent = [each.sent(bytes_of.get(id(each), 0)) for each in self._under_way]
            results += [self.source.ready(), self._interrupted(sent)]
        self._under_way, self._waiting, self._asked = [], deque(), deque()
        return self.loss, concat_blocks([each for each in results if each.length])

    def _interrupted(self, sent: Sequence[Sent]) -> Block:
        kernel, source, target, copy = self.kernel, self.source, self.target, self._copy
        if target is None:
            if any(StepKind.REPLICA in batch.kinds for batch in self._waiting):
                copy = source.replica()
            self._loss, state = before_redirection(kernel, source, copy, sent)
            self._settle(state)
            return NO_RESULTS
        if self._both:
            self._loss, results = during_duplication(kernel, source, target, copy, sent)
        elif copy is not None:
            self._loss, results = after_copying(kernel, target, copy, sent)
        else:
            self._loss, results = after_redirection(kernel, source, target, sent, self._taken, self._dropped)
        self._settle(target.state)
        return results
