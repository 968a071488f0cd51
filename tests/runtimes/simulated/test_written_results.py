"""Results of simulated runs: what counts as one."""

import pytest

from shoal.connectors.sinks import MemorySink
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount


@pytest.mark.parametrize(("name", "events"), [("skew", 1500), ("nexmark", 5000), ("linear-road", 5000)])
def test_only_rows_that_reach_a_sink_are_results_and_each_has_a_latency(name: str, events: int) -> None:
    job, sink = workload(name).ready(0, Amount(events), {}).job, MemorySink()
    run = start(job, on="simulated", workers=2, sink=sink, conf={"topology": "cores:2"})
    tally = run.wait()
    tables = {query.table for query in job.graph.queries.values()}
    assert tally.results == sum(sink.table(table).num_rows for table in tables) == tally.latency.total
