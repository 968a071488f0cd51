"""Points in changing ranges: every runtime finds what brute force finds, whatever is split, merged and moved."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.small_city import result_tables
from tests.spatial_case import SpatialCase, found, spatial_case

from shoal.connectors.sinks import MemorySink
from shoal.mechanisms.catalog import LOSSY, MECHANISMS
from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import DECLARED
from shoal.policies.binding.static import shuffled
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.partitions import random_changes
from shoal.session.run import Run, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNTIMES = [
    pytest.param("reference", {}, id="reference"),
    pytest.param("local", {}, id="local"),
    pytest.param("simulated", {"topology": "cores:3"}, id="simulated"),
    pytest.param("simulated", {"topology": "star:3@100Mbit", "conf": {"detail": "rows"}}, id="simulated row by row"),
    pytest.param("spark", {}, id="spark", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("on", "options"), RUNTIMES)
@pytest.mark.parametrize("partitions", [1, 5])
def test_every_match_is_found_once(on: str, options: dict[str, Any], partitions: int) -> None:
    case = spatial_case(seed=partitions)
    run = start(case.job(partitions=partitions), on=on, workers=3, policy="round-robin", **options)
    run.wait()
    assert differences(result_tables(run), case.expected()) == []


def disturbed(case: SpatialCase, on: str, options: dict[str, Any], seed: int) -> Run:
    """A run in which everything is split, merged and moved again and again; its results are right."""
    draw = random.Random(seed)

    def disturb(run: Run, event: EpochCommitted) -> None:
        if draw.random() < 0.7:
            run.rebind(shuffled(run.graph, 3, draw.randrange(1 << 30), event.snapshot.partitioning))
        if draw.random() < 0.7:
            run.runtime.apply(Repartition(random_changes(run.graph, event.snapshot.partitioning, draw)))

    run = start(case.job(at_once=40), on=on, workers=3, policy="round-robin", **options)
    run.wait(disturb)
    assert differences(result_tables(run), case.expected()) == []
    return run


CHANGED_WHILE_RUNNING = [
    pytest.param("reference", {}, id="reference"),
    pytest.param("local", {}, id="local"),
    pytest.param("simulated", {"topology": "cores:3", "conf": {"epoch_s": "0.00003"}}, id="simulated cores"),
    pytest.param("simulated", {"topology": "star:3@100Mbit", "conf": {"epoch_s": "0.0003"}}, id="simulated network"),
]


@pytest.mark.parametrize(("on", "options"), CHANGED_WHILE_RUNNING)
def test_no_split_merge_or_move_changes_a_match(
    on: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.runtimes.local.supervisor.REPORT_S", 0.001)
    changed = list[int]()

    @settings(deadline=None, max_examples=4)
    @given(st.integers(0, 1 << 30))
    def holds(seed: int) -> None:
        run = disturbed(spatial_case(seed, points=300), on, options, seed)
        changed.append(run.partitioning.version)

    holds()
    assert max(changed) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_no_split_merge_or_move_changes_a_match_on_spark(seed: int) -> None:
    assert disturbed(spatial_case(seed, points=600), "spark", {}, seed).partitioning != DECLARED


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(name, marks=[] if name in ("megaphone", "state-recreation") else pytest.mark.slow)
        for name in MECHANISMS
        if name not in LOSSY and name != "window-recreation"  # ranges are in no window
    ],
)
def test_no_mechanism_changes_a_match_over_a_network(mechanism: str) -> None:
    case = spatial_case(seed=3, points=400, changes=300)
    conf = {"detail": "rows", "epoch_s": "0.05", "topology": "star:3x1@1Mbit,2ms"}
    run = start(case.timed_job(), on="simulated", workers=3, policy="round-robin", mechanism=mechanism, conf=conf)

    def disturb(run: Run, event: EpochCommitted) -> None:
        if event.epoch % 4 == 1:
            run.rebind(shuffled(run.graph, 3, event.epoch))

    run.wait(disturb)
    moves = [move for event in run.finished for move in event.moves if not move.aborted]
    assert any(move.state_bytes for move in moves)
    assert differences(result_tables(run), case.expected()) == []


def test_ranges_that_differ_in_their_id_only_end_one_by_one() -> None:
    box = {"x0": 0.0, "y0": 0.0, "x1": 9.0, "y1": 9.0}
    ranges = [{"ts": 0, "rid": rid, "action": "insert", **box} for rid in (1, 2)]
    ranges.append({"ts": 50, "rid": 1, "action": "delete", **box})
    points = [{"ts": ts, "pid": ts, "x": 5.0, "y": 5.0} for ts in (10, 60)]
    case = SpatialCase(points, ranges)
    query = found().select("ts", "pid").sink("found")  # without the id
    run = start(Job.of("j", [query], case.job().sources), on="reference")
    run.wait()
    assert sorted(result_tables(run)["found"]["pid"].to_pylist()) == [10, 10, 60]


@pytest.mark.slow
def test_no_match_is_lost_or_found_twice_by_a_run_that_is_stopped_and_resumed(
    spark: "SparkSession", tmp_path: Path
) -> None:
    case, draw = spatial_case(seed=1, points=250), random.Random(1)
    kept: dict[str, Any] = {"checkpoint": str(tmp_path), "sink": MemorySink()}
    stops = 0

    def disturb(run: Run, event: EpochCommitted) -> None:
        nonlocal stops
        run.rebind(shuffled(run.graph, 3, event.epoch, event.snapshot.partitioning))
        run.runtime.apply(Repartition(tuple(random_changes(run.graph, event.snapshot.partitioning, draw))))
        if event.epoch % 2 and stops < 2:
            stops += 1
            run.stop()

    runs = [start(case.job(at_once=50), spark=spark, workers=3, policy="round-robin", **kept)]
    runs[0].wait(disturb)
    for resumed in (1, 2):
        assert stops == resumed
        runs.append(start(case.job(at_once=50), spark=spark, workers=3, policy="round-robin", **kept))
        runs[-1].wait(disturb)
    assert runs[-1].partitioning.layouts
    assert differences(result_tables(runs[-1]), case.expected()) == []
