"""Reading tasks ask sources for times only as exactly as queries see them."""

import pytest

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Slice
from shoal.model.control.shedding import ShedRange, ShedRule, StreamShedding
from shoal.model.query.graph import Graph
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks.slice_pass import SlicePass
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
def test_times_are_coarse_unless_a_row_matters(shedding: dict[str, StreamShedding], code: str, coarse: bool) -> None:
    compiled = compile_graph(Graph.of([query(EVENTS.campaign_of_ad(), 2)]))
    plan = EpochPlan(
        epoch=0, graph="", workers=1, binding=(), watermarks_us={}, states=(), now_us=10**18, shedding=shedding
    )
    wanted = SlicePass(compiled, plan, STREAM, Generator(EVENTS, 10), Slice("all", 10, {}), code).wanted()
    assert (wanted.coarse is not None) == coarse
