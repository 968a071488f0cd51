import pytest
from tests.small_city import city

from shoal.errors import GraphError
from shoal.model.query.graph import Graph
from shoal.session.job import Job


def test_a_job_without_queries_is_refused() -> None:
    with pytest.raises(GraphError, match="job 'empty' has no queries"):
        Job("empty", Graph({}), {})


def test_a_job_without_a_source_for_a_stream_is_refused() -> None:
    graph = city().job.graph
    with pytest.raises(GraphError, match="job 'j' has no source for stream vehicles; there are sources for ships"):
        Job("j", graph, {"ships": object()})


def test_a_job_merges_its_queries() -> None:
    job = city().job
    assert Job.of("again", job.graph.queries.values(), job.sources).graph.digest == job.graph.digest
