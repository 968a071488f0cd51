"""What tracing costs: processor time of the same flow with and without it, at a rate of rows.

Two numbers say it. `overhead_percent` compares runs: the median over pairs, with the interval that it lies in. Its
noise is that of threads which wait for each other. `calls_percent` has no such noise: the calls of a run, times what
one call takes, as a share of the processor time of a run.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from measures.pairs import in_pairs, overhead_percent
from shoal.experiments.coordination.node_link import NeighbourNodes
from shoal.experiments.coordination.nodes.flow_node import FlowNode, NodeSetup
from shoal.experiments.coordination.nodes.node_tasks import FINISH, perform
from shoal.experiments.coordination.nodes.node_trace import RECEIVED, Trace
from shoal.experiments.experiment import TrialOutcome
from shoal.experiments.language.experiment_file import read_declared

BID, OUT, DATASET, QUERY = 3, 4, 1, 1
FILE = """
stream-definitions:
- {{stream-id: 3, name: bid, tuple-format: [{{name: ts, type: timestamp}}, {{name: auction, type: long}},
  {{name: bidder, type: long}}, {{name: price, type: long}}]}}
- {{stream-id: 4, name: dear, tuple-format: [{{name: auction, type: long}}, {{name: price, type: long}}]}}
datasets: [{{id: 1, generator: nexmark, events: {events}}}]
spequeries: [{{id: 1, name: dear, output-stream-id: 4, sql-query: {{
  shoal: "select auction, price from bid where price > 5000"}}}}]
experiments: []
"""


def overhead(events: int = 500_000, rate: float = 1_000_000, pairs: int = 7) -> TrialOutcome:
    """Processor seconds of pairs of runs, one traced and one not, in turns; their results must be equal."""
    digests: set[str] = set()

    def run(traced: bool) -> Mapping[str, float]:
        cpu_s, digest, records, calls, rows = _run(events, rate, traced)
        digests.add(digest)
        return {"cpu_s": cpu_s, "records": records, "calls": calls, "rows": rows}

    on, off = in_pairs(run, pairs)
    if len(digests) != 1:
        return TrialOutcome(failure="results with and without tracing differ")
    traced_s, untraced_s = [one["cpu_s"] for one in on], [one["cpu_s"] for one in off]
    overhead = overhead_percent("overhead", traced_s, untraced_s)
    rows, calls, call_ns = on[0]["rows"], max(one["calls"] for one in on), _call_ns()
    return TrialOutcome(
        metrics={
            "overhead_percent": overhead["overhead.percent"],
            "overhead_percent.low": overhead["overhead.low"],
            "overhead_percent.high": overhead["overhead.high"],
            "calls_percent": 100 * calls * call_ns / (median(untraced_s) * 1e9),
            "traced_cpu_ns_per_row": median(traced_s) / rows * 1e9,
            "untraced_cpu_ns_per_row": median(untraced_s) / rows * 1e9,
            "calls": calls,
            "call_ns": call_ns,
            "records": max(one["records"] for one in on),
        },
        answers={"dear": digests.pop()},
    )


class CountedTrace(Trace):
    """A trace that knows how often it was called."""

    calls = 0

    def rows(self, point: int, stream: str, rows: int) -> None:
        """Count the call, and the rows."""
        self.calls += 1
        super().rows(point, stream, rows)


def _call_ns(calls: int = 100_000) -> float:
    """The processor time of one call that counts a block."""
    trace = Trace()
    before_ns = time.process_time_ns()
    for _ in range(calls):
        trace.rows(RECEIVED, "bid", 1)
    return (time.process_time_ns() - before_ns) / calls


def _run(events: int, rate: float, traced: bool) -> tuple[float, str, int, int, int]:
    """One flow of three nodes: the processor time from the first row to the last result, and what was traced."""
    file = read_declared(FILE.format(events=events), "tracing.yaml")
    neighbours = NeighbourNodes()
    for number in (1, 2, 3):
        setup = NodeSetup(number, "shoal-local", file, Path(), traced=traced)
        neighbours.nodes[number] = FlowNode(setup, neighbours)
        neighbours.nodes[number].trace = CountedTrace(on=traced)
    source, subject, sink = neighbours.nodes.values()
    source.dataset(DATASET)
    perform(source, "addNextHop", ((BID,), (2,)))
    perform(subject, "addNextHop", ((OUT,), (3,)))
    perform(subject, "deployQueries", (QUERY, 1))
    perform(subject, "startRuntimeEnv", ())
    before_s = time.process_time()
    perform(source, "sendDsAsConstantStream", (DATASET, rate))
    perform(subject, FINISH, ())
    cpu_s = time.process_time() - before_s
    for node in neighbours.nodes.values():
        node.close()
    traces = [node.trace for node in neighbours.nodes.values()]
    records = sum(len(trace.taken()) for trace in traces)
    calls = sum(trace.calls for trace in traces if isinstance(trace, CountedTrace))
    return cpu_s, sink.digests[OUT].text, records, calls, subject.received
