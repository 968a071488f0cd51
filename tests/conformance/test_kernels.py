"""Every kernel emits the oracle's results, for any split of its events and with moves of its state at any time."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import (
    EVENTS,
    INSTANCES,
    KernelCase,
    blocks_of,
    filled,
    listed,
    processed,
    resent,
    sent,
)
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE, RowTable, Tables
from shoal.kernels.count_window import CountWindowKernel
from shoal.kernels.geofence import GeofenceKernel
from shoal.kernels.join import JoinKernel
from shoal.kernels.kernel import FOREVER_US, NEVER_US, State
from shoal.kernels.pattern.match import MatchKernel
from shoal.kernels.spatial.range_match import RangeMatchKernel
from shoal.kernels.versions import VersionsKernel
from shoal.model.query.schema import TIME

every_kernel = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_kernel_also_with_nulls = pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
WORKERS = 2


@dataclass
class Workers:
    """Two workers that run one kernel between them, and whose instances move back and forth."""

    case: KernelCase
    states: list[State] = field(default_factory=list)
    home: list[int] = field(default_factory=lambda: [0] * INSTANCES)
    results: list[Result] = field(default_factory=list)
    watermark_us: int = NEVER_US

    def __post_init__(self) -> None:
        self.states = [self.case.kernel.open() for _ in range(WORKERS)]

    def process(self, events: Sequence[Event]) -> None:
        for worker, port, bound in self._spread(events):
            late = processed(self.case, self.states[worker], bound, port)
            assert not late.length

    def advance(self, events: Sequence[Event], watermark_us: int, draw: random.Random) -> None:
        """As lanes do: lift blocks where they are read, send them, and merge them as the watermark advances."""
        kernel = self.case.kernel
        fresh: list[list[Tables]] = [[] for _ in self.states]
        for worker, port, bound in self._spread(events):
            for block in blocks_of(bound, draw):
                rows = self.case.block(block)
                assert not kernel.late(port, rows, self.watermark_us).any()
                fresh[worker].append(resent(kernel.lift(port, rows)))
        for state, lifted in zip(self.states, fresh, strict=True):
            merged = kernel.merged(lifted) if lifted else {}
            tables, results = kernel.advance(state.tables, merged, self.watermark_us, watermark_us)
            state.tables, state.watermark_us = tables, watermark_us
            self._emitted(results)
        self.watermark_us = watermark_us

    def take_out(self, instance: int, draw: random.Random) -> Tables:
        """Extract some, all or none of an instance's fragments, as sent to another worker."""
        kernel, state = self.case.kernel, self.states[self.home[instance]]
        before = kernel.fragments(state)
        held = before.ids[before.instance == instance].tolist()
        chosen = draw.sample(held, draw.randint(0, len(held)))
        taken = kernel.extract(state, np.array(chosen, np.uint64))
        assert set(kernel.fragments(state).ids.tolist()) == set(before.ids.tolist()) - set(chosen)
        return resent(taken)

    def move(self, instance: int, target: int) -> None:
        """Move the remaining fragments of an instance to another worker."""
        kernel, source = self.case.kernel, self.states[self.home[instance]]
        fragments = kernel.fragments(source)
        rest = fragments.where(fragments.instance == instance)
        kernel.absorb(self.states[target], resent(kernel.extract(source, rest.ids)))
        self.home[instance] = target

    def put_in(self, instance: int, fragments: Tables) -> None:
        self.case.kernel.absorb(self.states[self.home[instance]], fragments)

    def close_until(self, watermark_us: int) -> None:
        for state in self.states:
            self._emitted(self.case.kernel.close_until(state, watermark_us))
        self.watermark_us = max(self.watermark_us, watermark_us)

    def _spread(self, events: Sequence[Event]) -> Iterator[tuple[int, int, list[Event]]]:
        for worker in range(WORKERS):
            for port in range(self.case.ports):
                yield (
                    worker,
                    port,
                    [event for event in events if self.home[event[INSTANCE]] == worker and event[PORT] == port],
                )

    def _emitted(self, results: Block) -> None:
        """The time of a result is at most `hold_us` behind the watermark before it."""
        kernel = self.case.kernel
        assert results.columns[TIME].min(initial=FOREVER_US) >= self.watermark_us - kernel.hold_us
        self.results += self.case.results(results)


def run(case: KernelCase, events: Sequence[Event], draw: random.Random) -> list[Result]:
    """All results, with a move at every cut and watermarks that make no row late."""
    workers = Workers(case)
    blocks = blocks_of(events, draw)
    for number, block in enumerate(blocks):
        instance = draw.randrange(INSTANCES)
        in_transit = workers.take_out(instance, draw)
        if draw.random() < 0.5:
            workers.move(instance, draw.randrange(WORKERS))
        remaining = [event["ts"] for later in blocks[number + 1 :] for event in later]
        mark = min(remaining) - draw.choice([0, 0, 1, 7, 100]) if remaining else workers.watermark_us
        if draw.random() < 0.5:
            workers.put_in(instance, in_transit)
            workers.advance(block, max(mark, workers.watermark_us), draw)
            continue
        if isinstance(case.kernel, JoinKernel):  # pairs rows on arrival, so all possible matches must be present
            workers.put_in(instance, in_transit)
            workers.process(block)
        else:
            workers.process(block)
            workers.put_in(instance, in_transit)
        workers.close_until(mark)
    workers.close_until(10**9)
    check_bounded(case, workers.states, events)
    workers.close_until(FOREVER_US)
    check_ended(case, workers.states)
    return workers.results


