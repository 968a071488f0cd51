"""Small epochs: which ones the driver finishes itself, by the epoch before and by what a profile says."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.compiler.program import compile_graph
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import Aggregate, count, user_aggregate
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.machine.hosts import Host, Link
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.micro_batch.epoch_costs import SmallEpochCosts
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork, SliceWork
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots
from shoal.runtimes.simulated.micro_batch.small_epochs import SmallEpochs, has_small_epochs
from shoal.runtimes.simulated.micro_batch.timeline import Bound, Timeline
from shoal.workloads.skew.median import MedianBound

COSTS = SmallEpochCosts(Cost(), Cost(), most_s=0.03, most_sent_bytes=1000, most_state_bytes=5000)
ONE = Machine((Host("e0", 2),), spark=True)
TWO = Machine(
    (Host("e0", 2), Host("e1", 2)),
    tuple(Link(*ends, 1e9, 0.0, 1000, 0) for ends in (("e0", "e1"), ("e1", "e0"))),
    spark=True,
)
SLOTS = ExecutorSlots(ONE)
WORKERS = np.array([0, 1])
BOUND = Bound(SLOTS, WORKERS, SLOTS.homes([0, 1]), np.full(2, -1), np.array([100.0, 100.0]))


def work(sent_bytes: float) -> EpochWork:
    """An epoch that sends so many bytes to each of two instances."""
    none = np.zeros(2, np.int64)
    return EpochWork((SliceWork("rows", 10, np.full(2, sent_bytes)),), np.zeros(2), none, none, np.zeros(2))


def took(busy_s: float) -> Timeline:
    """An epoch in which both workers together were busy for a time."""
    each = np.full(2, busy_s / 2)
    return Timeline(0.0, 0.0, 0.0, (0.1,), 0.1, each, np.zeros(2), 0.0, frozenset())


def after(busy_s: float, sent_bytes: float) -> SmallEpochs:
    """What is known after one epoch."""
    found = SmallEpochs()
    found.learn(work(sent_bytes), took(busy_s))
    return found


def test_the_first_epoch_is_not_small() -> None:
    assert not SmallEpochs().includes(work(1), BOUND, COSTS, moves=False)


def test_an_epoch_is_small_after_one_with_little_to_do() -> None:
    assert after(0.03, 500).includes(work(500), BOUND, COSTS, moves=False)


@pytest.mark.parametrize(
    ("busy_s", "before_bytes", "now_bytes"),
    [
        pytest.param(0.031, 500, 500, id="workers were busy for too long"),
        pytest.param(0.03, 501, 500, id="too many bytes were sent before"),
        pytest.param(0.03, 500, 1001, id="more than twice as many bytes as allowed are sent now"),
    ],
)
def test_an_epoch_with_much_to_do_is_not_small(busy_s: float, before_bytes: float, now_bytes: float) -> None:
    assert not after(busy_s, before_bytes).includes(work(now_bytes), BOUND, COSTS, moves=False)


def test_an_epoch_with_much_state_or_with_moves_is_not_small() -> None:
    large = replace(BOUND, held_bytes=np.array([5000.0, 1.0]))
    assert not after(0.01, 100).includes(work(100), large, COSTS, moves=False)
    assert not after(0.01, 100).includes(work(100), BOUND, COSTS, moves=True)


@pytest.mark.parametrize(
    ("machine", "aggregate", "expected"),
    [
        pytest.param(ONE, count(), True, id="one machine"),
        pytest.param(TWO, count(), False, id="executors on other machines"),
        pytest.param(ONE, user_aggregate(MedianBound, "key", "int64"), False, id="code of the user"),
    ],
)
def test_only_one_machine_without_code_of_the_user_has_small_epochs(
    machine: Machine, aggregate: Aggregate, expected: bool
) -> None:
    rows = Stream("rows", {"ts": "timestamp", "key": "int64"}, time="ts").partition_by("key", groups=2)
    program = compile_graph(Graph.of([rows.window(tumbling(1)).aggregate(n=aggregate).sink("counted")]))
    assert has_small_epochs(machine, program) is expected
