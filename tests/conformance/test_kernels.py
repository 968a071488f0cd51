"""Every kernel gives the oracle's answers, however its events are cut and whenever its state moves."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernels import CASES, EVENTS, INSTANCES, Answer, Event, KernelCase

from shoal.kernels.aggregate import AggregateKernel, PaneState
from shoal.kernels.kernel import FOREVER_US
from shoal.kernels.panes import PaneTable
from shoal.kernels.table import INSTANCE
from shoal.model.fragment import FragmentId

every_kernel = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
WORKERS = 2


@dataclass
class Workers:
    """Two workers that run one kernel between them, and whose instances move back and forth."""

    case: KernelCase
    states: list[PaneState] = field(default_factory=list)
    home: list[int] = field(default_factory=lambda: [0] * INSTANCES)
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = [self.case.kernel.open() for _ in range(WORKERS)]

    def process(self, events: Sequence[Event]) -> None:
        for worker, state in enumerate(self.states):
            bound = [event for event in events if self.home[event[INSTANCE]] == worker]
            late = self.case.kernel.process(state, self.case.block(bound))
            assert not late.length

    def take_out(self, instance: int, draw: random.Random) -> PaneTable:
        """Some, all or none of an instance's fragments, as they are on their way to another worker."""
        kernel, state = self.case.kernel, self.states[self.home[instance]]
        held = [fragment.id for fragment in kernel.fragments(state) if fragment.instance == instance]
        chosen = set(draw.sample(held, draw.randint(0, len(held))))
        taken = kernel.extract(state, chosen)
        assert len(taken) == len(chosen)
        assert not chosen & {fragment.id for fragment in kernel.fragments(state)}
        return on_the_wire(taken)

    def move(self, instance: int, target: int) -> None:
        """All that is left of an instance goes to another worker."""
        kernel, source = self.case.kernel, self.states[self.home[instance]]
        rest = [fragment.id for fragment in kernel.fragments(source) if fragment.instance == instance]
        kernel.absorb(self.states[target], on_the_wire(kernel.extract(source, rest)))
        self.home[instance] = target

    def put_in(self, instance: int, fragments: PaneTable) -> None:
        self.case.kernel.absorb(self.states[self.home[instance]], fragments)

    def close_until(self, watermark_us: int) -> None:
        for state in self.states:
            self.answers += self.case.answers(self.case.kernel.close_until(state, watermark_us))


def on_the_wire(table: PaneTable) -> PaneTable:
    """A table after a journey through Arrow's stream format."""
    sink = pa.BufferOutputStream()
    batch = table.to_arrow()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return PaneTable.from_arrow(reader.read_next_batch())


def blocks_of(events: Sequence[Event], draw: random.Random) -> list[Sequence[Event]]:
    """Events cut at random, with an empty block here and there."""
    cuts = sorted(draw.randint(0, len(events)) for _ in range(draw.randint(0, 5)))
    return [events[start:end] for start, end in pairwise([0, *cuts, len(events)])]


def run(case: KernelCase, events: Sequence[Event], draw: random.Random) -> list[Answer]:
    """All answers, with a move at every cut and watermarks that make nothing late."""
    workers = Workers(case)
    blocks = blocks_of(events, draw)
    for number, block in enumerate(blocks):
        instance = draw.randrange(INSTANCES)
        travelling = workers.take_out(instance, draw)
        if draw.random() < 0.5:
            workers.move(instance, draw.randrange(WORKERS))
        workers.process(block)
        workers.put_in(instance, travelling)
        still_to_come = [event["ts"] for later in blocks[number + 1 :] for event in later]
        if still_to_come:
            workers.close_until(min(still_to_come) - draw.choice([0, 0, 1, 7, 100]))
    workers.close_until(FOREVER_US)
    assert all(not len(state.table) for state in workers.states)
    return workers.answers


def bound(case: KernelCase, events: Sequence[Event]) -> list[Event]:
    """Events with the instance that the case says, roughly in order of time."""
    return [{**event, INSTANCE: case.instance_of(event)} for event in events]


def arrivals(events: Sequence[Event], disorder: int, draw: random.Random) -> list[Event]:
    return sorted(events, key=lambda event: event["ts"] + draw.randint(0, disorder))


@every_kernel
def test_answers_are_the_oracles_with_state_moved_at_every_cut(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=25)
    @given(st.lists(EVENTS, max_size=30), st.integers(0, 40), st.integers(0, 2**32))
    def holds(events: list[Event], disorder: int, seed: int) -> None:
        draw = random.Random(seed)
        events = arrivals(bound(case, events), disorder, draw)
        assert sorted(run(case, events, draw)) == sorted(case.oracle(events))

    holds()


@pytest.mark.slow
@every_kernel
def test_answers_are_the_oracles_for_many_more_streams(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=250)
    @given(st.lists(EVENTS, max_size=80), st.integers(0, 80), st.integers(0, 2**32))
    def holds(events: list[Event], disorder: int, seed: int) -> None:
        draw = random.Random(seed)
        events = arrivals(bound(case, events), disorder, draw)
        assert sorted(run(case, events, draw)) == sorted(case.oracle(events))

    holds()


@every_kernel
def test_answers_do_not_depend_on_the_split(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, min_size=2, max_size=30), st.integers(0, 2**32))
    def holds(events: list[Event], seed: int) -> None:
        draw = random.Random(seed)
        events = bound(case, events)
        whole = sorted(run(case, events, draw))
        assert all(sorted(run(case, draw.sample(events, len(events)), draw)) == whole for _ in range(3))

    holds()


@every_kernel
def test_an_untouched_state_answers_nothing(case: KernelCase) -> None:
    kernel = case.kernel
    state = kernel.open()
    assert not kernel.process(state, case.block([])).length
    assert not kernel.fragments(state)
    assert not len(kernel.extract(state, [FragmentId("[0,0]")]))
    assert not case.answers(kernel.close_until(state, 0))
    assert not case.answers(kernel.close_until(state, FOREVER_US))


@every_kernel
def test_a_table_survives_its_journey_as_it_was(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, max_size=20))
    def holds(events: list[Event]) -> None:
        state = filled(case.kernel, case, events)
        arrived = on_the_wire(state.table)
        names = ["instance", "pane"]
        assert arrived.to_arrow().equals(state.table.to_arrow())
        assert all(getattr(arrived, name).tolist() == getattr(state.table, name).tolist() for name in names)
        twice = on_the_wire(arrived)
        assert twice.to_arrow().equals(arrived.to_arrow())

    holds()


def filled(kernel: AggregateKernel, case: KernelCase, events: Sequence[Event]) -> PaneState:
    state = kernel.open()
    kernel.process(state, case.block(bound(case, events)))
    return state


@every_kernel
def test_fragments_tell_whose_they_are_and_when_they_are_due(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, min_size=1, max_size=20))
    def holds(events: list[Event]) -> None:
        kernel = case.kernel
        state = filled(kernel, case, events)
        fragments = kernel.fragments(state)
        assert len({fragment.id for fragment in fragments}) == len(fragments) == len(state.table)
        assert {fragment.instance for fragment in fragments} == {case.instance_of(event) for event in events}
        assert sum(fragment.utility for fragment in fragments) == len(events)
        last_due = max(fragment.deadline_us or 0 for fragment in fragments)
        kernel.close_until(state, last_due - 1)
        assert kernel.fragments(state)
        kernel.close_until(state, last_due)
        assert not kernel.fragments(state)

    holds()
