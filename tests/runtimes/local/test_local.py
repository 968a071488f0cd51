"""The local runtime gives the results of the graph with any policy, workers and block size."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.naive import interpret
from tests.random_graphs import cases
from tests.runtimes.local.kinds import KINDS
from tests.runtimes.local.row_source import RowSource
from tests.runtimes.local.scribbling import scribbled
from tests.small_city import city, result_tables
from tests.test_random_graphs import canonical

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.source import BadFile, Slice, Source
from shoal.errors import ConfigError, RunError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.control.messages import AddQuery, CommandRefused, EpochCommitted, RunEnded
from shoal.model.query.aggregate import count
from shoal.model.query.functions import udf
from shoal.model.query.graph import Graph
from shoal.model.query.schema import Schema
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import round_robin, shuffled
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.runtimes.local.memory.blocks import MEMORIES, Sizes
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.local.scheduling.bound_pool import QUEUES
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import start

Row = Mapping[str, Any]
PLAIN = {"ts": "timestamp", "k": "int64"}


@dataclass(frozen=True)
class Choice:
    """How a graph is run: scheduling, memory and binding."""

    kind: str = "state-based"
    workers: int = 2
    sizes: Sizes = field(default_factory=Sizes)
    chained: bool = True
    fused: bool = False
    processor_nodes: int = 1
    at_once: int = 7
    seed: int = 0

    def setup(self, sources: Mapping[str, Source], sink: MemorySink) -> LocalSetup:
        bound = self.kind in QUEUES
        return LocalSetup(
            sources,
            sink,
            SCHEDULING["state-based" if bound else self.kind],
            self.sizes,
            self.chained,
            self.kind if bound else None,
            self.processor_nodes,
            self.fused,
        )


def choices() -> st.SearchStrategy[Choice]:
    """All of them; loops for steps are rare, as every graph has others and each has to be compiled."""
    small = st.integers(1, 3)
    sizes = st.builds(
        Sizes, st.integers(1, 8) | st.integers(1, 8192), small, small, st.sampled_from(MEMORIES), st.integers(1, 300)
    )
    return st.builds(
        Choice,
        st.sampled_from(sorted(KINDS)),
        small,
        sizes,
        st.booleans(),
        st.integers(0, 9).map(lambda n: n == 9),
        st.integers(1, 2),
        st.integers(1, 50),
        st.integers(0, 1 << 30),
    )


def results(graph: Graph, rows: Mapping[str, Sequence[Row]], choice: Choice) -> dict[str, Any]:
    """Result rows by table, times as microseconds."""
    sources = {}
    for stream, operator in graph.streams.items():
        time = operator.parameters["time"]
        ordered = sorted(rows[stream], key=lambda row: row[time])
        sources[stream] = RowSource(ordered, arrow_schema(Schema.of(operator.parameters["schema"])), choice.at_once)
    sink = MemorySink()
    runtime = LocalRuntime(choice.setup(sources, sink))
    with scribbled():
        runtime.start(graph, shuffled(graph, choice.workers, choice.seed))
    *_, ended = runtime.events()
    assert ended == RunEnded(None, at_s=ANY)
    return {name: sink.table(name).cast(_plain(sink.table(name).schema)).to_pylist() for name in sink.names()}


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def check(case: tuple[Graph, Mapping[str, Sequence[Row]]], choice: Choice) -> None:
    graph, rows = case
    got = results(graph, rows, choice)
    wanted = {table: canonical(each) for table, each in interpret(graph, rows).items() if each}
    assert {table: canonical(each) for table, each in got.items() if each} == wanted


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), choices())
def test_any_graph_has_the_results_it_would_have_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], choice: Choice
) -> None:
    check(case, choice)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), choices())
def test_five_hundred_graphs_have_the_results_they_would_have_row_by_row(
    case: tuple[Graph, Mapping[str, Sequence[Row]]], choice: Choice
) -> None:
    check(case, choice)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_workload_equals_its_oracle(kind: str, workers: int) -> None:
    ready = city()
    run = start(ready.job, on="local", workers=workers, local=LocalSettings(**KINDS[kind]))
    run.wait()
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_a_full_channel_holds_the_source_back() -> None:
    stream = Stream("s", PLAIN, time="ts")
    graph = Graph.of([stream.key_by("k").window(tumbling(1)).aggregate(n=count()).sink("counts")])
    rows = [{"ts": n * 1000, "k": n % 3} for n in range(5000)]
    random.Random(1).shuffle(rows)
    sizes = Sizes(block_rows=1, chunk_blocks=1, active_chunks=1)
    got = results(graph, {"s": rows}, Choice("round-robin", sizes=sizes))
    assert sum(row["n"] for row in got["counts"]) == 5000


def test_a_stopped_run_processes_everything_it_has_read() -> None:
    ready = city(events=None)
    run = start(ready.job, on="local", workers=2)
    run.wait(lambda run, event: run.stop() if run.consumed > 20_000 else None)
    assert run.consumed > 20_000
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def test_late_rows_and_files_that_cannot_be_read_are_dead_letters() -> None:
    @dataclass(frozen=True)
    class Troubled(RowSource):
        def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[Any]:
            yield BadFile("some/file", "it is no file")
            yield from super().read(piece, columns)

    rows = [{"ts": ts * 1_000_000, "k": 1} for ts in (5, 30, 2)]
    stream = Stream("s", PLAIN, time="ts")
    graph = Graph.of([stream.key_by("k").window(tumbling(10)).aggregate(n=count()).sink("counts")])
    sink = MemorySink()
    source = Troubled(rows, arrow_schema(Schema.of(PLAIN)), at_once=2)
    runtime = LocalRuntime(LocalSetup({"s": source}, sink, sizes=Sizes(block_rows=1, chunk_blocks=1, active_chunks=1)))
    runtime.start(graph, round_robin(graph, 1))
    refusals: Counter[str] = Counter()
    for event in runtime.events():
        refusals.update(event.refusals if isinstance(event, EpochCommitted) else {})
    assert refusals == {"file": 2, "late": 1}
    messages = {row["reason"]: row for row in sink.table("dead_letters").to_pylist()}
    assert messages["file"]["place"] == "some/file"
    assert "has closed all windows of this row" in messages["late"]["detail"]
    assert '"ts": "1970-01-01T00:00:02' in messages["late"]["row"]


def test_an_error_in_an_operator_ends_the_run_with_that_error() -> None:
    @udf("int64")
    def broken(k: Any) -> Any:
        raise ValueError("the user's own mistake")

    stream = Stream("s", PLAIN, time="ts")
    job = Job.of("j", [stream.select("ts", x=broken("k")).sink("t")], {"s": _some_rows()})
    with pytest.raises(RunError, match="query 't' failed: function 'broken' raised ValueError: the user's own mistake"):
        start(job, on="local").wait()


def test_commands_that_it_cannot_carry_out_are_refused() -> None:
    stream = Stream("s", PLAIN, time="ts")
    graph = Graph.of([stream.sink("t")])
    runtime = LocalRuntime(LocalSetup({"s": _some_rows()}, MemorySink()))
    runtime.start(graph, round_robin(graph, 1))
    command = AddQuery(stream.select("k").sink("u"))
    runtime.apply(command)
    refused = [event for event in runtime.events() if isinstance(event, CommandRefused)]
    assert refused == [CommandRefused(command, "the local runtime cannot AddQuery while it runs", at_s=ANY)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"checkpoint": "here"}, "keeps nothing for a restart", id="a checkpoint"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Mapping[str, Any], message: str) -> None:
    job = Job.of("j", [Stream("s", PLAIN, time="ts").sink("t")], {"s": _some_rows()})
    with pytest.raises(ConfigError, match=message):
        start(job, on="local", **options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"scheduling": "luck"}, "scheduling must be one of state-based, fcfs", id="an unknown policy"),
        pytest.param({"memory": "heap"}, "memory must be one of block, queue; got 'heap'", id="an unknown memory"),
        pytest.param({"queues": "two"}, "queues must be one of none, single-queue", id="an unknown design"),
        pytest.param({"rebinding": "blocking"}, "choose a mechanism instead: megaphone or all-at-once", id="of before"),
        pytest.param({"pinning": "all"}, "pinning must be one of none, node, core; got 'all'", id="an unknown pinning"),
        pytest.param({"block_rows": "0"}, "block_rows must be at least 1; got 0", id="no room"),
        pytest.param(
            {"sink_buffer_bytes": "0"}, "sink_buffer_bytes must be at least 1; got 0", id="no results may wait"
        ),
        pytest.param({"block_rows": "many"}, "block_rows must be a whole number; got 'many'", id="no number"),
        pytest.param({"chained": "yes"}, "chained must be true or false; got 'yes'", id="neither true nor false"),
        pytest.param({"wheels": "1"}, "has no setting 'wheels'; there are scheduling, memory", id="no such setting"),
        pytest.param({"scheduling": "threads", "queues": "node-queue"}, "leave queues or threads out", id="both"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalSettings.of(given)


def _some_rows() -> RowSource:
    schema = arrow_schema(Schema.of(PLAIN))
    return RowSource([{"ts": n, "k": n} for n in range(10)], schema)