def check_bounded(case: KernelCase, states: Sequence[State], events: Sequence[Event]) -> None:
    """After a watermark past all events, only the state is left that each key needs to resume."""
    kernel = case.kernel
    left = [table for state in states for number, table in state.tables.items() if len(table) and number < 2]
    known = [table for state in states for number, table in state.tables.items() if len(table) and number == 2]
    if isinstance(kernel, CountWindowKernel):
        pieces = [row for table in left for row in rows_of(table, kernel.keys(0))]
        assert all(not len(state.tables.get(0, ())) for state in states)
        assert max(Counter(pieces).values(), default=0) <= kernel.measure.span**2
        assert sum(len(table) for table in known) == owners(kernel.keys(0), events)
    elif isinstance(kernel, MatchKernel) and kernel.previous_columns:
        assert not left
        assert sum(len(table) for table in known) == owners(kernel.keys(0), events)
    elif isinstance(kernel, VersionsKernel | RangeMatchKernel | GeofenceKernel):
        assert all(not len(state.tables.get(0, ())) for state in states)
        assert sum(len(table) for table in left) <= most_ranges(case, events)
    else:
        assert not left
        assert not known


def most_ranges(case: KernelCase, events: Sequence[Event]) -> float:
    """One version per key; ranges without an end, ends without a range, and half as many that are over."""
    kernel = case.kernel
    if isinstance(kernel, GeofenceKernel):
        return owners((*kernel.keys(0), kernel.fence), events)
    if isinstance(kernel, VersionsKernel):
        return owners(kernel.keys(0), events)
    ranges = [event for event in events if event[PORT] == 1]
    alike = (INSTANCE, *kernel.cells[1:], *kernel.ids, *kernel.life[:1])
    single = Counter(tuple(event[name] for name in alike) for event in ranges)
    return 1.5 * sum(number for number in single.values() if number == 1 or not kernel.life)


def check_ended(case: KernelCase, states: Sequence[State]) -> None:
    """After the last watermark there are no waiting rows and no open windows of time."""
    numbers = {number for state in states for number, table in state.tables.items() if len(table)}
    kernel = case.kernel
    if isinstance(kernel, CountWindowKernel):
        assert numbers <= ({2} if hasattr(kernel.window, "on") else {1, 2})
    else:
        known = {1} if isinstance(kernel, VersionsKernel | RangeMatchKernel | GeofenceKernel) else set()
        assert numbers <= ({2} if isinstance(kernel, MatchKernel) and kernel.previous_columns else known)


def owners(keys: Sequence[str], events: Sequence[Event]) -> int:
    return len({(event[INSTANCE], *(event[key] for key in keys)) for event in events})


def rows_of(table: RowTable, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = [table[name] for name in (INSTANCE, *keys)]
    return list(zip(*map(listed, columns), strict=True))


def arrivals(events: Sequence[Event], disorder: int, draw: random.Random) -> list[Event]:
    """Events roughly in the order of time."""
    return sorted(events, key=lambda event: event["ts"] + draw.randint(0, disorder))


@every_kernel_also_with_nulls
def test_results_are_the_oracles_with_state_moved_at_every_cut(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=25)
    @given(st.lists(EVENTS, max_size=30), st.integers(0, 40), st.integers(0, 2**32))
    def holds(events: list[Event], disorder: int, seed: int) -> None:
        draw = random.Random(seed)
        events = arrivals(case.bound(events), disorder, draw)
        assert case.disagreement(run(case, events, draw), case.oracle(events)) == ""

    holds()


@pytest.mark.slow
@every_kernel_also_with_nulls
def test_results_are_the_oracles_for_many_more_streams(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=250)
    @given(st.lists(EVENTS, max_size=80), st.integers(0, 80), st.integers(0, 2**32))
    def holds(events: list[Event], disorder: int, seed: int) -> None:
        draw = random.Random(seed)
        events = arrivals(case.bound(events), disorder, draw)
        assert case.disagreement(run(case, events, draw), case.oracle(events)) == ""

    holds()


@every_kernel_also_with_nulls
def test_results_do_not_depend_on_the_split(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, min_size=2, max_size=30), st.integers(0, 2**32))
    def holds(events: list[Event], seed: int) -> None:
        draw = random.Random(seed)
        events = case.bound(events)
        whole = run(case, events, draw)
        for _ in range(3):
            assert case.disagreement(run(case, draw.sample(events, len(events)), draw), whole) == ""

    holds()


