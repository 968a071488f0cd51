"""Runs of the simulated Spark: epochs in time, moves, lost executors, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.script import Script, drain, pause, rebind
from tests.small_city import city, result_tables

from shoal.compiler.program import compile_graph
from shoal.errors import ConfigError, RunError
from shoal.model.control.messages import EpochCommitted
from shoal.policies.binding.static import round_robin
from shoal.runtimes.simulated.micro_batch.epoch_costs import BETWEEN_S
from shoal.session.digest import differences
from shoal.session.run import Run, start
from shoal.workloads.workload import Ready


def followed(ready: Ready, topology: str = "spark:2x2", **options: Any) -> tuple[Run, list[EpochCommitted]]:
    """A run that has ended with the right results, and its epochs."""
    epochs: list[EpochCommitted] = []
    run = start(ready.job, on="simulated", topology=topology, **options)
    run.wait(lambda _, event: epochs.append(event))
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run, epochs


def cluster(directory: Path, *outages: str) -> str:
    """A file with three executors of two slots and these outages."""
    lines = ["spark: true", "hosts: [{name: e, count: 3, cores: 2}]", "star: {bandwidth: 1Gbit, latency: 100us}"]
    file = directory / "cluster.yaml"
    file.write_text("\n".join([*lines, *(["outages:", *outages] if outages else ())]))
    return str(file)


def test_an_epoch_takes_all_rows_that_came_during_the_one_before() -> None:
    _, epochs = followed(city(rate=9_000.0, rows_per_epoch=1_000_000))
    for before, epoch in pairwise(epochs[1:-2]):
        cycle_s = before.duration_s + BETWEEN_S
        assert epoch.rows == pytest.approx(9_000.0 * cycle_s, abs=2)


def test_no_epoch_has_more_rows_than_its_limit() -> None:
    _, epochs = followed(city(rate=1e6, rows_per_epoch=1_000))
    assert max(epoch.rows for epoch in epochs) == 1_000
    last = epochs[-2]
    assert last.latency is not None
    assert last.latency.max_s > 5 * last.duration_s  # its rows have waited for all epochs before


def test_epochs_begin_at_the_trigger_interval() -> None:
    _, epochs = followed(city(rate=9_000.0), interval_s=0.5)
    began_s = [epoch.at_s - epoch.latency_s for epoch in epochs if epoch.rows]
    distances_s = [after - before for before, after in pairwise(began_s[1:])]
    assert distances_s == pytest.approx([0.5] * len(distances_s), abs=0.02)


def test_results_wait_from_when_their_rows_were_due() -> None:
    _, epochs = followed(city(rate=9_000.0))
    for epoch in epochs[1:-1]:
        assert epoch.latency is not None
        assert epoch.latency.total == epoch.results
        assert epoch.latency.max_s >= epoch.latency_s * 0.99


def test_the_same_run_takes_the_same_time() -> None:
    first, second = (followed(city(rate=9_000.0))[1] for _ in range(2))
    assert [epoch.at_s for epoch in first] == [epoch.at_s for epoch in second]


def test_workers_know_their_executors() -> None:
    run, epochs = followed(city(), "spark:3x2")
    assert run.runtime.topology.node_of == (0, 0, 1, 1, 2, 2)
    assert all(epoch.snapshot.topology == run.runtime.topology for epoch in epochs)
    assert len(epochs[0].snapshot.busy_s) == 6
    assert all(cost_s > 0 for cost_s in epochs[0].snapshot.busy_s)


def test_state_that_moves_over_a_slow_link_makes_the_epoch_longer() -> None:
    ready = city(events=None, rows_per_epoch=1_500)
    graph = ready.job.graph
    durations, moved = {}, {}
    for bandwidth in ("10Gbit", "100kbit"):
        script = Script(*pause(3), rebind(round_robin(graph, 1)), *pause(3), drain)
        run = start(ready.job, on="simulated", topology=f"spark:2x1@{bandwidth}")
        run.wait(script)
        assert differences(result_tables(run), ready.expected(run.consumed)) == []
        [report] = run.finished
        moved[bandwidth] = sum(move.state_bytes for move in report.moves)
        moving = next(epoch for epoch in script.committed if epoch.moves)
        assert moving.state_bytes_moved == moved[bandwidth]
        durations[bandwidth] = moving.migration_s
    assert moved["10Gbit"] == moved["100kbit"] > 0
    assert durations["100kbit"] >= moved["100kbit"] * 8 / 100e3
    assert durations["10Gbit"] < 0.01


def test_a_lost_executor_is_reported_and_changes_no_result(tmp_path: Path) -> None:
    topology = cluster(tmp_path, "- {host: e-2, at: 0.1 s, until: 0.3 s}")
    run, slowed = followed(city(rate=9_000.0), topology)
    [lost] = run.lost
    assert lost.workers == (2, 3)
    assert "host e-2 has failed" in lost.reason
    whole, usual = followed(city(rate=9_000.0), cluster(tmp_path))
    assert whole.lost == []
    assert max(epoch.duration_s for epoch in slowed) > max(epoch.duration_s for epoch in usual)


def test_a_run_waits_for_the_first_executor_to_return(tmp_path: Path) -> None:
    _, epochs = followed(city(), cluster(tmp_path, "- {host: e, at: 0 s, until: 7 s}"))
    assert epochs[0].at_s - epochs[0].duration_s >= 7.0


def test_a_run_without_executors_ends(tmp_path: Path) -> None:
    run = start(city().job, on="simulated", topology=cluster(tmp_path, "- {host: e, at: 0 s}"))
    with pytest.raises(RunError, match="every executor has failed and none returns"):
        run.wait()


def profile_of(ready: Ready, *, fixed_s: float) -> dict[str, Any]:
    """A profile as `shoal profile --on spark` writes it, in which only the driver's epochs take time."""
    merging = ("state_byte_s", "merged_row_s", "merged_event_s", "pair_s")
    nothing = dict.fromkeys(("fixed_s", "event_s", "result_s", *merging, "spread"), 0.0)
    program = compile_graph(ready.job.graph)
    lanes: list[dict[str, Any]] = [
        {"kind": "lane", "lane": lane.number, "operators": sorted({str(i).rpartition("/")[0] for i in lane.instances})}
        for lane in program.lanes
        if lane.kernel
    ]
    reading: list[dict[str, Any]] = [{"kind": "reading task", "stream": stream} for stream in program.inputs]
    others: list[dict[str, Any]] = [{"kind": "worker task"}, {"kind": "between epochs"}]
    parts = [{**part, "cost": nothing} for part in (*reading, *lanes, *others)]
    driver = {"kind": "driver", "cost": {**nothing, "fixed_s": fixed_s}}
    small = {"most_s": 0.03, "most_sent_bytes": 2e6, "most_state_bytes": 8e6}
    return {"on": "spark", "epochs": {"slots": 2, "parts": [*parts, driver], "small": small}}


