"""Fits of epochs on Spark: the costs of their parts are found again, whoever does the work of the workers."""

import numpy as np
import pytest

from shoal.compiler.program import Program, compile_graph
from shoal.runtimes.spark.epoch_fit import MeasuredEpoch, Work, epochs_section
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

SLOTS = 2
TASK_S, ROW_S = 0.002, 3e-7
LANE = (0.001, 1e-7, 2e-6, 5e-9)
REST_S, BYTE_S = 0.004, 2e-9
EPOCH_S, PER_TASK_S, RESULT_S = 0.06, 0.005, 1e-6
SMALL_REST_S, SMALL_EPOCH_S = 0.001, 0.03
BETWEEN_S = 0.03


def ysb() -> Program:
    return compile_graph(workload("ysb").ready(0, Amount(10), {}).job.graph)


def epoch(rows: int, workers: int, random: np.random.Generator, *, small: bool = False) -> MeasuredEpoch:
    """An epoch with known costs, each off by a few percent."""

    def off(seconds: float) -> float:
        return float(seconds * random.lognormal(0, 0.03))

    slices = max(1, min(SLOTS, rows // 20_000))
    reading = [("ad_events", Work(rows // slices, 0, 0, off(TASK_S + ROW_S * (rows // slices)))) for _ in range(slices)]
    pieces: list[dict[int | None, Work]] = []
    rest_s = SMALL_REST_S if small else REST_S
    for _ in range(workers):
        counts = rows // workers, int(random.integers(0, 3000)), int(random.integers(10_000, 3_000_000))
        lane_s = LANE[0] + sum(cost * count for cost, count in zip(LANE[1:], counts, strict=True))
        carried = int(random.integers(10_000, 5_000_000))
        pieces.append({0: Work(*counts, off(lane_s)), None: Work(0, 0, carried, off(rest_s + BYTE_S * carried))})
    results = sum(work.results for each in pieces for work in each.values())
    read_s = max(*(work.seconds for _, work in reading), sum(work.seconds for _, work in reading) / SLOTS)
    busy = [sum(work.seconds for work in each.values()) for each in pieces]
    if small:
        whole_s = off(SMALL_EPOCH_S + RESULT_S * results) + read_s + sum(busy)
    else:
        whole_s = off(EPOCH_S + PER_TASK_S * (slices + workers) + RESULT_S * results)
        whole_s += read_s + max(*busy, sum(busy) / SLOTS)
    return MeasuredEpoch(rows, results, whole_s, off(BETWEEN_S), reading, [pieces], small)


def test_known_costs_of_the_parts_of_epochs_are_found_again() -> None:
    random = np.random.default_rng(7)
    sizes = [(rows, workers) for rows in (1000, 16_000, 60_000, 500_000, 1_000_000) for workers in (1, 2, 4)]
    found = epochs_section(ysb(), [epoch(*size, random) for size in sizes * 12], SLOTS, [])
    cost = {part["name"]: part["cost"] for part in found["parts"]}
    assert list(cost) == ["reading task ad_events", "lane 0", "worker task", "driver", "between epochs"]
    assert cost["reading task ad_events"]["event_s"] == pytest.approx(ROW_S, rel=0.25, abs=0)
    assert [cost["lane 0"][name] for name in ("event_s", "result_s", "state_byte_s")] == [
        pytest.approx(value, rel=0.25, abs=0) for value in LANE[1:]
    ]
    assert cost["worker task"]["state_byte_s"] == pytest.approx(BYTE_S, rel=0.25, abs=0)
    assert cost["driver"]["fixed_s"] == pytest.approx(EPOCH_S, rel=0.25, abs=0)
    assert cost["driver"]["event_s"] == pytest.approx(PER_TASK_S, rel=0.25, abs=0)
    assert cost["between epochs"]["fixed_s"] == pytest.approx(BETWEEN_S, rel=0.05)
    assert found["error"] == pytest.approx(0, abs=0.05)
    assert found["stages"] == 2


def test_small_epochs_have_costs_of_their_own() -> None:
    random = np.random.default_rng(7)
    sizes = [(rows, small) for rows in (1000, 16_000, 60_000, 500_000) for small in (False, True)]
    found = epochs_section(ysb(), [epoch(rows, 2, random, small=small) for rows, small in sizes * 30], SLOTS, [])
    cost = {part["name"]: part["cost"] for part in found["parts"]}
    assert cost["worker of small epoch"]["fixed_s"] == pytest.approx(SMALL_REST_S, rel=0.25, abs=0)
    assert cost["worker task"]["fixed_s"] == pytest.approx(REST_S, rel=0.25, abs=0)
    assert cost["driver of small epoch"]["fixed_s"] == pytest.approx(SMALL_EPOCH_S, rel=0.05, abs=0)
    assert found["error"] == pytest.approx(0, abs=0.05)


def test_few_epochs_have_no_error() -> None:
    random = np.random.default_rng(7)
    assert epochs_section(ysb(), [epoch(1000, 2, random) for _ in range(4)], SLOTS, [])["error"] is None
