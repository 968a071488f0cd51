"""Migrations of the state of one kernel that are interrupted at any byte, and the runs that must have equal results."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from tests.conformance.kernel_case import KernelCase, blocks_of, processed
from tests.conformance.migrations import Blocks, begun, replicated_at
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.aggregate.windowed import AggregateKernel
from shoal.kernels.columns.table import Tables
from shoal.kernels.kernel import FOREVER_US, NEVER_US, State
from shoal.mechanisms.plan import StepKind
from shoal.model.control.fragment import Ids
from shoal.runtimes.migration.interruption import LossReport
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.relocation import Relocation, Shipment
from shoal.runtimes.migration.state_copy import StateCopy

Contents = dict[int, list[str]]
COPYING = ("rhino", "checkpoint-assisted")
DUPLICATING = ("window-recreation", "state-recreation")


class Step(NamedTuple):
    """Rows of an input, or a watermark if there are none."""

    port: int
    events: Sequence[Event]
    watermark_us: int = 0


class Change(NamedTuple):
    """A change of the state before a step: fragments that are gone, and what is there instead."""

    step: int
    lost: Ids
    stale: Tables


def steps_of(case: KernelCase, blocks: Blocks) -> list[Step]:
    """The rows of each input and the watermark after them, block by block; the last watermark ends everything."""

    def found() -> Iterator[Step]:
        for events, watermark_us in blocks:
            for port in range(case.ports):
                chosen = [event for event in events if event[PORT] == port]
                yield from [Step(port, chosen)] if chosen else []
            yield Step(0, (), watermark_us)
        yield Step(0, (), FOREVER_US)

    return list(found())


def stepped(case: KernelCase, events: Sequence[Event], draw: random.Random) -> list[Step]:
    """Events in random blocks, roughly in the order of time, none of them late."""
    bound = sorted(case.bound(events), key=lambda event: event["ts"] + draw.randint(0, 20))
    parts = blocks_of(bound, draw)
    blocks: list[tuple[Sequence[Event], int]] = []
    for number, part in enumerate(parts):
        remaining = [event["ts"] for later in parts[number + 1 :] for event in later]
        blocks.append((part, min(remaining, default=blocks[-1][1] if blocks else NEVER_US)))
    return steps_of(case, blocks)


def replayed(case: KernelCase, steps: Sequence[Step], changes: Sequence[Change]) -> list[Result]:
    """The results of a state that never moves, and changes before some steps."""
    here: State = case.kernel.open()
    found: list[Result] = []
    for number, step in enumerate(steps):
        for change in changes:
            if change.step == number:
                case.kernel.extract(here, change.lost)
                case.kernel.absorb(here, change.stale)
        if step.events:
            assert not processed(case, here, step.events, step.port).length
        else:
            found += case.results(case.kernel.close_until(here, step.watermark_us))
    return found


@dataclass
class Interrupted:
    """A state that moves from step `first` on, and whose source is gone at a random time after that.

    `truth` is the state of a run without a migration, `copied` what of it was copied. After the run there are `loss`,
    the `changes` that an undisturbed run needs to lose the same, `expected`: what must be lost, if pieces moved, and
    `unchanged`: what must not be, since its copy has arrived.
    """

    case: KernelCase
    mechanism: str
    draw: random.Random
    first: int
    relocation: Relocation | None = None
    loss: LossReport | None = None
    cut: int = -1
    changes: list[Change] = field(default_factory=list)
    expected: set[int] | None = None
    under_way: list[tuple[int, Shipment]] = field(default_factory=list)
    truth: State = field(init=False)
    copied: Contents = field(default_factory=dict)
    unchanged: set[int] = field(default_factory=set)
    redirected: int = -1
    redirected_us: int = NEVER_US
    copy_left: bool = False
    uses_replica: bool = False

    def __post_init__(self) -> None:
        self.truth = self.case.kernel.open()

    def results(self, steps: Sequence[Step]) -> list[Result]:
        """All results in the order in which they are emitted."""
        here: State = self.case.kernel.open()
        found: list[Result] = []
        replicated, replica = replicated_at(self.draw, self.first), None
        for number, step in enumerate(steps):
            if number == replicated:
                replica = StateCopy.of(self.case.kernel, here)
                self.copied = contents(self.case, self.truth)
            if number == self.first:
                self.relocation = begun(self.case, self.mechanism, here, replica)
                self.uses_replica = replica is not None and self.mechanism == "checkpoint-assisted"
            if self.relocation is not None and self.cut < 0:
                found += self._moved(self.relocation, number, last=number == len(steps) - 1)
            found += self._stepped(here, step)
        return found

    def _stepped(self, here: State, step: Step) -> list[Result]:
        kernel, moving = self.case.kernel, self.relocation
        if step.events:
            processed(self.case, self.truth, step.events, step.port)
            if moving is None:
                processed(self.case, here, step.events, step.port)
            else:
                assert not moving.rows(step.port, self.case.block(step.events)).length
            return []
        kernel.close_until(self.truth, step.watermark_us)
        emitted = kernel.close_until(here, step.watermark_us) if moving is None else moving.advance(step.watermark_us)
        return self.case.results(emitted)

    def _moved(self, moving: Relocation, number: int, *, last: bool) -> list[Result]:
        """Let some shipments leave and arrive, and perhaps the source go."""
        found: list[Result] = []
        for _ in range(self.draw.randint(0, 3)):
            if moving.finished:
                break
            self._sent(moving, number)
            if self.under_way and self.draw.random() < 0.5:
                found += self.case.results(moving.arrive(self.under_way.pop(0)[1]))
        if last or self.draw.random() < 0.2:
            found += self._interrupted(moving, number)
        return found

    def _sent(self, moving: Relocation, number: int) -> None:
        if moving.target is not None and moving.started and self.draw.random() < 0.7:
            answer = moving.ask(moving.target.wanted)
            self.under_way += [] if answer is None else [(number, answer)]
        shipment = moving.leave() if self.draw.random() < 0.7 else None
        if shipment is None:
            return
        self.under_way.append((number, shipment))
        if shipment.batch is not None and {StepKind.PREAMBLE, StepKind.DUPLICATE} & set(shipment.batch.kinds):
            self.copied, self.copy_left = contents(self.case, self.truth), True
        if moving.target is not None and self.redirected < 0:
            self.redirected, self.redirected_us = number, self.truth.watermark_us

    def _interrupted(self, moving: Relocation, number: int) -> list[Result]:
        """Cut the link within a shipment; those before it have arrived, those after it have not."""
        whole = self.draw.randint(0, len(self.under_way))
        sizes = [each.nbytes for _, each in self.under_way]
        partly = [self.draw.randint(0, max(0, size - 1)) if place == whole else 0 for place, size in enumerate(sizes)]
        arrived = [size if place < whole else partly[place] for place, size in enumerate(sizes)]
        pairs = [(each, nbytes) for (_, each), nbytes in zip(self.under_way, arrived, strict=True)]
        left, moment = self._expected(moving, number, pairs)
        alone = moving.target is None or self.mechanism in DUPLICATING
        self.loss, results = moving.interrupt(pairs)
        self.cut = number
        assert moving.finished
        if alone:
            self._check_restored(moving.state, self.loss)
        self._check_stale(self.loss, self.truth.watermark_us if alone else self.redirected_us)
        lost = set(self.loss.lost.ids.tolist())
        for step, ids in left:
            chosen = np.array(sorted(lost & ids), np.uint64)
            self.changes.append(Change(step, chosen, {}))
        others = np.array(sorted(lost.difference(*(ids for _, ids in left))), np.uint64)
        self.changes.append(Change(moment, others, self.loss.stale.tables))
        return self.case.results(results)

    def _check_restored(self, state: State, loss: LossReport) -> None:
        """What the target has and what the report says, together, is the state of the source, fragment by fragment."""
        both = State(dict(state.tables), state.watermark_us)
        self.case.kernel.extract(both, loss.stale.fragments.ids)
        self.case.kernel.absorb(both, loss.tables)
        assert contents(self.case, both) == contents(self.case, self.truth)
        if len(loss.lost):
            assert set(loss.every.ids.tolist()) == set(contents(self.case, self.truth))

    def _check_stale(self, loss: LossReport, watermark_us: int) -> None:
        """What the target has in another version has not been dropped by the watermark that the source had."""
        stale = State(dict(loss.stale.tables))
        before = contents(self.case, stale)
        self.case.kernel.close_until(stale, watermark_us)
        assert contents(self.case, stale) == before

    def _expected(
        self, moving: Relocation, number: int, pairs: Sequence[tuple[Shipment, int]]
    ) -> tuple[list[tuple[int, set[int]]], int]:
        """Note what must be lost. Returns the steps at which pieces were lost, and the step at which all else was."""
        copies = self.mechanism in COPYING or self.mechanism in DUPLICATING
        if moving.target is None and not copies:
            self.expected = set(moving.source.fragments.ids.tolist())
            return [], number
        if copies:
            self._note_unchanged(moving, pairs)
            return [], self.redirected if moving.target is not None and self.mechanism in COPYING else number
        pieces = [(each.piece, nbytes) for each, nbytes in pairs if each.piece is not None]
        lost = [id_ for piece, nbytes in pieces for id_ in beyond(piece, nbytes)]
        self.expected = {*lost, *moving.source.fragments.ids.tolist(), *moving.loss.lost.ids.tolist()}
        if moving.stopped:
            return [], self.redirected
        steps = [(step, each.piece) for step, each in self.under_way if each.piece is not None]
        return [(step, set(piece.fragments.ids.tolist())) for step, piece in steps], number

    def _note_unchanged(self, moving: Relocation, pairs: Sequence[tuple[Shipment, int]]) -> None:
        """Note the fragments that are as they were when they were copied, if the copy has arrived.

        Panes that began after events were duplicated are at both workers.
        """
        if moving.target is not None and self.mechanism in COPYING:
            return  # the truth is that of the hand-over
        arrived = set(self.copied) if self.uses_replica else set[int]()
        if self.mechanism in COPYING and self.copy_left and not any(each.piece is not None for each, _ in pairs):
            arrived = set(self.copied)
        for each, nbytes in pairs:
            if each.piece is not None and not self.uses_replica:
                payload = nbytes - each.nbytes + each.piece.nbytes
                arrived = set(each.piece.fragments.ids.tolist()).difference(beyond(each.piece, payload))
        now = contents(self.case, self.truth)
        self.unchanged = {id_ for id_ in arrived if now.get(id_) == self.copied[id_]}
        if moving.target is not None and isinstance(self.case.kernel, AggregateKernel):
            self.unchanged |= set(now) - set(self.copied)  # panes that began after the duplication


def beyond(piece: Piece, nbytes: int) -> list[int]:
    """The fragments of a piece that have not arrived."""
    found, ends = list[int](), 0
    for each in piece.fragments:
        ends += each.state_bytes
        if ends > nbytes:
            found.append(int(each.id))
    return found


def contents(case: KernelCase, state: State) -> Contents:
    """The rows of every fragment."""
    found: dict[int, list[str]] = {}
    for number, table in state.tables.items():
        ids = case.kernel.row_ids(number, table).tolist()
        for id_, row in zip(ids, map(repr, table.to_arrow().to_pylist()), strict=True):
            found.setdefault(id_, []).append(row)
    return {id_: sorted(rows) for id_, rows in found.items()}
