"""Timelines of epochs: every part has its time, and a lost executor costs what it did."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.compiler.program import Program, compile_graph
from shoal.errors import RunError
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import HUB, Machine
from shoal.runtimes.simulated.micro_batch.epoch_costs import LOAD_BYTE_S, EpochCosts
from shoal.runtimes.simulated.micro_batch.epoch_work import EpochWork, SliceWork
from shoal.runtimes.simulated.micro_batch.executor_slots import ExecutorSlots
from shoal.runtimes.simulated.micro_batch.timeline import Bound, EpochPlayer, Timeline

GROUPS = 4


def program(*, deep: bool = False) -> Program:
    """A count by key in four instances; `deep`: and another one behind it."""
    rows = Stream("rows", {"ts": "timestamp", "key": "int64"}, time="ts").partition_by("key", groups=GROUPS)
    counted = rows.window(tumbling(1)).aggregate(n=count())
    if deep:
        counted = counted.partition_by("n", groups=GROUPS).window(tumbling(2)).aggregate(m=count())
    return compile_graph(Graph.of([counted.sink("counted")]))


COSTS = EpochCosts(
    reading={"rows": Cost(fixed_s=1.0, event_s=0.1)},
    lanes={0: Cost(fixed_s=0.5, event_s=0.01), 1: Cost(fixed_s=0.5)},
    worker=Cost(fixed_s=2.0),
    driver=Cost(fixed_s=3.0, event_s=0.001, result_s=0.01),
    between_s=0.0,
    slots=100,
)


def cluster(*outages: Outage, executors: int = 2, slots: int = 1, bytes_per_s: float = 100.0) -> Machine:
    hosts = tuple(Host(f"e{number}", slots) for number in range(executors))
    ends = [pair for host in hosts for pair in ((host.name, HUB), (HUB, host.name))]
    return Machine(hosts, tuple(Link(*pair, bytes_per_s, 0.0, 1000, 0) for pair in ends), outages, spark=True)


def work(*rows: int, sent: float = 0.0, events: int = 0, results: int = 0, instances: int = GROUPS) -> EpochWork:
    """Reading tasks with so many rows each, and every instance with as many events."""
    slices = tuple(SliceWork("rows", number, np.full(instances, sent)) for number in rows)
    each = np.full(instances, events)
    return EpochWork(slices, np.zeros(instances), each, np.zeros_like(each), np.zeros(instances), {"counted": results})


def bound(machine: Machine, *workers: int, source: int = -1, moving: float = 0.0) -> Bound:
    """Instances on workers, and workers on the executors of their cores; state of the first instance may move."""
    home = ExecutorSlots(machine).homes(range(max(workers) + 1))
    sources, sizes = np.full(len(workers), -1), np.zeros(len(workers))
    sources[0], sizes[0] = source, moving
    return Bound(ExecutorSlots(machine), np.array(workers), home, sources, sizes)


def played(machine: Machine, epoch: EpochWork, at: Bound, *, deep: bool = False) -> Timeline:
    return EpochPlayer(program(deep=deep), COSTS).played(epoch, at, 10.0)


def test_an_epoch_reads_exchanges_works_and_commits() -> None:
    machine = cluster()
    times = played(machine, work(10, 20, sent=100.0, events=50, results=7), bound(machine, 0, 0, 1, 1))
    assert times.read_s == pytest.approx(10 + 1 + 0.1 * 20)
    # each executor sends 200 bytes to the other; two instances of 50 events on each worker
    assert times.rounds_s[0] == pytest.approx(times.read_s + 2 + 2 + 0.5 + 2 * 50 * 0.01)
    assert times.commit_s == pytest.approx(times.rounds_s[0] + 3 + 4 * 0.001 + 7 * 0.01)
    assert times.busy_s.tolist() == pytest.approx([3.5, 3.5])


def test_the_worker_with_the_most_to_do_decides() -> None:
    machine = cluster()
    even, skewed = (played(machine, work(1, events=50), bound(machine, *each)) for each in ((0, 0, 1, 1), (0, 0, 0, 1)))
    assert skewed.duration_s - even.duration_s == pytest.approx(50 * 0.01)


def test_a_chain_of_operators_has_a_round_for_each() -> None:
    machine, size = cluster(), 2 * GROUPS
    times = played(machine, work(1, instances=size), bound(machine, *([0, 1] * GROUPS)), deep=True)
    assert len(times.rounds_s) == 2
    assert times.rounds_s[1] - times.rounds_s[0] == pytest.approx(2.5)


def test_moved_state_crosses_links_and_is_loaded_before_the_epoch() -> None:
    machine = cluster()
    still = played(machine, work(1), bound(machine, 0, 0, 1, 1))
    moving = played(machine, work(1), bound(machine, 0, 0, 1, 1, source=1, moving=500.0))
    assert moving.duration_s - still.duration_s == pytest.approx(5 + 500 * LOAD_BYTE_S)
    assert moving.loading_s.tolist() == pytest.approx([500 * LOAD_BYTE_S, 0.0])


def test_more_slots_read_faster_but_no_faster_than_the_longest_task() -> None:
    epoch, times = work(*([10] * 8)), []
    for executors in (1, 2, 4, 8, 16):
        machine = cluster(executors=executors)
        times.append(played(machine, epoch, bound(machine, 0, 0, 0, 0)).read_s - 10)
    assert times == pytest.approx([16.0, 8.0, 4.0, 2.0, 2.0])


def test_an_executor_that_fails_has_its_tasks_run_again_on_the_others() -> None:
    whole, broken = cluster(executors=3), cluster(Outage(11.0, "e1"), executors=3)
    epoch, workers = work(10, 10, 10), (0, 0, 1, 2)
    usual = played(whole, epoch, bound(whole, *workers))
    times = played(broken, epoch, bound(broken, *workers))
    assert usual.read_s == 12.0
    assert times.read_s == 12.0 + 2.0  # behind the tasks of the others
    assert times.lost == {1}


def test_a_failure_before_the_end_of_the_last_stage_repeats_what_was_read() -> None:
    broken = cluster(Outage(13.0, "e1"))
    times = played(broken, work(10, 10), bound(broken, 0, 0, 1, 1))
    # read until 12, at work until 14.5; then a reading task and a worker's task again, in the slot that is left
    assert times.rounds_s[0] == pytest.approx(14.5 + 2 + 2.5)


def test_an_outage_after_the_last_stage_costs_nothing() -> None:
    whole, broken = cluster(), cluster(Outage(14.6, "e1"))
    assert played(broken, work(10, 10), bound(broken, 0, 0, 1, 1)).commit_s == pytest.approx(
        played(whole, work(10, 10), bound(whole, 0, 0, 1, 1)).commit_s
    )


def test_a_run_ends_if_every_executor_fails_within_an_epoch() -> None:
    broken = cluster(Outage(10.5, "e0"), Outage(11.0, "e1"))
    with pytest.raises(RunError, match="every executor has failed within one epoch"):
        played(broken, work(10, 10), bound(broken, 0, 0, 1, 1))


def test_the_time_per_task_is_shared_by_slots_down_to_what_a_launch_takes() -> None:
    costs = replace(COSTS, driver=Cost(event_s=0.01), slots=2)
    assert costs.driver_s(4, 0, 2) == pytest.approx(0.04)
    assert costs.driver_s(8, 0, 4) == pytest.approx(0.04)
    assert costs.driver_s(4000, 0, 2000) == pytest.approx(4000 * 0.0005)
