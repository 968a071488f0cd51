"""Traced results: the same parts of the time of a result, from real and from simulated turns."""

import gc
from collections.abc import Mapping

import pytest

from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.measured.result_path import PARTS, ResultTimes
from shoal.session.run import Run, start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

TRACED = {"trace_results": "true"}
CONF: Mapping[str, Mapping[str, str]] = {
    "local": TRACED,
    "simulated": {**TRACED, "step_s": "0.001", "work_factor": "20"},
}


def traced(on: str, name: str = "traffic", events: int = 20_000, **conf: str) -> tuple[Run, ResultTimes]:
    job = workload(name).ready(0, Amount(events), {}).job
    run = start(job, on=on, workers=2, policy="round-robin", conf={**CONF[on], **conf})
    epochs = list[EpochCommitted]()
    run.wait(lambda _, epoch: epochs.append(epoch))
    times = run.runtime.result_times()
    assert times is not None
    return run, times


@pytest.mark.parametrize("on", list(CONF))
def test_every_part_of_a_result_is_a_time_and_no_result_is_counted_twice(on: str) -> None:
    run, times = traced(on)
    assert gc.isenabled()  # not while turns were traced
    assert (times.seconds >= -1e-9).all()
    assert 0 < times.results.sum() <= run.tally.results
    assert times.mean_s()["state_work"] > 0
    assert times.mean_s()["read_work"] > 0


@pytest.mark.parametrize("name", ["traffic", "nexmark", "skew"])
def test_the_parts_of_simulated_results_add_up_to_their_latency(name: str) -> None:
    epochs = list[EpochCommitted]()
    job = workload(name).ready(0, Amount(5_000), {}).job
    run = start(job, on="simulated", workers=2, policy="round-robin", conf=CONF["simulated"])
    run.wait(lambda _, epoch: epochs.append(epoch))
    times = run.runtime.result_times()
    assert times is not None
    latencies = [each.latency for each in epochs if each.latency is not None]
    assert times.results.sum() == sum(each.total for each in latencies) > 0
    mean_s = sum(each.sum_s for each in latencies) / times.results.sum()
    assert sum(times.mean_s().values()) == pytest.approx(mean_s, rel=1e-6)


def test_a_trace_of_turns_changes_no_simulated_time() -> None:
    def reported(trace: str) -> list[tuple[float, int, float, float]]:
        epochs = list[EpochCommitted]()
        job = workload("traffic").ready(0, Amount(20_000), {}).job
        conf = {**CONF["simulated"], "trace_results": trace}
        run = start(job, on="simulated", workers=2, policy="round-robin", conf=conf)
        run.wait(lambda _, epoch: epochs.append(epoch))
        assert (run.runtime.result_times() is None) == (trace == "false")
        return [(each.at_s, each.results, each.latency_s, each.compute_s) for each in epochs]

    assert reported("true") == reported("false")


def test_results_that_are_not_traced_have_no_times() -> None:
    job = workload("traffic").ready(0, Amount(1_000), {}).job
    for on in ("local", "reference"):
        run = start(job, on=on)
        run.wait()
        assert run.runtime.result_times() is None


def test_all_parts_have_a_name_and_a_meaning() -> None:
    assert all(part and meaning for part, meaning in PARTS.items())
