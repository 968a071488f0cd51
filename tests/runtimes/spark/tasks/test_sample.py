"""Instances that are advanced alone: nothing changes, the right ones are taken, and their times tell the truth."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from shoal.compiler.lane import Lane
from shoal.compiler.program import Program, compile_graph
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE, Ints, Tables
from shoal.kernels.join import JoinKernel
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count, mean
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, Query
from shoal.model.query.window import hop
from shoal.runtimes.spark.driver.instance_costs import Costs
from shoal.runtimes.spark.tasks.reports import Report, lane_report
from shoal.runtimes.spark.tasks.sample import ALONE_S, LEAST_S, MOST, SHARE, Advanced, Sampler

GROUPS = 12
SECOND_US = 1_000_000
COLUMNS = {"ts": "timestamp", "key": "int64", "x": "float64"}


def joined() -> Query:
    """A join that rejects most pairs, so that its time does not show in its results."""
    left, right = Stream("left", COLUMNS, time="ts"), Stream("right", {**COLUMNS, "y": "float64"}, time="ts")
    return left.join(right, on="key", within_s=(-60, 60), where=col("y") > 0.98, groups=GROUPS).sink("pairs")


def averaged() -> Query:
    stream = Stream("left", COLUMNS, time="ts").partition_by("key", groups=GROUPS)
    return stream.window(hop(20, 5)).aggregate(n=count(), x=mean("x")).sink("averages")


def only_lane(query: Query) -> tuple[Program, Lane]:
    program = compile_graph(Graph.of([query]))
    (lane,) = (lane for lane in program.lanes if lane.kernel)
    return program, lane


@dataclass
class Feed:
    """Skewed events for every input of a lane, an epoch of five seconds after another."""

    lane: Lane
    rows: int = 400
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def fresh(self, epoch: int) -> Tables:
        assert self.lane.kernel is not None
        share = 1 / np.arange(1, GROUPS + 1)
        found: Tables = {}
        for port in sorted({feed.port for feed in self.lane.feeds}):
            instance = self.random.choice(GROUPS, self.rows, p=share / share.sum())
            times = np.sort(self.random.integers(0, 5 * SECOND_US, self.rows)) + epoch * 5 * SECOND_US
            values = self.random.random(self.rows)
            columns = {INSTANCE: instance, "ts": times, "key": instance, "x": values, "y": values}
            found |= self.lane.kernel.lift(port, Block(columns, self.rows))
        return found

    def marks_us(self, epoch: int) -> tuple[int, int]:
        return (epoch - 1) * 5 * SECOND_US, epoch * 5 * SECOND_US


def rows_of(tables: Tables) -> Ints:
    return sum((np.bincount(t.instance, minlength=GROUPS) for t in tables.values()), np.zeros(GROUPS, np.int64))


def texts(done: Advanced) -> tuple[list[str], list[str]]:
    """State and results as sorted texts, since their order means nothing."""
    state = [f"{n} {row}" for n, table in done.tables.items() for row in table.to_arrow().to_pylist()]
    names = sorted(done.results.columns)
    columns = [np.asarray(done.results.columns[name]).tolist() for name in names]
    return sorted(state), sorted(map(str, zip(*columns, strict=True))) if done.results.length else []


@pytest.mark.parametrize("query", [pytest.param(joined, id="a join"), pytest.param(averaged, id="sliding averages")])
@pytest.mark.parametrize("alone", [[0], [3, 0, 7], list(range(GROUPS))], ids=["one", "three", "all"])
def test_advancing_instances_alone_changes_nothing(query: Callable[[], Query], alone: list[int]) -> None:
    _, lane = only_lane(query())
    feed, sampler = Feed(lane), Sampler()
    state: Tables = {}
    emitted = 0
    for epoch in range(6):
        fresh, marks_us = feed.fresh(epoch), feed.marks_us(epoch)
        usual = sampler.advanced(lane, state, fresh, marks_us, [])
        apart = sampler.advanced(lane, state, fresh, marks_us, alone)
        assert texts(apart) == texts(usual)
        assert list(apart.alone_s) == alone
        state, emitted = apart.tables, emitted + apart.results.length
    assert emitted > 0


def test_a_lane_that_is_quick_or_unknown_is_not_taken_apart() -> None:
    _, lane = only_lane(joined())
    sampler, work = Sampler(), np.full(GROUPS, 100)
    assert sampler.chosen("graph", lane, work, 1) == []
    sampler.learn("graph", lane, work, LEAST_S * 0.9)
    assert sampler.chosen("graph", lane, work, 2) == []
    sampler.learn("graph", lane, work, LEAST_S * 1.1)
    assert sampler.chosen("graph", lane, work, 3) != []
    assert sampler.chosen("another graph", lane, work, 3) == []


def test_taking_apart_costs_a_small_part_of_the_time() -> None:
    _, lane = only_lane(joined())
    sampler, work = Sampler(), np.full(GROUPS, 100)
    for spent_s in (0.03, 0.04, 10.0):
        sampler.learn("graph", lane, work, spent_s)
        number = len(sampler.chosen("graph", lane, work, 1))
        assert 0 < number <= min(MOST, GROUPS)
        assert number * ALONE_S <= SHARE * spent_s


def test_the_heavy_and_the_long_unmeasured_come_first_and_everybody_comes() -> None:
    _, lane = only_lane(joined())
    sampler, work = Sampler(), np.array([1000, *[10] * (GROUPS - 1)])
    taken = []
    for epoch in range(200):
        sampler.learn("graph", lane, work, LEAST_S * 1.1)
        taken.append(sampler.chosen("graph", lane, work, epoch))
    assert 0 in taken[0]
    assert {number for numbers in taken for number in numbers} == set(range(GROUPS))
    times = [sum(number in numbers for numbers in taken) for number in range(GROUPS)]
    assert times[0] > 2 * max(times[1:])


class PairClock:
    """A clock that advances with every pair that a join tests."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, state: Tables, fresh: Tables) -> Ints:
        """What each instance costs; returns pairs."""
        came, there = rows_of(fresh), rows_of(state)
        pairs: Ints = came * (came + there)
        self.now_s += int(pairs.sum()) * 1e-6 + (ALONE_S if pairs.any() else 0.0)
        return pairs


