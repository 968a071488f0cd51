"""Back-pressure: a sink that does not take results stops the sources, and nothing else has to wait for it."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.random_graphs import cases
from tests.runtimes.local.controlled import Controlled, Row, Rows, is_ready, plain, sources_of
from tests.runtimes.local.kinds import KINDS
from tests.test_random_graphs import canonical

from shoal.connectors.sinks import MemorySink
from shoal.language.python.stream import Stream
from shoal.mechanisms.catalog import LOSSY
from shoal.model.control.messages import Rebind, RunEnded
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.dataflow.delivery import Delivery
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.executor import MECHANISMS
from shoal.runtimes.local.runtime import LocalRuntime
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.job import Job
from shoal.session.run import Run, start

PATIENCE_S = 60.0
ROWS = 3_000
AT_ONCE = 50
CAPACITY = 64
BUFFER_BYTES = 1024
MOST_READ = 600
"""Far more than buffer, channels and one turn of each node hold, and far less than there is."""


@dataclass
class HeldSink(MemorySink):
    """Takes nothing before it is released."""

    entered: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def write(self, table: str, epoch: int, rows: pa.Table) -> None:
        self.entered.set()
        assert self.released.wait(PATIENCE_S)
        super().write(table, epoch, rows)


def graph_and_rows() -> tuple[Graph, dict[str, list[Row]]]:
    stream = Stream("s", {"ts": "timestamp", "k": "int64"}, time="ts")
    counted = stream.key_by("k").window(tumbling(1)).aggregate(n=count()).sink("counts")
    rows: list[Row] = [{"ts": n * 10_000, "k": n % 7} for n in range(ROWS)]
    return Graph.of([stream.sink("all"), counted]), {"s": rows}


@dataclass
class HeldRun:
    """A run whose sink is held, with the events that the session has got."""

    run: Run
    sink: HeldSink
    graph: Graph
    rows: Rows

    @classmethod
    def of(cls, kind: str, **options: Any) -> "HeldRun":
        graph, rows = graph_and_rows()
        sink = HeldSink()
        local = LocalSettings(
            **KINDS[kind],
            block_rows=CAPACITY,
            chunk_blocks=1,
            active_chunks=1,
            fused=False,
            most_workers=4,
            sink_buffer_bytes=BUFFER_BYTES,
        )
        sources = {name: replace(source, at_once=AT_ONCE) for name, source in sources_of(graph, rows).items()}
        job = Job("held", graph, sources)
        held = cls(start(job, on="local", workers=2, sink=sink, local=local, **options), sink, graph, rows)
        assert sink.entered.wait(PATIENCE_S)
        held.settle()
        return held

    @property
    def runtime(self) -> LocalRuntime:
        assert isinstance(self.run.runtime, LocalRuntime)
        return self.run.runtime

    def settle(self) -> None:
        """Wait until no node runs, and none can."""
        pool, buffer = self.runtime.pool, self.runtime.nodes[0].results.buffer
        with pool.changed:
            assert pool.changed.wait_for(lambda: buffer.full and not any(pool.running), PATIENCE_S)
        assert not any(node.ready for node in self.runtime.nodes)

    def end(self) -> None:
        """Release the sink and wait for the end of the run."""
        self.sink.released.set()
        self.run.wait()

    def assert_right(self) -> None:
        got = {name: canonical(plain(self.sink.table(name).to_pylist())) for name in self.sink.names()}
        assert got == {table: canonical(each) for table, each in interpret(self.graph, self.rows).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_that_takes_nothing_stops_the_source_until_it_does(kind: str) -> None:
    held = HeldRun.of(kind)
    read = held.run.consumed
    assert 0 < read < MOST_READ
    held.settle()
    assert held.run.consumed == read
    assert all(node.pending <= 2 * CAPACITY for node in held.runtime.nodes)
    held.end()
    assert held.run.consumed == ROWS
    held.assert_right()


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name not in LOSSY])
def test_instances_move_and_workers_come_and_go_though_the_sink_takes_nothing(mechanism: str) -> None:
    held = HeldRun.of("worker-queue", mechanism=mechanism)
    for number, workers in enumerate((4, 1, 3)):
        held.run.runtime.apply(Rebind(shuffled(held.graph, workers, number), id=f"rebinding {number}"))
        held.settle()
    assert held.run.consumed < MOST_READ
    held.end()
    held.assert_right()
    assert {event.rebind for event in held.run.finished} == {f"rebinding {number}" for number in range(3)}


@pytest.mark.parametrize("kind", ["state-based", "threads", "worker-queue"])
def test_a_run_that_is_stopped_while_its_sink_takes_nothing_reads_no_more(kind: str) -> None:
    held = HeldRun.of(kind)
    read = held.run.consumed
    held.run.stop()
    held.end()
    assert read <= held.run.consumed < MOST_READ + 2 * CAPACITY
    everything = held.sink.table("all").num_rows
    assert everything == held.run.consumed


@pytest.mark.parametrize("kind", ["state-based", "threads", "worker-queue"])
def test_a_sink_that_fails_while_results_wait_ends_the_run_and_all_its_threads(kind: str) -> None:
    before = set(threading.enumerate())
    held = HeldRun.of(kind)
    held.sink.write = _failing  # type: ignore[method-assign]
    held.sink.released.set()
    with pytest.raises(OSError, match="disk full"):
        held.run.wait()
    assert set(threading.enumerate()) == before


def _failing(table: str, epoch: int, rows: pa.Table) -> None:
    raise OSError("disk full")


class Backlogged(Controlled):
    """A controlled run with a small buffer, whose sink is asked at random, and when nothing else can go on."""

    def __init__(self, graph: Graph, rows: Rows, workers: int, sizes: Sizes, buffer_bytes: int) -> None:
        super().__init__(graph, rows, workers, sizes)
        self.delivery = Delivery(self.nodes, self.sink, buffer_bytes)
        self.buffer = self.nodes[0].results.buffer
        self.counted = Counter[str]()

    def run(
        self,
        draw: random.Random,
        share: float,
        act: Callable[[random.Random], None] | None = None,
        lazy: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        moves = 100
        while (ready := [node for node in self.nodes if is_ready(node)]) or self.buffer.full:
            assert not (ready and self.buffer.full)
            if not ready or draw.random() < share:
                self.counted["full"] += self.buffer.full
                self.delivery.deliver()
            elif moves and draw.random() < 0.2:
                self.pursue(draw)
                moves -= 1
            else:
                draw.choice(ready).turn(draw.choice([1, 2, 5, 100]))
                self.check()
        while not self.delivery.done:
            self.delivery.deliver()
        self.end()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 3), st.integers(1, 600), st.integers(0, 1 << 30))
def test_any_graph_has_its_results_with_any_buffer_and_a_sink_of_any_speed(
    case: tuple[Graph, Rows], workers: int, buffer_bytes: int, seed: int
) -> None:
    graph, rows = case
    run = Backlogged(graph, rows, workers, Sizes(block_rows=3, chunk_blocks=2, active_chunks=2), buffer_bytes)
    run.run(random.Random(seed), share=0.05)
    run.assert_right(rows)


def test_a_small_buffer_is_often_full_and_no_row_is_lost() -> None:
    graph, rows = graph_and_rows()
    few = {"s": rows["s"][:500]}
    run = Backlogged(graph, few, 2, Sizes(block_rows=3, chunk_blocks=2, active_chunks=2), buffer_bytes=200)
    run.run(random.Random(1), share=0.01)
    run.assert_right(few)
    assert run.counted["full"] > 10


def test_the_end_of_a_run_is_reported_once_the_sink_has_everything() -> None:
    held = HeldRun.of("state-based")
    held.sink.released.set()
    *_, ended = held.run.runtime.events()
    assert isinstance(ended, RunEnded)
    assert ended.error is None
    held.assert_right()
