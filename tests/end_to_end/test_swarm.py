"""Partitions that follow the load: a hotspot is rebalanced, results do not change, and the journal says why."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.test_spatial import RUNTIMES
from tests.runtimes.local.row_source import RowSource
from tests.small_city import result_tables
from tests.spatial_case import GRID, POINTS, SpatialCase, found, spatial_case

from shoal.connectors.sources.source import Offset
from shoal.control.controller import Controller
from shoal.control.partitions.rebalance_entries import Rebalanced, RebalanceMeasured
from shoal.control.settings import ControlSettings
from shoal.control.story import story_lines
from shoal.errors import ConfigError
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.partitioning import DECLARED
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph
from shoal.model.spatial.shape import point
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.journal import read_journal
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import queries

FAST = ControlSettings.of({"beta": "2", "round_s": "0.000001", "window_s": "0.000001", "profile_s": "0.000001"})
AT_ONCE = 20
FEW = [each for each in RUNTIMES if each.id in ("reference", "local", "simulated", "spark")]


def hotspot(seed: int = 1) -> SpatialCase:
    """Random points and ranges, most of which lie in one corner."""
    case, draw = spatial_case(seed, points=800, changes=150), random.Random(seed)

    def near(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "x": draw.uniform(0, 18), "y": draw.uniform(0, 18)} if draw.random() < 0.9 else row

    moved = [
        {**row, "x0": draw.uniform(0, 18), "y0": draw.uniform(0, 18), "x1": 20.0, "y1": 20.0} for row in case.ranges
    ]
    return SpatialCase([near(row) for row in case.points], moved)


@dataclass(frozen=True)
class ReleasedRows(RowSource):
    """Rows that come as they are released, so that there is an epoch for every few of them."""

    released: list[int] = field(default_factory=lambda: [0])

    def latest(self, start: Offset) -> Offset:
        end = min(len(self.rows), max(start["position"], self.released[0]))
        return {"position": end, "ended": end == len(self.rows)}


def run_with(policy: str, on: str, options: dict[str, Any], journal: Path, *, partitions: int = 1) -> Run:
    case, released = hotspot(), [AT_ONCE]
    job = case.job(partitions=partitions, at_once=AT_ONCE)
    sources = {
        n: ReleasedRows(s.rows, s.schema, 1, released) for n, s in job.sources.items() if isinstance(s, RowSource)
    }
    if on == "simulated":  # its epochs are short by themselves
        options = {**options, "conf": {"epoch_s": "0.00002"}}
    elif on != "spark":  # whose epochs have a poll each, and whose sources are in other processes
        job = replace(job, sources=sources)
    run = start(job, on=on, workers=3, policy=policy, journal=str(journal), control=FAST, **options)

    def release(_: Run, __: EpochCommitted) -> None:
        released[0] += AT_ONCE

    run.wait(release)
    assert differences(result_tables(run), case.expected()) == []
    return run


@pytest.mark.parametrize(("on", "options"), FEW)
def test_swarm_splits_a_hotspot_and_says_why(
    on: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.runtimes.local.supervisor.REPORT_S", 0.005)
    run = run_with("swarm", on, options, tmp_path)
    entries = read_journal(str(tmp_path))
    changes = [entry for entry in entries if isinstance(entry, Rebalanced)]
    assert changes[0].change == "grid"
    splits = [entry for entry in changes if entry.change == "split"]
    assert splits
    assert all(max(each.expected_source, each.expected_target) < each.cost_source for each in splits)
    assert any(isinstance(entry, RebalanceMeasured) for entry in entries)
    assert run.partitioning.layouts
    story = "\n".join(story_lines(entries))
    assert "swarm split match_ranges of found" in story
    assert "expected: the cost of worker" in story


@pytest.mark.parametrize(("on", "options"), [each for each in FEW if each.id in ("reference", "simulated")])
def test_history_grid_decides_once(on: str, options: dict[str, Any], tmp_path: Path) -> None:
    run_with("history-grid", on, options, tmp_path)
    changes = [entry.change for entry in read_journal(str(tmp_path)) if isinstance(entry, Rebalanced)]
    assert changes == ["grid", "history"]


def test_uniform_grid_has_a_rectangle_for_each_worker(tmp_path: Path) -> None:
    run = run_with("uniform-grid", "reference", {}, tmp_path)
    assert [len(layout) for _, layout in run.partitioning.layouts] == [3]
    assert run.binding is not None
    assert {*run.binding.worker_of.values()} == {0, 1, 2}


@pytest.mark.parametrize(("on", "options"), FEW)
def test_replicated_ranges_find_the_same_points(on: str, options: dict[str, Any]) -> None:
    case = hotspot()
    run = start(case.job(), on=on, workers=3, policy="replicated", **options)
    run.wait()
    assert differences(result_tables(run), case.expected()) == []
    (matching,) = [each for each in run.graph.operators.values() if each.kind == "match_ranges"]
    assert (matching.groups, matching.grid) == (3, (3, 1))


def test_replication_leaves_cells_that_others_read_as_they_are() -> None:
    case, tables = hotspot(), []
    visits = POINTS.cover(GRID, point("x", "y")).select("ts", "pid", rid=col("cell"))
    query = visits.union(found().select("ts", "pid", "rid")).sink("both")
    covers = [each for each in query.operators if each.kind == "cover"]
    assert len(covers) == 2  # that of the points is shared
    for policy in ("round-robin", "replicated"):
        run = start(Job.of("both", [query], case.job().sources), on="reference", workers=3, policy=policy)
        run.wait()
        tables.append(result_tables(run))
    assert differences(*tables) == []


def test_partitions_that_fit_the_workers_stay_as_declared(tmp_path: Path) -> None:
    assert run_with("uniform-grid", "reference", {}, tmp_path, partitions=3).partitioning == DECLARED


def test_spatial_policies_need_places() -> None:
    with pytest.raises(ConfigError, match="policy swarm needs an operator that goes by place"):
        Controller(Graph.of(queries(1)), "swarm")
