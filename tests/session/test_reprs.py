"""What Python shows of queries, jobs, runs and results fits on a line, however many queries there are."""

import pytest
from tests.small_city import city

from shoal import MemorySink, start
from shoal.policies.binding.static import STATIC


@pytest.mark.parametrize("subject", ["job", "graph", "query", "operator", "run", "sink", "binding"])
def test_the_repr_of_a_large_thing_is_short(subject: str) -> None:
    job = city().job
    assert len(job.graph.queries) > 10
    query = next(iter(job.graph.queries.values()))
    run = start(job, on="reference")
    run.wait()
    things = {
        "job": job,
        "graph": job.graph,
        "query": query,
        "operator": query.operators[-1],
        "run": run,
        "sink": run.sink,
        "binding": STATIC["round-robin"](job.graph, 4),
    }
    assert 10 < len(repr(things[subject])) < 250


def test_the_repr_of_a_sink_names_its_tables() -> None:
    assert repr(MemorySink()) == "MemorySink(no tables)"
