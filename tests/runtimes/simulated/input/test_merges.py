"""Merges: what lanes of a simulated run merge with their state, and when."""

from itertools import count

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.connectors.sources.generator import Generator
from shoal.kernels.columns.merge_bound import LEAST_ROWS, rows_that_may_wait
from shoal.policies.binding.static import round_robin
from shoal.runtimes.arrangement import Arrangement
from shoal.runtimes.simulated.delay.cost import Cost
from shoal.runtimes.simulated.input.real import RealInput
from shoal.runtimes.simulated.input.task_plan import Counts, TaskPlan
from shoal.runtimes.simulated.task_costs import TaskCosts
from shoal.session.job import Job

ROADS = 7


class Cars:
    """A car per millisecond, on one road after another."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        numbers = np.arange(start, stop)
        times = pa.array(numbers * 1000, pa.timestamp("us"))
        return pa.record_batch({"ts": times, "road": numbers % ROADS, "car": numbers})


def steps_of(
    rows: int, events: int, keys: str = "road", window_s: int = 1, groups: int = 1
) -> tuple[TaskPlan, list[Counts]]:
    """All steps of so many rows, up to the one that closes all windows."""
    stream = shoal.Stream("cars", {"ts": "timestamp", "road": "int64", "car": "int64"}, time="ts")
    parted = stream if groups == 1 else stream.partition_by(keys, groups=groups)
    query = parted.key_by(keys).window(shoal.tumbling(window_s)).aggregate(n=shoal.count()).sink("n")
    job = Job.of("cars", [query], {"cars": Generator(Cars(), events, rows_per_epoch=rows)})
    now = Arrangement(job.graph, round_robin(job.graph, 2))
    plan, clock, found = TaskPlan(now.program), count(), list[Counts]()
    read = RealInput(job.sources, lambda: float(next(clock)), block_rows=rows, step_s=0.1, parks=False)
    try:
        while not read.ended:
            step, _ = read.read(plan, 0, now)
            found += [] if step is None else [step]
    finally:
        read.close()
    return plan, found


@settings(max_examples=20, deadline=None)
@given(st.integers(150, 1500), st.integers(2000, 5000))
def test_a_lane_merges_all_rows_since_the_last_window_when_the_next_one_ends(rows: int, events: int) -> None:
    _, steps = steps_of(rows, events)
    waiting, last_s = 0, -1  # the first rows are merged at once: any window may have ended before them
    last = len(steps) - 2  # no rows follow, so that all windows end
    for number, step in enumerate(steps[:-1]):
        numbers = np.arange(number * rows, min((number + 1) * rows, events))
        waiting += len({(each // 1000, each % ROADS) for each in numbers.tolist()})
        now_s = int(numbers[-1]) // 1000
        assert step.merged is not None
        ends = now_s > last_s or number == last
        assert step.merged.rows.sum() == (waiting if ends else 0)
        waiting, last_s = (0 if ends else waiting), now_s
        assert (step.merged.events > 0).all() == ends
        assert (step.merged.pairs >= np.square(step.merged.rows)).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(600, 3000))
def test_a_worker_merges_before_a_window_ends_if_as_many_rows_wait_as_the_local_runtime_lets_wait(rows: int) -> None:
    events = 40_000
    plan, steps = steps_of(rows, events, keys="car", window_s=1000, groups=8)
    worker = np.arange(len(plan.instances)) % 2
    waiting, kept = np.zeros(2), np.zeros(2)
    for number, step in enumerate(steps[:-2]):
        assert step.merged is not None
        added = np.bincount(worker, step.events[plan.instance_tasks], 2)
        waiting += added
        may_wait = [max(rows_that_may_wait(int(each)), have) for each, have in zip(added, kept, strict=True)]
        merges = (waiting > may_wait) | (number == 0)  # any window may have ended before the first rows
        assert np.bincount(worker, step.merged.rows, 2).tolist() == np.where(merges, waiting, 0).tolist()
        kept, waiting = np.where(merges, kept + waiting, kept), np.where(merges, 0, waiting)
    assert (kept > LEAST_ROWS).all()


def test_new_rows_add_up_over_the_steps_of_a_turn_and_state_is_paid_once() -> None:
    class Merging:
        def stream(self, stream: str) -> Cost:
            return Cost(event_s=1e-6 * bool(stream))

        def lane(self, lane: object) -> Cost:
            return Cost(merged_row_s=1.0, merged_event_s=0.5, state_byte_s=10.0, pair_s=100.0) if lane else Cost()

    plan, steps = steps_of(1000, 3000)
    costs = TaskCosts(plan, Merging(), seed=0)  # type: ignore[arg-type]
    for step in steps:
        given_, merged = costs.step(step), step.merged
        assert merged is not None
        assert given_.once_s is not None
        instances = plan.instance_tasks
        assert given_.work_s[instances].sum() == float((merged.rows + merged.events / 2).sum())
        assert given_.once_s[instances].sum() == float((10 * merged.state_bytes + 100 * merged.pairs).sum())
