"""What tracing costs: processor time of the same flow with and without it, at a rate of rows."""

import time
from pathlib import Path
from statistics import median

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


def overhead(events: int = 2_000_000, rate: float = 1_000_000, pairs: int = 7) -> TrialOutcome:
    """Processor seconds of pairs of runs in turn, one traced and one not; their results must be equal."""
    spent: dict[bool, list[float]] = {True: [], False: []}
    digests: set[str] = set()
    records = rows = 0
    for at in range(2 * pairs + 2):
        traced = bool(at % 2)
        cpu_s, digest, taken, rows = _run(events, rate, traced)
        digests.add(digest)
        records = max(records, taken)
        if at > 1:  # the first of each kind also loads and compiles
            spent[traced].append(cpu_s)
    if len(digests) != 1:
        return TrialOutcome(failure="results with and without tracing differ")
    ratios = [on / off for on, off in zip(spent[True], spent[False], strict=True)]
    return TrialOutcome(
        metrics={
            "overhead_percent": 100 * (median(ratios) - 1),
            "traced_cpu_ns_per_row": median(spent[True]) / rows * 1e9,
            "untraced_cpu_ns_per_row": median(spent[False]) / rows * 1e9,
            "records": float(records),
            "call_ns": _call_ns(),
        },
        answers={"dear": digests.pop()},
    )


def _call_ns(calls: int = 100_000) -> float:
    """The processor time of one call that counts a block."""
    trace = Trace()
    before_ns = time.process_time_ns()
    for _ in range(calls):
        trace.rows(RECEIVED, "bid", 1)
    return (time.process_time_ns() - before_ns) / calls


def _run(events: int, rate: float, traced: bool) -> tuple[float, str, int, int]:
    """One flow of three nodes: the processor time from the first row to the last result."""
    file = read_declared(FILE.format(events=events), "tracing.yaml")
    neighbours = NeighbourNodes()
    for number in (1, 2, 3):
        setup = NodeSetup(number, "shoal-local", file, Path(), traced=traced)
        neighbours.nodes[number] = FlowNode(setup, neighbours)
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
    records = sum(len(node.trace.taken()) for node in neighbours.nodes.values())
    return cpu_s, sink.digests[OUT].text, records, subject.received
