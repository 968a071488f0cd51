"""SWARM: stages of the decision, what a costly worker gives away, and merges."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.kernels.spatial.statistics import PartitionStatistics
from shoal.model.control.partitioning import Cut, Merge, instance_id
from shoal.model.query.graph import InstanceId, OperatorId
from shoal.model.spatial.arrivals import BEGUN, POINTS, TileArrivals
from shoal.model.spatial.tiles import Tile, halvings
from shoal.policies.partitioning.swarm.decision_stages import LAST, MIDDLE, DecisionStages
from shoal.policies.partitioning.swarm.plane import Plane, PlanePartition
from shoal.policies.partitioning.swarm.reduction import Reduction, reduced, reduction, reductions, searched, subset
from shoal.policies.partitioning.swarm.relief import relieving
from shoal.policies.partitioning.swarm.rounds import Swarm, SwarmMemory, laid_out, merges

OPERATOR = OperatorId("ab12")


def statistics(tile: Tile, points: int, ranges: int = 10, *, column: int | None = None) -> PartitionStatistics:
    """A tile with points in all cells, or in one of its columns only, and ranges of one cell."""
    came = TileArrivals.none(tile)
    for counts, kind, number in ((came.rows, POINTS, points), (came.rows, BEGUN, ranges)):
        counts[kind] = _spread(number, tile.rows)
    for kind, number in ((POINTS, points), (BEGUN, ranges)):
        came.columns[kind] = _spread(number, tile.columns)
        if column is not None:
            came.columns[kind] = 0
            came.columns[kind, column] = number
    return PartitionStatistics.none(tile).with_arrivals(came).closing()


def _spread(number: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(size, number // size, np.int64) + (np.arange(size) < number % size)


def plane(points: Sequence[int], workers: Sequence[int]) -> Plane:
    """Tiles of a grid of 16 x 16 cells with some points each, on the given workers."""
    tiles = halvings(16, 16, len(points))
    several = zip(tiles, points, workers, strict=True)
    partitions = [PlanePartition(instance(n), w, statistics(t, p)) for n, (t, p, w) in enumerate(several)]
    return Plane(tuple(partitions), max(workers) + 1)


def instance(number: int) -> InstanceId:
    return instance_id(OPERATOR, number)


def test_a_decision_is_kept_while_throughput_rises() -> None:
    stages = DecisionStages()
    for throughput in range(1, 10):
        stages = stages.after(float(throughput))
    assert stages.pointer == LAST
    assert not stages.rebalances


def test_two_rounds_without_more_throughput_flip_the_decision() -> None:
    stages = DecisionStages(throughput=5.0).after(5.0)
    assert (stages.pointer, stages.rebalances) == (MIDDLE - 1, False)
    stages = stages.after(4.0)
    assert (stages.pointer, stages.rebalances, stages.taken) == (MIDDLE, True, 1)


def test_the_same_decision_is_taken_beta_times_at_most() -> None:
    stages, decisions = DecisionStages(), []
    for throughput in range(1, 13):
        stages = stages.after(float(throughput), beta=5)
        decisions.append(stages.rebalances)
    assert decisions == [False] * 5 + [True] * 5 + [False] * 2


@given(st.lists(st.floats(0, 100), max_size=60), st.integers(1, 6))
def test_the_pointer_stays_within_the_stages(throughputs: list[float], beta: int) -> None:
    stages, streak = DecisionStages(), 0
    for throughput in throughputs:
        after = stages.after(throughput, beta)
        streak = streak + 1 if after.rebalances == stages.rebalances else 1
        assert 0 < after.pointer <= LAST
        assert streak <= beta
        stages = after


def test_whole_partitions_move_if_they_fit() -> None:
    found = reduction(plane([400, 100, 100, 10], [0, 0, 0, 1]))
    assert found is not None
    assert (found.kind, found.source, found.target, found.instances) == ("move", 0, 1, (instance(1), instance(2)))
    assert max(found.after) < found.before[0]


def test_a_single_hot_partition_is_split_so_that_both_cost_the_same() -> None:
    found = reduction(plane([800, 20], [0, 1]))
    assert found is not None
    assert found.cut is not None
    assert found.kind == "split"
    assert found.after[0] == pytest.approx(found.after[1], rel=0.6)
    assert max(found.after) < found.before[0] / 2


def test_a_hot_column_is_not_split_along_itself() -> None:
    hot = PlanePartition(instance(0), 0, statistics(Tile(0, 0, 16, 16), 800, column=5))
    found = reduction(Plane((hot, PlanePartition(instance(1), 1, statistics(Tile(16, 0, 17, 16), 0))), 2))
    assert found is not None
    assert found.cut is not None
    assert found.cut.axis == "row"


def test_the_next_worker_gives_if_the_costliest_cannot() -> None:
    cell = PlanePartition(instance(0), 0, statistics(Tile(0, 0, 1, 1), 900))
    warm = PlanePartition(instance(1), 1, statistics(Tile(1, 0, 9, 8), 400))
    cold = PlanePartition(instance(2), 2, statistics(Tile(9, 0, 16, 8), 1))
    found = reduction(Plane((cell, warm, cold), 3))
    assert found is not None
    assert (found.source, found.target) == (1, 2)


def crowded() -> Plane:
    """A worker has a rectangle of two dense cells, and costs a third more than the others, which have five each."""
    dense = statistics(Tile(0, 0, 2, 1), 300, 20).with_cost(13.0).closing()
    tiles = [Tile(2 + column, 0, 3 + column, 16) for column in range(10)]
    others = [statistics(tile, 100).with_cost(2.0).closing() for tile in tiles]
    partitions = [PlanePartition(instance(n + 1), 1 + n // 5, each) for n, each in enumerate(others)]
    return Plane((PlanePartition(instance(0), 0, dense), *partitions), 3, measured=True)


def test_a_worker_of_two_dense_cells_is_relieved_by_an_exchange() -> None:
    assert max(_costs_after(crowded(), reductions(crowded(), 8, 0.05))) == max(crowded().costs)
    found = relieving(crowded(), 8, 0.05)
    assert (found[0].kind, found[0].source, found[0].instances) == ("split", 0, (instance(0),))
    assert max(_costs_after(crowded(), found)) <= 0.95 * max(crowded().costs)


def test_there_is_no_exchange_where_a_round_makes_one_reduction() -> None:
    assert relieving(crowded(), 1) == reductions(crowded(), 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3)), min_size=2, max_size=12), st.integers(1, 8))
def test_an_exchange_leaves_no_worker_with_more_than_reductions_do(drawn: list[tuple[int, int]], most: int) -> None:
    before = plane([points for points, _ in drawn], [worker for _, worker in drawn])
    found = relieving(before, most)
    assert len(found) <= most
    assert max(_costs_after(before, found)) <= max(_costs_after(before, reductions(before, most))) * (1 + 1e-9)


def _costs_after(before: Plane, found: Sequence[Reduction]) -> tuple[float, ...]:
    for each in found:
        before, _ = reduced(before, each)
    return before.costs


@pytest.mark.parametrize("points", [[0, 0], [100, 100]], ids=["nothing has come", "both cost the same"])
def test_nothing_is_given_if_no_cost_can_fall(points: list[int]) -> None:
    assert reduction(plane(points, [0, 1])) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3)), min_size=2, max_size=12))
def test_a_reduction_lowers_its_source_and_predicts_what_the_statistics_say(drawn: list[tuple[int, int]]) -> None:
    before = plane([points for points, _ in drawn], [worker for _, worker in drawn])
    found = reduction(before)
    if found is None:
        return
    after = before.moved(found.instances, found.target)
    if found.cut is not None:
        after, new = before.cut(found.cut, found.target)
        assert new not in {each.instance for each in before.partitions}
    assert max(found.after) < found.before[0]
    np.testing.assert_allclose((after.costs[found.source], after.costs[found.target]), found.after)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40))
def test_the_search_finds_where_a_falling_function_is_nearest_to_zero(values: list[int]) -> None:
    falling = sorted(values, reverse=True)
    found = searched(0, len(falling) - 1, lambda at: float(falling[at]))
    assert abs(falling[found]) == min(map(abs, falling))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=9), st.integers(0, 150))
def test_a_subset_has_at_least_half_of_the_best_sum(drawn: list[int], most: int) -> None:
    costs = sorted(map(float, drawn), reverse=True)
    found = sum(costs[place] for place in subset(costs, most))
    sums = (sum(some) for size in range(len(costs) + 1) for some in combinations(costs, size))
    best = max(each for each in sums if each <= most)
    assert best / 2 <= found <= most


def test_rectangles_of_one_worker_are_merged_in_pairs() -> None:
    assert merges(plane([1, 1, 1, 1], [0, 0, 1, 0])) == (Merge((instance(0), instance(1))),)
    assert merges(plane([1, 1], [0, 1])) == ()


def test_merges_wait_for_their_round() -> None:
    swarm, memory, quiet = Swarm(merge_rounds=2), SwarmMemory(), plane([1, 1, 1, 1], [0, 0, 1, 1])
    memory, first = swarm.decided(memory, quiet, 1.0)
    _, second = swarm.decided(memory, quiet, 0.5)
    assert first == ()
    assert second == (Merge((instance(0), instance(1))), Merge((instance(2), instance(3))))


def test_a_sample_gives_partitions_that_no_reduction_improves() -> None:
    layout = laid_out(plane([1000, 10, 10, 10], [0, 1, 2, 3]))
    assert layout.changes
    assert all(isinstance(change, Cut) for change in layout.changes)
    assert {*layout.worker_of.values()} == {0, 1, 2, 3}
    assert max(layout.after) < max(layout.before) / 4


def test_rounds_below_one_are_rejected() -> None:
    with pytest.raises(ConfigError, match="at least 1; got 0 and 240"):
        Swarm(beta=0)


def test_reductions_of_a_round_follow_from_each_other() -> None:
    before = plane([800, 20, 400, 10], [0, 1, 2, 3])
    found = reductions(before, 5)
    assert len(found) > 1
    costs = [max(before.costs)]
    for each in found:
        assert each.before == (before.costs[each.source], before.costs[each.target])
        before, moved = reduced(before, each)
        assert {p.worker for p in before.partitions if p.instance in moved} == {each.target}
        costs.append(max(before.costs))
    assert costs == sorted(costs, reverse=True)


def test_workers_that_are_even_enough_give_nothing() -> None:
    before = plane([110, 100, 100, 100], [0, 1, 2, 3])
    assert reductions(before, 3)
    assert reductions(before, 3, uneven=0.2) == ()


def test_uneven_workers_are_rebalanced_after_every_round_if_wanted() -> None:
    before = plane([800, 20], [0, 1])
    assert Swarm().decided(SwarmMemory(), before, 1.0)[1] == ()
    _, found = Swarm(rebalance="uneven", reductions=4).decided(SwarmMemory(), before, 1.0)
    assert 1 <= len(found) <= 4
    with pytest.raises(ConfigError, match="reductions must be at least 1; got 0"):
        Swarm(reductions=0)
