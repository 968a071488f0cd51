"""Costs of a profile: the simulation of an epoch takes as long as the profile's own model of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shoal.compiler.program import compile_graph
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.runtimes.measured.cost_fit import FittedCost
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.machine.hosts import Host
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.micro_batch.epoch_costs import EpochCosts, SmallEpochCosts
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork, SliceWork
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots
from shoal.runtimes.simulated.micro_batch.timeline import Bound, EpochPlayer
from shoal.runtimes.spark.epoch_fit import (
    DRIVER,
    LANE,
    READING,
    SMALL_DRIVER,
    SMALL_WORKER,
    WORKER,
    MeasuredEpoch,
    Work,
    modelled_s,
)

SLOTS, GROUPS = 2, 4
ROWS = Stream("rows", {"ts": "timestamp", "key": "int64"}, time="ts").partition_by("key", groups=GROUPS)
PROGRAM = compile_graph(Graph.of([ROWS.window(tumbling(1)).aggregate(n=count()).sink("counted")]))
FITS = {
    (READING, "rows"): FittedCost(fixed_s=0.004, event_s=4e-7),
    (LANE, 0): FittedCost(fixed_s=0.001, event_s=5e-9, result_s=1e-6, state_byte_s=1e-7),
    (WORKER, None): FittedCost(fixed_s=0.015, state_byte_s=6e-9),
    (DRIVER, None): FittedCost(fixed_s=0.2, event_s=0.02, result_s=1e-5),
    (SMALL_WORKER, None): FittedCost(fixed_s=0.003, state_byte_s=2e-9),
    (SMALL_DRIVER, None): FittedCost(fixed_s=0.1, result_s=2e-5),
}
COSTS = EpochCosts(
    {"rows": Cost(**FITS[READING, "rows"].data())},
    {0: Cost(**FITS[LANE, 0].data())},
    Cost(**FITS[WORKER, None].data()),
    Cost(**FITS[DRIVER, None].data()),
    between_s=0.0,
    slots=SLOTS,
    small=SmallEpochCosts(
        Cost(**FITS[SMALL_WORKER, None].data()), Cost(**FITS[SMALL_DRIVER, None].data()), 0.03, 2e6, 8e6
    ),
)
COUNTS = st.lists(st.integers(0, 10**6), min_size=GROUPS, max_size=GROUPS)


@pytest.mark.parametrize("small", [False, True], ids=["workers in tasks", "workers in the driver"])
@given(rows=st.lists(st.integers(1, 10**6), min_size=1, max_size=SLOTS), events=COUNTS, results=COUNTS, state=COUNTS)
def test_an_epoch_takes_as_long_as_the_profile_models_it(
    rows: list[int], events: list[int], results: list[int], state: list[int], *, small: bool
) -> None:
    slices = tuple(SliceWork("rows", number, np.zeros(GROUPS)) for number in rows)
    counts = np.array(events), np.array(results), np.array(state, float)
    work = EpochWork(slices, np.zeros(GROUPS), *counts, {"counted": sum(results)})
    slots, worker = ExecutorSlots(Machine((Host("one", SLOTS),), spark=True)), np.arange(GROUPS) % SLOTS
    bound = Bound(slots, worker, slots.homes(range(SLOTS)), np.full(GROUPS, -1), np.zeros(GROUPS))
    carried = work.carried_bytes

    def sums(here: NDArray[np.bool_]) -> tuple[int, int, int]:
        events, results, state_bytes = (int(each[here].sum()) for each in counts)
        return events, results, state_bytes

    pieces = [
        {
            0: Work(*sums(worker == number), 0.0),
            None: Work(0, 0, int(carried[worker == number].sum()), 0.0),
        }
        for number in range(SLOTS)
    ]
    reading = [("rows", Work(number, 0, 0, 0.0)) for number in rows]
    measured = MeasuredEpoch(sum(rows), sum(results), 0.0, 0.0, reading, [pieces], small)
    simulated_s = EpochPlayer(PROGRAM, COSTS).played(work, bound, 5.0, small=small).duration_s
    assert simulated_s == pytest.approx(modelled_s(measured, SLOTS, FITS))
