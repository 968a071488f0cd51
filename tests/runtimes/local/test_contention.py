"""Contention: how much longer turns take while other workers are busy."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sinks import MemorySink
from shoal.runtimes.local.contention import contention, turn_waits
from shoal.runtimes.local.dataflow.node import Results
from shoal.runtimes.local.delivery_probe import ProbedRuntime
from shoal.runtimes.local.node_costs import node_costs
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.slowdown import (
    LEAST_TURNS,
    LONG_S,
    MOST_SLOWER,
    WAITS,
    ContendedTurns,
    errors_of,
    node_factors,
    slowdown,
)
from shoal.runtimes.local.trace import TracedTurn
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

NODES = 3


def turns_with(work: list[float], turn: list[float], seed: int, size: int = 900) -> ContendedTurns:
    """Turns of three nodes that take exactly what factors of their two parts say."""
    random = np.random.default_rng(seed)
    node, others = np.arange(size) % NODES, random.integers(0, len(work), size)
    fixed_s, work_s = np.array([1e-4, 3e-4, 5e-5])[node], random.uniform(0, 1e-3, size)
    wall_s = np.array(turn)[others] * fixed_s + np.array(work)[others] * work_s
    never = np.full(size, np.nan)
    return ContendedTurns(node, others, fixed_s, work_s, wall_s, never, never, others, *np.zeros((2, size), bool))


@settings(max_examples=40)
@given(st.floats(1, 5), st.floats(1, 3), st.floats(1, 2), st.integers(0, 2**32 - 1))
def test_the_factors_of_both_parts_of_turns_are_found_again(alone: float, more: float, both: float, seed: int) -> None:
    found = slowdown(turns_with([1.0, both], [alone, alone * more], seed), np.ones(NODES), 2)
    assert found.work == pytest.approx((1.0, both), abs=1e-4)
    assert found.turn == pytest.approx((alone, alone * more), abs=1e-3)
    assert set(found.waits) == set(range(NODES))
    assert np.array(list(found.waits.values())) == pytest.approx(np.ones((NODES, WAITS)), abs=1e-3)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_no_part_is_faster_with_more_busy_workers_nor_than_in_one_thread(
    factors: list[tuple[float, float]], seed: int
) -> None:
    work, turn = [each[0] for each in factors], [each[1] for each in factors]
    found = slowdown(turns_with(work, turn, seed), np.ones(NODES), len(factors))
    for part in (found.work, found.turn):
        assert list(part) == sorted(part)
        assert part[0] >= 1.0
    assert max(found.work) <= MOST_SLOWER * len(factors)
    assert np.array(list(found.waits.values())).mean(axis=1) == pytest.approx(np.ones(len(found.waits)), abs=1e-3)


def test_long_turns_have_another_factor_for_what_they_work_beyond_a_short_one() -> None:
    plain = turns_with([1.0, 2.0], [1.5, 2.0], 6)
    few = np.arange(len(plain.node)) < 60
    work_s = np.where(few, 5 * LONG_S, plain.work_s)
    beyond_s = np.where(few, 4 * LONG_S, 0.0)
    wall_s = np.array([1.5, 2.0])[plain.others] * plain.fixed_s + np.array([1.0, 2.0])[plain.others] * (
        work_s - beyond_s
    )
    found = slowdown(replace(plain, work_s=work_s, wall_s=wall_s + 1.25 * beyond_s), np.ones(NODES), 2)
    assert found.work == pytest.approx((1.0, 2.0), abs=1e-3)
    assert found.long == pytest.approx((1.0, 1.25), abs=1e-3)  # with one worker work takes no longer than itself


def test_a_node_with_more_calls_is_slowed_down_more_and_one_with_few_turns_like_the_others() -> None:
    plain = turns_with([1.0, 1.0], [2.0, 2.0], 0)
    slow = replace(plain, wall_s=plain.wall_s + np.where(plain.node == 1, 2.0 * plain.fixed_s, 0.0))
    found = node_factors(slow, NODES, 2)
    assert found[1] > 1.1
    assert found[0] < 0.9
    rare = slow.where((slow.node != 1) | (np.arange(len(slow.node)) < 12))
    assert node_factors(rare, NODES, 2)[1] == 1.0


def test_a_number_of_busy_workers_with_few_turns_counts_as_the_one_before() -> None:
    plain = turns_with([1.0, 2.0], [1.5, 9.0], 1)
    few = plain.where((plain.others == 0) | (np.cumsum(plain.others) < LEAST_TURNS))
    found = slowdown(few, np.ones(NODES), 2)
    assert found.work == pytest.approx((1.0, 1.0), abs=1e-3)
    assert found.turn == pytest.approx((1.5, 1.5), abs=1e-2)


def test_waits_that_differ_keep_their_mean_and_their_tail() -> None:
    plain = turns_with([1.0], [2.0], 2, size=WAITS * 20)
    drawn = np.random.default_rng(3).exponential(1.0, len(plain.fixed_s))
    varied = replace(plain, fixed_s=np.full_like(plain.fixed_s, 1e-4), wall_s=plain.work_s + 2e-4 * drawn)
    waits = np.array(slowdown(varied, np.ones(NODES), 1).waits[0])
    assert waits.mean() == pytest.approx(1.0, abs=1e-3)
    assert waits[-1] > 3
    assert (np.diff(waits) >= 0).all()


def test_deliveries_are_those_beside_as_many_workers_in_a_turn() -> None:
    delivered = [(others, 0.001 * (1 + others)) for others in (0, 1) for _ in range(WAITS)]
    found = slowdown(turns_with([1.0, 1.0], [2.0, 2.0], 4), np.ones(NODES), 2, delivered)
    assert found.deliveries == ((0.001,) * WAITS, (0.002,) * WAITS)


def test_pauses_between_turns_are_those_beside_as_many_workers_in_a_turn_when_they_began() -> None:
    turns = turns_with([1.0, 1.0], [2.0, 2.0], 5)
    assert slowdown(turns, np.ones(NODES), 2).pauses == ((0.0,) * WAITS,) * 2
    pause_s = np.where(turns.others == 1, 9e-5, 3e-5)
    found = slowdown(replace(turns, pause_s=pause_s, others=1 - turns.others), np.ones(NODES), 2)
    assert found.pauses == ((3e-5,) * WAITS, (9e-5,) * WAITS)
    assert found.data(["a", "b", "c"])["pauses"] == found.pauses


def test_too_few_pauses_beside_some_number_of_workers_count_with_all_others() -> None:
    turns = turns_with([1.0, 1.0], [2.0, 2.0], 5)
    few = (turns.beside == 1) & (np.cumsum(turns.beside) >= WAITS)
    found = slowdown(replace(turns, pause_s=np.where(few, np.nan, 4e-5)), np.ones(NODES), 2)
    assert found.pauses == ((4e-5,) * WAITS,) * 2


def test_a_delivery_is_measured_with_the_last_results_once_more() -> None:
    runtime, rows = ProbedRuntime(LocalSetup({}, MemorySink())), pa.record_batch({"n": [1, 2, 3]})
    runtime._pool = SimpleNamespace(current_node=[0, None])  # type: ignore[assignment]
    results = Results()

    def turn(events: int) -> int:
        results.emit("t", rows, 1.0)
        return events

    node: Any = SimpleNamespace(results=results, turn=turn)
    runtime._ask_after(node)
    assert node.turn(5) == 5
    assert [(each.table, each.rows.num_rows) for each in results.buffer.take()] == [("t", 3), ("t", 3)]
    node.turn(5)  # the first question has not been answered
    assert len(results.buffer.take()) == 1


def trace(node: Any, *turns: tuple[float, float, int]) -> Any:
    """Turns of a node that begin and end at times, each on a worker."""
    made = [TracedTurn(1, 0, 0, 0.0, end - begin, None, 0, 0.0, worker=on, began_s=begin) for begin, end, on in turns]
    return SimpleNamespace(node=node, turns=made)


def test_a_worker_wakes_up_from_the_end_of_the_turn_that_gave_it_something_to_do() -> None:
    channel = object()
    writer, reader = SimpleNamespace(inputs=[], outputs=[channel]), SimpleNamespace(inputs=[channel], outputs=[])
    found = turn_waits(
        [trace(writer, (0.0, 1.0, 0), (2.0, 3.0, 0), (3.5, 4.5, 0)), trace(reader, (1.25, 2.5, 1), (3.125, 5.0, 1))]
    )
    assert np.isnan(found[0][:, 0]).all()  # the source could be polled again while its worker was busy
    assert found[0][1:, 1].tolist() == [1.0, 0.5]
    assert found[1][:, 0].tolist() == [0.25, 0.125]
    assert np.isnan(found[1][:, 1]).all()


def test_a_worker_that_was_busy_had_not_to_wake_up() -> None:
    channel = object()
    writer, reader = SimpleNamespace(inputs=[], outputs=[channel]), SimpleNamespace(inputs=[channel], outputs=[])
    found = turn_waits([trace(writer, (0.0, 1.0, 0), (1.0, 2.0, 0)), trace(reader, (1.5, 3.0, 1), (3.25, 4.0, 1))])
    assert np.isnan(found[1][1, 0])
    assert found[1][1, 1] == 0.25
    assert found[1][:, 2:].tolist() == [[1, 1], [0, 0]]


def test_contention_is_measured_at_rates_and_as_fast_as_possible() -> None:
    job = workload("ysb").ready(0, Amount(20_000), {"per_s": "1000"}).job
    nodes = node_costs(job.graph, job.sources, 0.1, queues="worker-queue")["nodes"]
    found = contention(job.graph, job.sources, 1e-6, nodes)
    assert set(found) == {"at_rate", "as_fast_as_possible", "nodes", "long_s", "errors"}
    assert set(found["nodes"]) == {node["name"] for node in nodes}
    for part in (found["at_rate"], found["as_fast_as_possible"]):
        assert len(part["work"]) == len(part["turn"]) == len(part["deliveries"]) == len(part["wake_ups"])
        assert len(part["pauses"]) == len(part["turn"]) >= 1
        assert set(part["waits"]) <= set(found["nodes"])
        assert min(*part["work"], *part["turn"], *part["long"]) >= 1.0
        assert len(part["long"]) == len(part["work"])


def test_turns_that_bring_only_a_watermark_count_for_pauses_and_not_for_factors() -> None:
    turns = turns_with([1.0, 1.0], [2.0, 2.0], 7)
    empty = np.arange(len(turns.node)) % 5 == 0
    mixed = replace(
        turns,
        empty=empty,
        wall_s=np.where(empty, 1e-5, turns.wall_s),
        pause_s=np.where(empty, 2e-5, 7e-5),
    )
    found = slowdown(mixed, node_factors(mixed, NODES, 2), 2)
    assert found.turn == pytest.approx((2.0, 2.0), abs=1e-3)
    assert np.mean(found.pauses) == pytest.approx(6e-5, rel=0.05)
    assert errors_of([mixed], mixed, node_factors(mixed, NODES, 2), 2) == pytest.approx([0.0], abs=1e-3)


def test_a_factor_of_work_that_turns_hardly_tell_is_the_usual_one() -> None:
    random = np.random.default_rng(8)
    plain = turns_with([1.0], [2.0], 8)
    hardly = replace(plain, work_s=plain.fixed_s * random.uniform(0.01, 0.02, len(plain.node)))
    noisy = replace(hardly, wall_s=2 * hardly.fixed_s * random.exponential(1.0, len(plain.node)))
    assert slowdown(noisy, np.ones(NODES), 1).work[0] == pytest.approx(1.0, abs=0.1)


def test_turns_with_results_are_modelled_apart_by_what_they_take_longer() -> None:
    plain = turns_with([1.0, 1.0], [2.0, 2.0], 9)
    closes = (plain.node == 1) & (np.arange(len(plain.node)) % 4 == 0)
    more_s = np.where(closes, np.linspace(0.0, 2e-3, len(plain.node)), 0.0)
    mixed = replace(plain, closes=closes, wall_s=plain.wall_s + more_s)
    found = slowdown(mixed, node_factors(mixed, NODES, 2), 2)
    assert found.turn == pytest.approx((2.0, 2.0), abs=1e-3)
    assert set(found.closings) == {1}
    assert np.mean(found.closings[1]) == pytest.approx(float(more_s[closes].mean()), rel=0.02)
    assert max(found.closings[1]) > 1.8e-3
    assert found.data(["a", "b", "c"])["closings"] == {"b": found.closings[1]}