def test_a_skewed_joins_time_is_divided_by_what_its_instances_really_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """By rows, a third of the time would be put down to instances that did not take it."""
    clock, advance = PairClock(), JoinKernel.advance

    def timed(kernel: JoinKernel, state: Tables, fresh: Tables, before_us: int, after_us: int) -> tuple[Tables, Block]:
        clock.pass_by(state, fresh)
        return advance(kernel, state, fresh, before_us, after_us)

    monkeypatch.setattr(JoinKernel, "advance", timed)
    program, lane = only_lane(joined())
    feed, sampler, costs = Feed(lane), Sampler(clock), Costs()
    state: Tables = {}
    wrong_by_samples, wrong_by_rows = 1.0, 0.0
    for epoch in range(14):
        fresh = feed.fresh(epoch)
        work = rows_of(fresh) + rows_of(state)
        real = (rows_of(fresh) * work).astype(float)
        alone = sampler.chosen("graph", lane, work, epoch)
        done = sampler.advanced(lane, state, fresh, feed.marks_us(epoch), alone)
        spent_s = done.merged_s + sum(done.alone_s.values())
        sampler.learn("graph", lane, work, spent_s)
        state = done.tables
        rows, nothing = rows_of(fresh) + rows_of(state), np.zeros(GROUPS, np.int64)
        reported = lane_report(
            events=rows_of(fresh),
            rows=rows,
            results=nothing,
            state_bytes=nothing,
            carried_bytes=nothing,
            advancing_s=spent_s,
            emitting_s=0.0,
            alone_s=done.alone_s,
        )
        report = Report(worker=0, executor="", cost_s=spent_s, load_s=0.0, lanes={lane.number: reported})
        loads = costs.loads(program, [report])
        found = np.array([loads[instance].cost_s for instance in lane.instances])
        assert found.sum() == pytest.approx(spent_s, rel=1e-6)
        wrong_by_samples, wrong_by_rows = misplaced(found, real), misplaced(rows, real)
    assert wrong_by_rows > 0.25
    assert wrong_by_samples < 0.05


def misplaced(reported: np.ndarray, real: np.ndarray) -> float:
    """The part of the time that is put down to the wrong instance."""
    return float(np.abs(reported / reported.sum() - real / real.sum()).sum() / 2)