def test_a_profile_of_spark_says_what_epochs_cost(tmp_path: Path) -> None:
    file, ready = tmp_path / "profile.json", city()
    file.write_text(json.dumps(profile_of(ready, fixed_s=0.25)))
    _, epochs = followed(ready, "spark:1x2", conf={"delay": "traced", "trace": str(file)})
    assert [epoch.duration_s for epoch in epochs] == pytest.approx([0.25] * 4, abs=0.001)  # and the way to the driver


def test_a_profile_of_other_queries_is_refused(tmp_path: Path) -> None:
    file, ready = tmp_path / "profile.json", city()
    found = profile_of(ready, fixed_s=0.25)
    found["epochs"]["parts"][1]["operators"] = ["something else"]
    file.write_text(json.dumps(found))
    with pytest.raises(ConfigError, match="profile is one of other queries: lane 0 has other operators there"):
        followed(ready, "spark:1x2", conf={"delay": "traced", "trace": str(file)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"conf": {"epoch_s": "1"}}, "a simulated Spark has no epoch_s; got epoch_s=1.0", id="a setting"),
        pytest.param({"conf": {"mode": "statistical"}}, "processes real rows; got mode=statistical", id="statistics"),
        pytest.param({"policy": "single-queue"}, "workers of Spark share no queues", id="shared queues"),
    ],
)
def test_what_spark_has_no_counterpart_for_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(city().job, on="simulated", topology="spark:2x2", **options)


def test_batteries_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("spark: true\nhosts: [{name: e, cores: 2, energy: {busy_w: 1, battery_j: 5}}]\n")
    with pytest.raises(ConfigError, match="executors of a simulated Spark have no batteries; got one on host 'e'"):
        start(city().job, on="simulated", topology=str(file))
