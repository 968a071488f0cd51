"""Reading tasks ask sources for times only as exactly as queries see them."""

import pytest

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Slice
from shoal.model.control.shedding import ShedRange, ShedRule, StreamShedding
from shoal.model.query.graph import Graph
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import source
from shoal.runtimes.spark.tasks.source import ShoalStreamReader, SourceFeed
from shoal.workloads.ysb.events import YsbEvents
from shoal.workloads.ysb.queries import STREAM, query

EVENTS = YsbEvents(ads=10, campaigns=2)
NOTHING = StreamShedding()
"""What plans say of every stream while nothing is shed."""
SOME = StreamShedding(ranges=(ShedRange(0, 10**18, ShedRule("random", 0.5)),))


@pytest.mark.parametrize(
    ("shedding", "code", "coarse"),
    [
        pytest.param({}, "", True, id="no word of shedding"),
        pytest.param({STREAM: NOTHING}, "", True, id="nothing is shed"),
        pytest.param({STREAM: SOME}, "", False, id="some rows are shed, by their times"),
        pytest.param({STREAM: NOTHING}, "a digest", False, id="user code may fail on a row and show it"),
    ],
)
def test_times_are_coarse_unless_a_row_matters(
    shedding: dict[str, StreamShedding], code: str, coarse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "told_code", lambda: code)
    compiled = compile_graph(Graph.of([query(EVENTS.campaign_of_ad(), 2)]))
    reader = ShoalStreamReader(SourceFeed(STREAM, Generator(EVENTS, 10), "unused", 2))
    plan = EpochPlan(
        epoch=0, graph="", workers=1, binding=(), watermarks_us={}, states=(), now_us=10**18, shedding=shedding
    )
    wanted = reader._wanted(compiled, plan, Slice("all", 10, {}))
    assert (wanted.coarse is not None) == coarse
