"""Reading tasks ask sources for times only as exactly as queries see them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Slice
from shoal.language.python.stream import Stream
from shoal.model.control.shedding import ShedRange, ShedRule, StreamShedding
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.schema import not_null
from shoal.model.query.window import tumbling
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


TEXTS = Stream("texts", not_null({"ts": "timestamp", "kind": "string"}), time="ts")
COUNTS = TEXTS.key_by("kind").window(tumbling(60)).aggregate(n=count()).sink("counts")


@pytest.mark.parametrize(
    ("kinds", "newest_s", "refused"),
    [
        pytest.param([b"a", b"b", b"a"], 59, {}, id="all rows get in"),
        pytest.param([b"a", b"\xff", b"a"], 7, {"type": 1}, id="the newest row is refused"),
        pytest.param([b"\xff", b"b", b"a"], 59, {"type": 1}, id="another row is refused"),
    ],
)
def test_a_refused_text_does_not_move_the_watermark(
    tmp_path: Path, kinds: list[bytes], newest_s: int, refused: dict[str, int]
) -> None:
    rows = {"ts": times([3, 59, 7]), "kind": pa.array(kinds).view(pa.string())}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    compiled, files = compile_graph(Graph.of([COUNTS])), Files(str(tmp_path), follow=False)
    cursor = files.cursor(str(tmp_path / "log"))
    [piece] = cursor.slices(files.start(), cursor.latest(files.start()), 1)
    plan = EpochPlan(
        epoch=0,
        graph="",
        workers=1,
        binding=(0,) * len(compiled.instances),
        watermarks_us={},
        states=(),
        now_us=10**18,
    )
    slice_pass = SlicePass(compiled, plan, TEXTS.name, files, piece)
    assert slice_pass.wanted().coarse is not None
    found = slice_pass.gathered()
    assert (found.newest_us, dict(found.refused), found.read) == (newest_s * 1_000_000, refused, 3)


def times(seconds: list[int]) -> pa.Array:
    return pa.array([each * 1_000_000 for each in seconds], pa.timestamp("us"))
