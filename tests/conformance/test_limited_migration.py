"""A migration by lazy-utility with a capacity loses exactly what its selection leaves out, with every kernel."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.interruptions import Change, Step, replayed, stepped
from tests.conformance.kernel_case import EVENTS, KernelCase, processed
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import Event, Result

from shoal.kernels.kernel import State
from shoal.mechanisms.catalog import mechanism_with
from shoal.mechanisms.plan import StepKind
from shoal.mechanisms.shedding.selection import SELECTIONS
from shoal.mechanisms.transfer import SharedCapacity, Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.fragment import Fragments
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.relocation import Relocation, Shipment

STREAMS = st.lists(EVENTS, min_size=1, max_size=25)


def limited(case: KernelCase, here: State, selection: str, capacity: int) -> tuple[Relocation, Fragments]:
    """A migration that drops what exceeds a capacity; also returns all fragments."""
    every = case.kernel.fragments(here)
    shared = SharedCapacity(capacity, drops=True)
    transfer = Transfer(InstanceId("op/0"), WorkerId(0), WorkerId(1), fragments=every, capacity=shared)
    plan = mechanism_with("lazy-utility", selection).plan([transfer], LinkCosts())
    return Relocation(case.kernel, here, plan.batches), every


def moved(
    case: KernelCase, steps: Sequence[Step], first: int, selection: str, share: float, draw: random.Random
) -> tuple[list[Result], Relocation, Fragments, int, int]:
    """Results of a run that moves at a step; its capacity, and the step at which it stopped at the source."""
    here, found = case.kernel.open(), list[Result]()
    moving, every, capacity, stopped = None, Fragments.none(), 0, -1
    under_way: list[Shipment] = []
    for number, step in enumerate(steps):
        if number == first:
            capacity = int(share * case.kernel.fragments(here).total_bytes)
            moving, every = limited(case, here, selection, capacity)
        last = number == len(steps) - 1
        while moving is not None and not moving.finished and (last or number == first or draw.random() < 0.7):
            shipment = moving.leave()
            if shipment is not None:
                stopped = number if shipment.batch and StepKind.PAUSE in shipment.batch.kinds else stopped
                under_way.append(shipment)
            if under_way and (last or draw.random() < 0.6):
                found += case.results(moving.arrive(under_way.pop(0)))
            elif number == first and stopped == first:
                break
        if step.events:
            if moving is None:
                processed(case, here, step.events, step.port)
            else:
                assert not moving.rows(step.port, case.block(step.events)).length
        else:
            at_us = step.watermark_us
            emitted = case.kernel.close_until(here, at_us) if moving is None else moving.advance(at_us)
            found += case.results(emitted)
    assert moving is not None
    return found, moving, every, capacity, stopped


@pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
def test_what_exceeds_the_capacity_is_lost_and_nothing_else(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=2)
    @given(STREAMS, st.sampled_from(sorted(SELECTIONS)), st.floats(0, 1.1), st.integers(0, 2**32))
    def holds(events: list[Event], selection: str, share: float, seed: int) -> None:
        draw = random.Random(seed)
        steps = stepped(case, events, draw)
        first = draw.randint(0, len(steps) - 1)
        found, moving, every, capacity, stopped = moved(case, steps, first, selection, share, draw)
        chosen = SELECTIONS[selection].choose(every.utility, every.state_bytes, capacity).mask
        lost = moving.loss.lost
        assert set(lost.ids.tolist()) == set(every.ids[~chosen].tolist())
        assert every.total_bytes - lost.total_bytes <= capacity
        report = moving.loss.lost_state(case.kernel, [""] * 99)
        if report is None:
            assert chosen.all()
        else:
            assert (report.fragments, report.state_bytes) == (len(lost), lost.total_bytes)
            rows = sum(case.kernel.input_rows(number, table) for number, table in moving.loss.tables.items())
            assert report.rows == rows
        assert case.disagreement(found, replayed(case, steps, [Change(stopped, lost.ids, {})])) == ""

    holds()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.floats(0, 1), st.booleans())
def test_the_optimal_choice_keeps_at_least_the_greedy_one_and_that_more_than_chance(
    seed: int, share: float, equal: bool
) -> None:
    draw = np.random.default_rng(seed)
    utility, sizes = draw.random(40), np.full(40, 50) if equal else draw.integers(1, 500, 40)
    capacity = int(share * sizes.sum())
    kept = {name: float(utility[each.choose(utility, sizes, capacity).mask].sum()) for name, each in SELECTIONS.items()}
    assert kept["optimal"] >= kept["greedy"]
    if equal:
        assert kept["optimal"] == pytest.approx(kept["greedy"])
        assert kept["greedy"] >= kept["random"]


def test_the_greedy_choice_keeps_more_than_chance_on_average() -> None:
    kept = {name: list[float]() for name in SELECTIONS}
    for seed in range(20):
        draw = np.random.default_rng(seed)
        utility, sizes = draw.random(40), draw.integers(1, 500, 40)
        for name, each in SELECTIONS.items():
            kept[name].append(float(utility[each.choose(utility, sizes, int(sizes.sum()) // 3).mask].sum()))
    mean = {name: np.mean(values) for name, values in kept.items()}
    assert mean["optimal"] >= mean["greedy"] > 1.2 * mean["random"]
