"""Splitting: what is too large for a worker is divided, what is idle is brought together again."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import ConfigError
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.control.costs import LinkCosts
from shoal.model.control.partitioning import DECLARED, Merge, Partitioning, Split, operator_of
from shoal.model.control.topology import Topology
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.window import tumbling
from shoal.policies.binding.loads import Load, Loads
from shoal.policies.partitioning.splitting import Lasting, Splitting

CARS = Stream("cars", {"ts": "timestamp", "road": "int64"}, time="ts")
GROUPS, WORKERS = 8, 4
GRAPH = Graph.of([CARS.partition_by("road", groups=GROUPS).window(tumbling(1)).aggregate(n=count()).sink("counts")])
INSTANCES = GRAPH.stateful_instances


def loads_of(work: Mapping[InstanceId, float], state_bytes: float = 0.0) -> Loads:
    """Loads under which each instance is busy for so much of the time."""
    return Loads.of(
        {
            instance: Load(cost_s=share, backlog=0, rate_per_s=1, busy_s=share, state_bytes=state_bytes)
            for instance, share in work.items()
        }
    )


def propose(
    work: Mapping[InstanceId, float], partitioning: Partitioning = DECLARED, refused: tuple[InstanceId, ...] = ()
) -> list[object]:
    binding = Binding.of({instance: k % WORKERS for k, instance in enumerate(work)}, WORKERS)
    found = Splitting().propose(loads_of(work), binding, Topology.of(1, WORKERS), GRAPH, partitioning, refused)
    return [each.change for each in found]


def test_an_instance_above_a_workers_share_is_split_into_parts_of_half_a_share() -> None:
    work = dict.fromkeys(INSTANCES, 0.1)
    work[INSTANCES[3]] = 0.7
    assert propose(work) == [Split(INSTANCES[3], 4)]


def test_an_instance_at_a_workers_share_is_left_alone() -> None:
    work = dict.fromkeys(INSTANCES, 0.1)
    work[INSTANCES[3]] = 0.23
    assert propose(work) == []


def test_parts_go_to_the_workers_with_least_to_do() -> None:
    work = dict.fromkeys(INSTANCES, 0.1)
    work[INSTANCES[3]] = 0.7
    binding = Binding.of({instance: k % WORKERS for k, instance in enumerate(INSTANCES)}, WORKERS)
    [proposed] = Splitting().propose(loads_of(work), binding, Topology.of(1, WORKERS), GRAPH, DECLARED)
    assert sorted(proposed.worker_of.values()) == [0, 1, 2]
    assert set(proposed.worker_of).isdisjoint(INSTANCES)


def test_nothing_is_split_where_its_state_takes_longer_to_move_than_is_saved() -> None:
    work = dict.fromkeys(INSTANCES, 0.1)
    work[INSTANCES[3]] = 0.7
    binding = Binding.of({instance: k % WORKERS for k, instance in enumerate(INSTANCES)}, WORKERS)
    heavy = loads_of(work, state_bytes=1e12)
    assert heavy.costs == LinkCosts()
    assert list(Splitting().propose(heavy, binding, Topology.of(1, WORKERS), GRAPH, DECLARED)) == []


def test_idle_parts_of_a_group_are_merged_and_busy_ones_are_not() -> None:
    halves = DECLARED.after(Split(INSTANCES[3]), GRAPH)
    parts = tuple(i for i in halves.instances(GRAPH) if i == INSTANCES[3] or i not in INSTANCES)
    idle = {instance: 0.001 if instance in parts else 0.1 for instance in halves.instances(GRAPH)}
    assert propose(idle, halves) == [Merge(parts)]
    busy = {instance: 0.05 if instance in parts else 0.1 for instance in halves.instances(GRAPH)}
    assert propose(busy, halves) == []


def test_what_was_refused_before_is_not_proposed_again() -> None:
    work = dict.fromkeys(INSTANCES, 0.1)
    work[INSTANCES[3]] = 0.7
    assert propose(work, refused=(INSTANCES[3],)) == []


def test_an_instance_of_an_operator_without_keys_is_left_alone() -> None:
    graph = Graph.of([CARS.window(tumbling(1)).aggregate(n=count()).sink("all")])
    [only] = graph.stateful_instances
    binding = Binding.of({only: 0}, WORKERS)
    found = Splitting().propose(loads_of({only: 0.9}), binding, Topology.of(1, WORKERS), graph, DECLARED)
    assert list(found) == []


def test_nothing_is_proposed_where_nothing_was_done() -> None:
    assert propose(dict.fromkeys(INSTANCES, 0.0)) == []


# less work than 0.1 s is not worth the time of a split
@given(st.lists(st.just(0.0) | st.floats(0.1, 1), min_size=GROUPS, max_size=GROUPS))
def test_if_keys_are_even_no_part_exceeds_a_share_and_asking_again_changes_nothing(shares: list[float]) -> None:
    work: dict[InstanceId, float] = dict(zip(INSTANCES, shares, strict=True))
    partitioning = DECLARED
    for change in propose(work):
        assert isinstance(change, Split)
        after = partitioning.after(change, GRAPH)
        parts = [i for i in after.instances(GRAPH) if i not in partitioning.instances(GRAPH)] + [change.instance]
        each = work[change.instance] / len(parts)
        work |= dict.fromkeys(parts, each)
        assert {operator_of(part) for part in parts} == {operator_of(change.instance)}
        partitioning = after
    share = sum(work.values()) / WORKERS
    assert max(work.values()) <= Splitting().over * share + 1e-9
    assert propose(work, partitioning) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param({"under": 0.6}, "under < part <= over", id="merges what it has just split"),
        pytest.param({"most_parts": 1}, "most_parts must be at least 2", id="parts that divide nothing"),
    ],
)
def test_settings_that_make_no_sense_are_rejected(settings: dict[str, float], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Splitting(**settings)  # type: ignore[arg-type]


def stopping(backlog: float, lasted_s: float = 10.0, growth: float = 0.0) -> list[object]:
    """What is proposed for one large instance on a runtime that stops for it, every instance with such a backlog."""
    loads = Loads.of({i: Load(0.7 if i == INSTANCES[3] else 0.1, backlog, 1.0) for i in INSTANCES})
    binding = Binding.of({instance: k % WORKERS for k, instance in enumerate(INSTANCES)}, WORKERS)
    topology, lasted = Topology.of(1, WORKERS), {INSTANCES[3]: Lasting(lasted_s, growth)}
    found = Splitting(stops=True).propose(loads, binding, topology, GRAPH, DECLARED, (), lasted)
    return [each.change for each in found]


def test_a_run_that_stops_for_a_split_is_not_stopped_for_longer_than_the_split_saves() -> None:
    assert stopping(backlog=0.0) == [Split(INSTANCES[3], 4)]
    # until the horizon of 10 s the instance has 7 s of 14 s, 3.5 s above a share: half of that for half of all results
    assert stopping(backlog=0.5) == [Split(INSTANCES[3], 4)]
    assert stopping(backlog=3.0) == []


def test_a_run_does_not_stop_for_an_instance_that_has_only_just_become_large() -> None:
    assert stopping(backlog=0.5, lasted_s=1.0) == []
    assert Splitting().oversized(loads_of({**dict.fromkeys(INSTANCES, 0.1), INSTANCES[3]: 0.7}), Topology.of(1, 4)) == {
        INSTANCES[3]
    }


def test_a_run_stops_for_an_instance_that_falls_behind() -> None:
    # its results, half of all, wait for 2.1 s now and 2.8 s on average; those of others for 1.05 s while the run stops
    assert stopping(backlog=3.0, lasted_s=3.0, growth=0.5) == [Split(INSTANCES[3], 4)]
    assert stopping(backlog=3.0, lasted_s=3.0, growth=0.0) == []
    assert stopping(backlog=3.0, lasted_s=3.0, growth=-0.5) == []
    # it has only just become so large, and the others would have to wait
    assert stopping(backlog=3.0, lasted_s=0.5, growth=0.5) == []


def test_a_run_that_stops_for_a_merge_waits_until_nothing_is_left_to_do() -> None:
    halves = DECLARED.after(Split(INSTANCES[3]), GRAPH)
    parts = tuple(i for i in halves.instances(GRAPH) if i == INSTANCES[3] or i not in INSTANCES)
    binding = Binding.of({instance: k % WORKERS for k, instance in enumerate(halves.instances(GRAPH))}, WORKERS)
    for backlog, merged in ((0.0, [Merge(parts)]), (1.0, [])):
        idle = {i: Load(0.001 if i in parts else 0.1, backlog, 1.0) for i in halves.instances(GRAPH)}
        found = Splitting(stops=True).propose(Loads.of(idle), binding, Topology.of(1, WORKERS), GRAPH, halves)
        assert [each.change for each in found] == merged
