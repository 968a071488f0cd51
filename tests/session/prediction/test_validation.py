"""Validations: what is measured of two runs, and how they are compared."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.main import main
from shoal.compiler.program import compile_graph
from shoal.connectors.sources.rate import Rate
from shoal.errors import ConfigError
from shoal.experiments.processor_use import ProcessorUse, busy_s, with_others
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.snapshot import Snapshot
from shoal.runtimes.measured.result_path import PARTS
from shoal.session.job import Job
from shoal.session.prediction.validation import (
    Figures,
    TwoRuns,
    Validation,
    enough_events,
    measured,
)
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

BINDING = Binding.of({}, 2)


def epoch(number: int, rows: int, latency_s: float, busy_s: tuple[float, ...] = (0.1, 0.3)) -> EpochCommitted:
    """An epoch of half a second with ten results."""
    latency = Histogram()
    latency.record(latency_s, 10)
    snapshot = Snapshot(number, BINDING, period_s=0.5, busy_s=busy_s)
    return EpochCommitted(
        epoch=number,
        rows=rows,
        results=10,
        dead_letters=0,
        moves=0,
        state_bytes=0,
        state_bytes_moved=0,
        duration_s=0.5,
        latency_s=latency_s,
        compute_s=sum(busy_s),
        migration_s=0.0,
        policy_s=0.0,
        snapshot=snapshot,
        latency=latency,
        at_s=100 + 0.5 * (number + 1),
    )


def measures(value: float) -> Figures:
    return Figures(value, value, value, value, value, value, 1.0, 1)


def test_the_warm_up_and_the_end_of_a_run_do_not_count() -> None:
    epochs = [epoch(0, 1000, 9.0), epoch(1, 1000, 9.0), epoch(2, 100, 0.02), epoch(3, 300, 0.04)]
    epochs += [epoch(4, 50, 9.0), epoch(5, 0, 9.0)]
    found = measured(epochs, 2, warm_up_s=1.0, what="local")
    assert found.mean_ms == pytest.approx(30)
    assert found.p99_ms == pytest.approx(40, rel=0.01)
    assert found.events_per_s == pytest.approx(400)
    assert found.utilisation == pytest.approx(0.4)
    assert (found.epoch_ms, found.seconds, found.results) == (500, 1.0, 20)


def test_a_run_that_emits_nothing_between_warm_up_and_end_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match=r"local run must emit results after its warm-up of 1 s .* got 0 in 0 s"):
        measured([epoch(0, 10, 1.0), epoch(1, 10, 1.0)], 2, 1.0, "local")
    with pytest.raises(ConfigError, match="simulated run read no events"):
        measured([epoch(0, 0, 1.0)], 2, 1.0, "simulated")


def test_errors_are_relative_to_the_real_run_and_judged_by_their_limits() -> None:
    found = Validation("local", 2, "round-robin", (measures(100.0),), (measures(120.0),))
    assert found.error("mean_ms") == pytest.approx(0.2)
    assert [found.within(name) for name in ("mean_ms", "p50_ms", "p99_ms", "events_per_s")] == [
        False,
        None,
        True,
        False,
    ]
    assert Validation("local", 2, "round-robin", (measures(0.0),), (measures(1.0),)).error("mean_ms") is None


def test_a_simulation_is_compared_with_the_median_of_the_real_runs() -> None:
    reals = tuple(measures(value) for value in (300.0, 100.0, 110.0))
    found = Validation("local", 2, "round-robin", reals, (measures(121.0),))
    assert found.error("mean_ms") == pytest.approx(0.1)
    assert found.spread("p99_ms") == (100.0, 300.0)
    assert found.data()["compared"]["mean_ms"]["real_runs"] == [300.0, 100.0, 110.0]


def test_of_several_simulated_runs_the_median_is_compared_as_well() -> None:
    simulations = tuple(measures(value) for value in (90.0, 500.0, 110.0))
    found = Validation("local", 2, "round-robin", (measures(100.0),), simulations)
    assert found.error("mean_ms") == pytest.approx(0.1)
    assert found.data()["compared"]["mean_ms"]["simulated_runs"] == [90.0, 500.0, 110.0]


def test_results_of_an_epoch_without_a_histogram_have_the_latency_of_the_epoch() -> None:
    epochs = [replace(epoch(number, 100, 0.5), latency=None) for number in range(3)]
    assert measured(epochs, 2, 0.0, "spark").mean_ms == pytest.approx(500)


def test_the_time_of_epochs_is_compared_on_spark_only() -> None:
    assert "epoch_ms" not in Validation("local", 2, "round-robin", (measures(1.0),), (measures(1.0),)).compared
    assert "epoch_ms" in Validation("spark", 2, "round-robin", (measures(1.0),), (measures(1.0),)).compared


@pytest.mark.parametrize(
    ("usual", "rate", "wanted"),
    [
        pytest.param(1000, None, 10_000, id="two workers for five seconds, each as fast as in the profile"),
        pytest.param(50_000, None, 50_000, id="the usual events take long enough"),
        pytest.param(1000, "300", 1500, id="five seconds at a rate"),
        pytest.param(1000, "100,500@4", 1000, id="the usual events take long enough at a rate that changes"),
    ],
)
def test_a_run_without_a_number_of_events_is_long_enough_for_its_warm_up(
    usual: int, rate: str | None, wanted: int
) -> None:
    profile = {"events": 2000, "cpu_s": 2.0}
    assert enough_events(usual, None if rate is None else Rate.of(rate), profile, 2, 1.0) == wanted


def test_a_profile_that_does_not_say_how_fast_a_worker_is_leaves_the_usual_events() -> None:
    assert enough_events(1000, None, {"epochs": {}}, 2, 1.0) == 1000


def test_a_run_is_validated_against_a_real_runtime_only() -> None:
    job = workload("ysb").ready(0, Amount(10), {}).job
    with pytest.raises(ConfigError, match="must be one of local, spark; got 'simulated'"):
        TwoRuns(job, "simulated")


def profile_of(job: Job) -> dict[str, Any]:
    """A profile of ysb in which everything takes some microseconds."""
    lane = compile_graph(job.graph).lanes[0]
    operators = sorted({str(instance).rpartition("/")[0] for instance in lane.instances})
    cost = {"fixed_s": 1e-5, "event_s": 1e-8, "result_s": 1e-7, "spread": 0.1}
    cost |= dict.fromkeys(("state_byte_s", "merged_row_s", "merged_event_s", "pair_s"), 0.0)
    made: list[tuple[Any, ...]] = [
        ("source ad_events", "source", [], 1000, 1000),
        ("filter", "steps", ["source ad_events"], 1000, 300),
        ("lane 0", "lane", ["filter"], 300, 4),
        ("sink views", "outlet", ["lane 0"], 4, 4),
    ]
    names = ("name", "kind", "inputs", "events_in", "events_out")
    nodes = [{**dict(zip(names, each, strict=True)), "turns": 10, "cost": cost} for each in made]
    for node in nodes:
        node["operators"] = operators if node["kind"] == "lane" else [node["name"]]
        node["selectivity"] = node["events_out"] / node["events_in"]
    nodes[2]["lane"] = 0
    section = {"nodes": nodes, "worker": {"decision_s": 1e-5}}
    slow = {"work": [1.1, 1.4], "turn": [1.2, 2.0], "waits": {"lane 0": [0.5, 1.5]}, "wake_ups": [[0.0], [1e-4]]}
    slow |= {"deliveries": [[0.0], [1e-3]], "long": [1.0, 1.2], "pauses": [[1e-5], [5e-5]], "closings": {}}
    contention = {"at_rate": slow, "as_fast_as_possible": slow, "nodes": {}, "long_s": 1e-3}
    return {"simulator": section, "divided": section, "contention": contention}


def test_the_command_prints_both_runs_and_finds_equal_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"per_s": "1000"}
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(profile_of(workload("ysb").ready(0, Amount(10), settings).job)))
    command = ["shoal", "validate", "ysb", "--profile", str(profile), "--events", "60000", "--rate", "100000"]
    command += ["--set", "per_s=1000", "--set", "step_s=0.01", "--warm-up", "0.1", "--repeat", "2", "--json", "--parts"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"] == "equal"
    assert {len(row["simulated_runs"]) for row in found["compared"].values()} == {2}
    assert set(found["compared"]) == {"mean_ms", "p50_ms", "p99_ms", "events_per_s", "utilisation"}
    assert found["compared"]["events_per_s"]["simulated"] == pytest.approx(100_000, rel=0.1)
    assert all(row["real"] > 0 and row["simulated"] > 0 for row in found["compared"].values())
    assert list(found["parts"]) == [*PARTS, "sum"]
    first_ms = found["compared"]["mean_ms"]["simulated_runs"][0]
    assert found["parts"]["sum"]["simulated"] == pytest.approx(first_ms, rel=1e-3)
    assert found["parts"]["state_work"]["real"] > 0


def test_parts_are_traced_on_local_only() -> None:
    job = workload("ysb").ready(0, Amount(10), {}).job
    with pytest.raises(ConfigError, match="where the time of results goes is traced on local; got spark"):
        TwoRuns(job, "spark", parts=True)


def test_what_other_programs_had_of_the_processors_is_reported_with_every_real_run() -> None:
    found = Validation("local", 2, "round-robin", (measures(1.0),) * 2, (measures(1.0),), others=(0.25, 0.0))
    assert found.data()["others_share"] == [0.25, 0.0]
    before, after = ProcessorUse.now(), ProcessorUse.now()
    if before is not None and after is not None:
        assert before.others_until(after) >= 0.0
        assert after.machine_s >= before.machine_s


def test_what_was_measured_says_what_other_programs_had_meanwhile() -> None:
    found = with_others(lambda: {"events": 10})
    assert found["events"] == 10
    assert found.get("others_share", 0.0) >= 0.0
    assert "others_share" in found or ProcessorUse.now() is None


def test_statistics_of_processors_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="must begin with cpu and 8 numbers"):
        busy_s("intr 1 2 3", 100)
