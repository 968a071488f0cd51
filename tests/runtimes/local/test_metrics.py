"""Metrics: Flink's names, and numbers that agree with each other and with the results."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.end_to_end.test_workloads import SMALL
from tests.runtimes.local.kinds import KINDS
from tests.runtimes.local.row_source import RowSource
from tests.small_city import city, result_tables

from shoal.kernels.columns.block import Block, arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.query.aggregate import count
from shoal.model.query.schema import Schema
from shoal.model.query.window import tumbling
from shoal.runtimes.local.dataflow.channel import Channel, Stamp
from shoal.runtimes.local.dataflow.node import EMPTY, Node, OutletNode, StepNode
from shoal.runtimes.local.memory.blocks import ChunkAllocator, Pool, Sizes
from shoal.runtimes.local.metrics import WINDOW_S, Metrics, _rates
from shoal.runtimes.local.runtime import LocalRuntime
from shoal.runtimes.local.scheduling.thread_per_node import ThreadPerNode
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.workload import Ready

NAMES = {
    "name",
    "numRecordsIn",
    "numRecordsOut",
    "numRecordsInPerSecond",
    "numRecordsOutPerSecond",
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "currentInputWatermark",
    "numLateRecordsDropped",
    "inputQueueLength",
    "outPoolUsage",
    "stateSize",
}
SHARES = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond")


def finished(ready: Ready, kind: str, **settings: Any) -> tuple[Run, list[Node], list[dict[str, Any]]]:
    run = start(ready.job, on="local", workers=2, local=LocalSettings(**KINDS[kind], **settings))
    run.wait()
    assert isinstance(run.runtime, LocalRuntime)
    return run, run.runtime.nodes, run.metrics()


def assert_that_nothing_is_lost(nodes: list[Node], metrics: list[dict[str, Any]]) -> None:
    """The input of nodes is the output of those upstream: all of it, or a part each where lanes are divided."""
    writer = {id(channel): index for index, node in enumerate(nodes) for channel in node.outputs}
    readers: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        if node.inputs:
            readers[tuple(writer[id(channel)] for channel in node.inputs)].append(index)
    assert readers
    for before, indices in readers.items():
        given_ = sum(metrics[index]["numRecordsOut"] for index in before)
        taken = [metrics[index]["numRecordsIn"] for index in indices]
        if {nodes[index].name for index in before} == {"split"}:
            assert sum(taken) == given_
        else:
            assert taken == [given_] * len(indices)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_node_takes_in_is_what_those_before_it_gave(kind: str) -> None:
    run, nodes, metrics = finished(city(), kind, block_rows=300)
    assert_that_nothing_is_lost(nodes, metrics)
    of_sources = [entry for node, entry in zip(nodes, metrics, strict=True) if node.is_source]
    assert sum(entry["numRecordsIn"] for entry in of_sources) == run.consumed == 9_000
    rows: dict[str, int] = defaultdict(int)
    for node, entry in zip(nodes, metrics, strict=True):
        assert set(entry) == (NAMES | {"latency"} if isinstance(node, OutletNode) else NAMES)
        assert (entry["name"], entry["inputQueueLength"], entry["outPoolUsage"]) == (node.name, 0, 0.0)
        if isinstance(node, OutletNode):
            rows[node.outlet.table] += entry["numRecordsOut"]
            assert node.transit.total > 0  # markers have reached the sink
            assert list(entry["latency"]) == ["mean", "p50", "p95", "p99", "max"]
    assert rows == {name: table.num_rows for name, table in result_tables(run).items()}


@pytest.mark.parametrize("name", ["linear-road", "nexmark", "mixed"])
@pytest.mark.parametrize("kind", ["state-based", "worker-queue"])
def test_the_same_holds_where_flows_fork_and_join(name: str, kind: str) -> None:
    _, nodes, metrics = finished(SMALL[name].ready(0), kind)
    assert_that_nothing_is_lost(nodes, metrics)


def test_rows_that_come_too_late_are_counted_where_they_are_dropped() -> None:
    plain = {"ts": "timestamp", "k": "int64"}
    rows = [{"ts": ts * 1_000_000, "k": 1} for ts in (5, 30, 2, 31, 3)]
    query = Stream("s", plain, time="ts").key_by("k").window(tumbling(10)).aggregate(n=count()).sink("counts")
    job = Job.of("j", [query], {"s": RowSource(rows, arrow_schema(Schema.of(plain)), at_once=1)})
    one_by_one = LocalSettings(block_rows=1, chunk_blocks=1, active_chunks=1)
    run = start(job, on="local", workers=1, local=one_by_one)
    run.wait()
    late = {entry["name"]: entry["numLateRecordsDropped"] for entry in run.metrics() if entry["numLateRecordsDropped"]}
    assert late == {"lane 0": 2}
    assert run.tally.refusals == {"late": 2}


COUNTERS = st.tuples(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 20), st.floats(0, 20))


@given(st.floats(0.5, 10), COUNTERS)
def test_a_node_is_busy_held_back_or_idle(span_s: float, counters: tuple[float, float, float, float]) -> None:
    rates = _rates((100.0, 0.0, 0.0, 0.0, 0.0), (100.0 + span_s, *counters))
    assert all(0.0 <= rates[name] <= 1000.0 for name in SHARES)
    assert sum(rates[name] for name in SHARES) == pytest.approx(1000.0, abs=0.2)
    assert rates["busyTimeMsPerSecond"] == pytest.approx(min(1000.0, 1000 * counters[2] / span_s), abs=0.1)


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def monotonic(self) -> float:
        return self.now_s


class Watched:
    """Two nodes, the first of which is blocked by the second, on a manual clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr("shoal.runtimes.local.metrics.time", self.clock)
        sizes, allocator = Sizes(4, 1, 2), ChunkAllocator()
        first, second = (Channel(sizes, Pool(sizes, allocator)) for _ in range(2))
        allocator.close()
        self.before, self.behind = StepNode([], first), StepNode([], second)
        self.before.outputs.append(second)
        self.pool: WorkerPool = ThreadPerNode([self.before, self.behind])
        self.metrics = Metrics([self.before, self.behind], self.pool)

    def fill(self) -> None:
        self.before.outputs[0].write(Block({"n": np.arange(8)}, 8), Stamp(0, 0.0))
        assert self.before.blocked

    def pass_(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.metrics.sample()


def test_rates_are_those_of_the_last_second(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    before, pool = watched.before, watched.pool
    assert [watched.metrics.data()[0][name] for name in SHARES] == [0.0, 0.0, 1000.0]
    before.consumed, before.produced, pool.busy_s[0] = 1_000, 500, 0.5
    watched.pass_(WINDOW_S / 2)
    assert watched.metrics.data()[0]["numRecordsInPerSecond"] == 0.0  # the second is not over
    watched.fill()
    watched.pass_(0.3)
    assert watched.before.outputs[0].read(100) is not None
    watched.pass_(0.2)
    entry, other = watched.metrics.data()
    assert (entry["numRecordsInPerSecond"], entry["numRecordsOutPerSecond"]) == (1000.0, 500.0)
    assert [entry[name] for name in SHARES] == [500.0, 300.0, 200.0]
    assert [other[name] for name in SHARES] == [0.0, 0.0, 1000.0]
    watched.pass_(WINDOW_S)
    assert [watched.metrics.data()[0][name] for name in SHARES] == [0.0, 0.0, 1000.0]


def test_a_node_that_runs_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.fill()
    watched.pool.running[0] = True
    watched.pool.busy_s[0] = 0.25
    watched.pass_(WINDOW_S)
    assert [watched.metrics.data()[0][name] for name in SHARES] == [250.0, 0.0, 750.0]


def test_queues_and_pools_are_as_full_as_their_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    watched.before.outputs[0].write(Block({"n": np.arange(6)}, 6), Stamp(5_000, 0.0))
    entry, other = watched.metrics.data()
    assert (entry["inputQueueLength"], entry["outPoolUsage"]) == (0, 0.75)
    assert (other["inputQueueLength"], other["outPoolUsage"]) == (6, 0.0)
    watched.behind.turn(100)
    watched.behind.inputs[0].write(EMPTY, Stamp(7_000, 0.0))
    watched.behind.turn(100)
    assert watched.metrics.data()[1]["currentInputWatermark"] == 7
    assert watched.metrics.data()[1]["numRecordsIn"] == 6