@every_kernel
def test_an_empty_state_emits_nothing(case: KernelCase) -> None:
    kernel = case.kernel
    state = kernel.open()
    assert not any(processed(case, state, [], port).length for port in range(case.ports))
    assert not len(kernel.fragments(state))
    assert not kernel.extract(state, np.array([0, 1], np.uint64))
    assert not case.results(kernel.close_until(state, 0))
    assert not case.results(kernel.close_until(state, FOREVER_US))


@every_kernel_also_with_nulls
def test_a_table_survives_a_round_trip_unchanged(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, max_size=20), st.integers(-60, 60))
    def holds(events: list[Event], watermark_us: int) -> None:
        state = filled(case, events)
        case.kernel.close_until(state, watermark_us)
        for table in state.tables.values():
            arrived = sent(table)
            assert rows_in(arrived) == rows_in(table)
            assert arrived.instance.tolist() == table.instance.tolist()
            assert rows_in(sent(arrived)) == rows_in(arrived)

    holds()


def rows_in(table: Any) -> tuple[Any, str]:
    """The types and rows of a table; NaN is equal to itself."""
    batch = table.to_arrow()
    return batch.schema, repr(batch.to_pylist())


@every_kernel
def test_a_table_under_other_instances_is_otherwise_the_same(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=5)
    @given(st.lists(EVENTS, min_size=1, max_size=20))
    def holds(events: list[Event]) -> None:
        for table in filled(case, events).tables.values():
            moved = table.with_instances(table.instance + 7)
            assert moved.instance.tolist() == (table.instance + 7).tolist()
            assert moved.with_instances(table.instance).to_arrow().equals(table.to_arrow())
            assert table.where(np.ones(len(table), bool)) is table

    holds()


@every_kernel_also_with_nulls
def test_a_row_of_state_has_the_key_of_the_input_rows_it_came_from(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, max_size=20), st.lists(EVENTS, max_size=10), st.integers(-60, 60))
    def holds(first: list[Event], second: list[Event], watermark_us: int) -> None:
        kernel, events = case.kernel, case.bound([*first, *second])
        assert len({len(kernel.keys(port)) for port in range(case.ports)}) == 1
        early, late = events[: len(first)], events[len(first) :]
        state, _ = kernel.advance({}, lifted(case, early), NEVER_US, NEVER_US)
        assert owners_in(case, state) <= owners_of(case, early)
        assert owners_in(case, state) >= {owner for owner in owners_of(case, early) if not can_be_dropped(case, owner)}
        state, _ = kernel.advance(state, lifted(case, late), NEVER_US, watermark_us)
        assert owners_in(case, state) <= owners_of(case, events)

    holds()


def can_be_dropped(case: KernelCase, owner: tuple[Any, ...]) -> bool:
    """Whether rows of a key can be dropped at once: those of a null key, or of a null in the band, match nothing."""
    return isinstance(case.kernel, JoinKernel) and (None in owner or case.kernel.band is not None)


def lifted(case: KernelCase, events: Sequence[Event]) -> Tables:
    ports = [[event for event in events if event[PORT] == port] for port in range(case.ports)]
    tables = [case.kernel.lift(port, case.block(rows)) for port, rows in enumerate(ports) if rows]
    return case.kernel.merged(tables) if tables else {}


def owners_of(case: KernelCase, events: Sequence[Event]) -> set[tuple[Any, ...]]:
    """The instance and the key of every event."""
    return {(event[INSTANCE], *(event[key] for key in case.kernel.keys(event[PORT]))) for event in events}


def owners_in(case: KernelCase, tables: Tables) -> set[tuple[Any, ...]]:
    """The instance and the key of every row of state."""
    found: set[tuple[Any, ...]] = set()
    for number, table in tables.items():
        columns = [table.instance, *case.kernel.table_keys(number, table)]
        found.update(zip(*map(listed, columns), strict=True))
    return found


@every_kernel
def test_fragments_have_the_instance_and_the_deadline_of_their_rows(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=10)
    @given(st.lists(EVENTS, min_size=1, max_size=20))
    def holds(events: list[Event]) -> None:
        kernel = case.kernel
        state = filled(case, events)
        fragments = kernel.fragments(state)
        assert set(fragments.instance.tolist()) == {event[INSTANCE] for event in case.bound(events)}
        assert (np.isfinite(fragments.utility) & (fragments.utility >= 0)).all()
        deadlines = [fragment.deadline_us for fragment in fragments]
        if isinstance(kernel, CountWindowKernel):  # a row does not determine which row closes its window
            assert set(deadlines) == {None}
            return
        last_due = max((each for each in deadlines if each is not None), default=0)
        kernel.close_until(state, last_due - 1)
        assert len(kernel.fragments(state)) or isinstance(kernel, MatchKernel)  # a match may fail before its deadline
        kernel.close_until(state, last_due)
        assert all((fragment.deadline_us or FOREVER_US) > last_due for fragment in kernel.fragments(state))

    holds()
