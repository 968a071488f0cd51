"""Early passes are used only where they are what the pass would be, byte for byte."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.small_city import city, city_events

from shoal.compiler.program import Program, compile_graph
from shoal.connectors.sources.files import Files
from shoal.connectors.sources.source import ForesightedCursor, Slice
from shoal.model.control.partitioning import DECLARED
from shoal.model.control.shedding import ShedRange, ShedRule, StreamShedding
from shoal.model.query.graph import Graph
from shoal.runtimes.spark.ahead.early_pass import digest, early, is_foreseeable, packed, unpacked
from shoal.runtimes.spark.state.checkpoint import EpochPlan, Goal
from shoal.runtimes.spark.tasks.slice_pass import SlicePass
from shoal.workloads.traffic.queries import STREAM as CITY
from shoal.workloads.ysb.events import YsbEvents
from shoal.workloads.ysb.queries import STREAM as ADS
from shoal.workloads.ysb.queries import query

NOW_US = 4 * 10**18
YSB = YsbEvents(ads=10, campaigns=2)
SOME = StreamShedding(ranges=(ShedRange(0, 10**18, ShedRule("random", 0.5)),))


def slices(directory: Path, batch: Any) -> tuple[Files, list[Slice]]:
    """A file of six row groups as a source, and its two slices."""
    rows = pa.table(batch)
    pq.write_table(rows, directory / "events.parquet", row_group_size=-(-rows.num_rows // 6))
    source = Files(str(directory), follow=False)
    cursor = source.cursor(str(directory / "log"))
    start = source.start()
    return source, list(cursor.slices(start, cursor.latest(start), 2))


@pytest.fixture(params=["decoded times", "coarse times"])
def passes(request: pytest.FixtureRequest, tmp_path: Path) -> list[SlicePass]:
    """Passes over the slices of a source; of `coarse` ones the times are not read."""
    if request.param == "coarse times":
        stream, graph, rows = ADS, Graph.of([query(YSB.campaign_of_ad(), 2)]), YSB.batch(0, 120_000)
    else:
        stream, graph, rows = CITY, city().job.graph, city_events().batch(0, 120_000)
    program = compile_graph(graph)
    source, pieces = slices(tmp_path, rows)
    assert len(pieces) == 2
    return [SlicePass(program, plan(program), stream, source, piece) for piece in pieces]


def plan(program: Program, **changed: Any) -> EpochPlan:
    known: dict[str, Any] = {"graph": program.graph.digest, "workers": 2, "now_us": NOW_US}
    known |= {"epoch": 1, "watermarks_us": {}, "states": (), "binding": (0,) * len(program.instances)}
    return EpochPlan(**{**known, **changed})


def test_an_early_pass_is_used_exactly_if_no_row_could_be_late_and_is_then_the_same(passes: list[SlicePass]) -> None:
    used = 0
    for each in passes:
        content = packed(early(each).gathered(Lock()), NOW_US)
        assert content is not None
        made = unpacked(content, each)
        assert made is not None
        marks = [made.oldest_us + step for step in (-(10**9), -1, 0, 1, 10**9)]
        for mark_us in marks:
            later = replace(each, plan=replace(each.plan, watermarks_us={each.stream: mark_us}, now_us=NOW_US + 5))
            found, expected = unpacked(content, later), later.gathered()
            assert (found is not None) == (mark_us <= made.oldest_us)
            if found is not None:
                used += 1
                assert (found.rows, found.read, found.newest_us) == (expected.rows, expected.read, expected.newest_us)
                assert not any(expected.refused.values())
    assert used == 6


def test_the_oldest_time_is_that_of_the_rows(passes: list[SlicePass]) -> None:
    time = passes[0].program.inputs[passes[0].stream].time
    for each in passes:
        (part,) = each.piece.data["parts"]
        rows = pq.ParquetFile(part["path"]).read_row_groups(part["units"], [time])
        oldest = np.min(rows[time].cast(pa.timestamp("us")).to_numpy().astype("datetime64[us]").astype(np.int64))
        assert early(each).gathered(Lock()).oldest_us == oldest


def test_an_early_pass_is_not_used_if_the_clock_has_gone_back(passes: list[SlicePass]) -> None:
    content = packed(early(passes[0]).gathered(Lock()), NOW_US)
    assert content is not None
    assert unpacked(content, replace(passes[0], plan=replace(passes[0].plan, now_us=NOW_US - 1))) is None


def test_a_pass_that_refuses_a_row_is_not_kept(passes: list[SlicePass]) -> None:
    """Which rows are ahead of the clock, and what dead letters say, is for the epoch to decide."""
    long_ago = replace(passes[0], plan=replace(passes[0].plan, now_us=0))
    assert packed(early(long_ago).gathered(Lock()), 0) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"graph": "another"}, id="queries"),
        pytest.param({"workers": 3}, id="number of workers"),
        pytest.param({"partitioning": replace(DECLARED, version=7)}, id="partitioning"),
    ],
)
def test_the_digest_knows_all_that_a_pass_depends_on(passes: list[SlicePass], change: dict[str, Any]) -> None:
    one, other = passes
    binding = (1,) * len(one.program.instances)
    changed = {
        digest(one),
        digest(other),
        digest(replace(one, plan=replace(one.plan, binding=binding))),
        digest(replace(one, stream="another")),
        digest(replace(one, plan=replace(one.plan, **change))),
    }
    assert len(changed) == 5


def test_the_digest_is_the_same_in_the_next_epoch(passes: list[SlicePass]) -> None:
    one = passes[0]
    later = replace(one.plan, epoch=2, watermarks_us={one.stream: 5}, now_us=NOW_US + 1, states=(), offsets="1")
    assert digest(replace(one, plan=later)) == digest(one)


@pytest.mark.parametrize(
    ("change", "foreseen"),
    [
        pytest.param(lambda each: each, True, id="as usual"),
        pytest.param(lambda each: replace(each, code="a digest"), False, id="user code runs only when it must"),
        pytest.param(
            lambda each: replace(each, plan=replace(each.plan, shedding={each.stream: SOME})), False, id="rows are shed"
        ),
        pytest.param(
            lambda each: replace(each, plan=replace(each.plan, goal=Goal("id", "megaphone", 2, ()))),
            False,
            id="a rebinding is in progress",
        ),
        pytest.param(
            lambda each: replace(each, plan=replace(each.plan, coming=(1,))), False, id="another binding is announced"
        ),
        pytest.param(lambda each: replace(each, stream="unread"), False, id="no query reads the stream"),
        pytest.param(
            lambda each: replace(
                each,
                program=replace(
                    each.program, lanes=tuple(replace(lane, processing=True) for lane in each.program.lanes)
                ),
            ),
            False,
            id="windows by the clock",
        ),
    ],
)
def test_a_pass_is_made_early_only_where_that_is_harmless(
    passes: list[SlicePass], change: Callable[[SlicePass], SlicePass], foreseen: bool
) -> None:
    assert is_foreseeable(change(passes[0])) == foreseen


def test_a_cursor_of_files_expects_what_it_then_plans(tmp_path: Path) -> None:
    for number in range(4):
        pq.write_table(
            pa.table(city_events().batch(number * 1000, number * 1000 + 1000)), tmp_path / f"{number}.parquet"
        )
    source = Files(str(tmp_path), rows_per_epoch=1500, follow=False)
    cursor = source.cursor(str(tmp_path / "log"))
    assert isinstance(cursor, ForesightedCursor)
    offset, expected, planned = source.start(), [], []
    while True:
        end = cursor.latest(offset)
        if end == offset:
            break
        planned.append(list(cursor.slices(offset, end, 2)))
        expected.append(list(cursor.expected(end, 2)))
        offset = end
    assert expected == [*planned[1:], []]
