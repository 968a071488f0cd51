"""State of every kernel can be extracted and absorbed in any order, and its fragments keep their ids."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, blocks_of, filled, listed, processed, resent
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.columns.table import Tables
from shoal.kernels.join import JoinKernel
from shoal.kernels.kernel import FOREVER_US, State
from shoal.model.control.fragment import Fragment

every_kernel = pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
STREAMS = st.lists(EVENTS, min_size=1, max_size=25)


class Disturbed:
    """A state whose fragments move to another state, or are in transit for a while, and return in any order."""

    def __init__(self, case: KernelCase, draw: random.Random) -> None:
        self.kernel, self.draw = case.kernel, draw
        self.home: State = case.kernel.open()
        self.other: State = case.kernel.open()
        self.in_transit: list[Tables] = []

    def disturb(self) -> None:
        for _ in range(self.draw.randint(0, 6)):
            state = self.draw.choice([self.home, self.other])
            if self.in_transit and self.draw.random() < 0.5:
                self.kernel.absorb(state, self.in_transit.pop(self.draw.randrange(len(self.in_transit))))
            else:
                self.in_transit.append(resent(self.kernel.extract(state, self._some(state))))

    def restore(self) -> None:
        while len(self.kernel.fragments(self.other)):
            self.in_transit.append(self.kernel.extract(self.other, self._some(self.other)))
        self.draw.shuffle(self.in_transit)
        for piece in self.in_transit:
            self.kernel.absorb(self.home, piece)
        self.in_transit = []

    def _some(self, state: State) -> Any:
        ids = self.kernel.fragments(state).ids
        return np.array(self.draw.sample(ids.tolist(), self.draw.randint(0, ids.size)), np.uint64)


def results(case: KernelCase, blocks: Sequence[Sequence[Event]], draw: random.Random | None) -> list[Result]:
    """All results, with random moves between the blocks if `draw` is given."""
    run = Disturbed(case, draw or random.Random(0))
    found: list[Result] = []
    for number, block in enumerate(blocks):
        if draw is not None:
            run.disturb()
            if isinstance(case.kernel, JoinKernel):  # pairs rows on arrival, so all possible matches must be present
                run.restore()
        for port in range(case.ports):
            assert not processed(case, run.home, [event for event in block if event[PORT] == port], port).length
        if draw is not None:
            run.disturb()
            run.restore()
        remaining = [event["ts"] for later in blocks[number + 1 :] for event in later]
        found += case.results(case.kernel.close_until(run.home, min(remaining, default=run.home.watermark_us)))
    return found + case.results(case.kernel.close_until(run.home, FOREVER_US))


@every_kernel
def test_no_sequence_of_extracts_and_absorbs_changes_a_result(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=12)
    @given(STREAMS, st.integers(0, 2**32))
    def holds(events: list[Event], seed: int) -> None:
        draw = random.Random(seed)
        bound = sorted(case.bound(events), key=lambda event: event["ts"] + draw.randint(0, 20))
        blocks = blocks_of(bound, draw)
        assert case.disagreement(results(case, blocks, draw), results(case, blocks, None)) == ""

    holds()


@every_kernel
def test_fragments_do_not_change_while_others_are_extracted_and_absorbed(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=8)
    @given(STREAMS, st.integers(-60, 60), st.integers(0, 2**32))
    def holds(events: list[Event], watermark_us: int, seed: int) -> None:
        draw, kernel = random.Random(seed), case.kernel
        state, other = filled(case, events), kernel.open()
        kernel.close_until(state, watermark_us)
        before = known(case, state)
        chosen = set(draw.sample(sorted(before), draw.randint(0, len(before))))
        piece = kernel.extract(state, np.array(sorted(chosen), np.uint64))
        assert set(known(case, state)) == set(before) - chosen
        kernel.absorb(other, resent(piece))
        assert set(known(case, other)) == chosen
        kernel.absorb(state, resent(kernel.extract(other, np.array(sorted(chosen), np.uint64))))
        assert not len(kernel.fragments(other))
        assert known(case, state) == before

    holds()


@every_kernel
def test_ids_are_unique_and_do_not_depend_on_the_order_of_rows(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=8)
    @given(STREAMS, st.integers(-60, 60), st.integers(0, 2**32))
    def holds(events: list[Event], watermark_us: int, seed: int) -> None:
        draw, kernel = random.Random(seed), case.kernel
        state = filled(case, events)
        kernel.close_until(state, watermark_us)
        before = known(case, state)
        assert len(before) == len(identities(case, state))
        for number, table in state.tables.items():
            rows = draw.sample(range(len(table)), len(table))
            state.tables[number] = table.take(np.array(rows, np.int64))
        assert known(case, state) == before

    holds()


def known(case: KernelCase, state: State) -> dict[int, tuple[Any, ...]]:
    """The properties of every fragment by its id, except its size, which depends on how texts are encoded."""
    found: list[Fragment] = list(case.kernel.fragments(state))
    by_id = {each.id: (each.table, each.instance, each.deadline_us, each.utility, each.essential) for each in found}
    assert len(by_id) == len(found)
    return {int(id_): what for id_, what in by_id.items()}


def identities(case: KernelCase, state: State) -> set[tuple[Any, ...]]:
    """Table, instance and the identifying columns of every row of state."""
    found: set[tuple[Any, ...]] = set()
    for number, table in state.tables.items():
        columns = [table.instance, *case.kernel.identity(number, table)]
        plain = [listed(column) for column in columns]
        found.update((number, *map(repr, row)) for row in zip(*plain, strict=True))
    return found
