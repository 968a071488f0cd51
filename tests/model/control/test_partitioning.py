"""Partitionings: what changes do to slots and instances."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import PartitioningError
from shoal.language.python.stream import Stream
from shoal.model.control.partitioning import (
    DECLARED,
    SLOTS,
    Change,
    Merge,
    Partitioning,
    Regroup,
    Split,
    instance_id,
    number_of,
    operator_of,
)
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph, InstanceId, Operator
from shoal.model.query.window import tumbling

CARS = Stream("cars", {"ts": "timestamp", "road": "int64", "lane": "int64"}, time="ts")
GROUPS = 3


def graph_of(groups: int = GROUPS) -> Graph:
    counted = CARS.partition_by("road", groups=groups).window(tumbling(1)).aggregate(n=count())
    return Graph.of([counted.sink("counts")])


def the_operator(graph: Graph) -> Operator:
    return next(operator for operator in graph.operators.values() if operator.kind == "aggregate")


@st.composite
def changed(draw: st.DrawFn) -> tuple[Graph, list[Partitioning]]:
    """Partitionings that follow from each other by random changes."""
    graph = graph_of(draw(st.integers(1, 4)))
    operator = the_operator(graph)
    found = [DECLARED]
    for _ in range(draw(st.integers(1, 6))):
        try:
            found.append(found[-1].after(draw(changes(found[-1].instances_of(operator), operator)), graph))
        except PartitioningError:
            continue
    return graph, found


def changes(instances: Sequence[InstanceId], operator: Operator) -> st.SearchStrategy[Change]:
    one = st.sampled_from(instances)
    return st.one_of(
        st.builds(Split, one, st.integers(2, 5)),
        st.builds(Regroup, st.just(operator.id), st.integers(1, 9)),
        st.builds(Merge, st.lists(one, min_size=2, max_size=3, unique=True).map(tuple))
        if len(instances) > 1
        else st.builds(Split, one),
    )


@given(changed())
def test_every_slot_has_one_instance_after_any_changes(case: tuple[Graph, list[Partitioning]]) -> None:
    graph, partitionings = case
    operator = the_operator(graph)
    for partitioning in partitionings:
        owned = [number for group in operator.instances for number in partitioning.slots(group)]
        assert len(owned) == operator.groups * SLOTS
        assert {instance_id(operator.id, n) for n in owned} == set(partitioning.instances_of(operator))
        assert partitioning.instances(graph) == partitioning.instances_of(operator)


@given(changed())
def test_heirs_have_exactly_the_slots_that_changed_hands(case: tuple[Graph, list[Partitioning]]) -> None:
    graph, partitionings = case
    operator = the_operator(graph)
    before, after = partitionings[0], partitionings[-1]
    heirs = before.heirs(after, graph)
    pairs = {
        (instance_id(operator.id, old), instance_id(operator.id, new))
        for group in operator.instances
        for old, new in zip(before.slots(group), after.slots(group), strict=True)
    }
    for instance in before.instances_of(operator):
        named = {new for old, new in pairs if old == instance}
        fed = {old for old, new in pairs if new == instance}
        if named == {instance} and fed == {instance}:
            assert instance not in heirs
        else:
            assert set(heirs[instance]) == named


def test_as_many_groups_as_were_declared_are_the_declared_ones() -> None:
    graph = graph_of()
    operator = the_operator(graph)
    changed = DECLARED.after(Regroup(operator.id, 7), graph).after(Regroup(operator.id, GROUPS), graph)
    assert changed.entries == ()
    assert changed.version == 2


def test_a_split_instance_that_is_merged_again_is_as_before() -> None:
    graph = graph_of()
    first = graph.stateful_instances[0]
    halves = DECLARED.after(Split(first), graph)
    new = next(i for i in halves.instances(graph) if i not in graph.stateful_instances)
    assert number_of(new) == GROUPS
    assert halves.after(Merge((first, new)), graph).entries == ()


def test_operators_that_are_gone_are_forgotten() -> None:
    graph = graph_of()
    halves = DECLARED.after(Split(graph.stateful_instances[0]), graph)
    assert halves.fitted(graph) is halves
    assert halves.fitted(graph_of(2)).entries == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda i: Split(i, 1), "can be split into 2 to 64 parts; got 1", id="one part"),
        pytest.param(lambda i: Split(i, 65), "can be split into 2 to 64 parts; got 65", id="more parts than slots"),
        pytest.param(lambda i: Split(InstanceId(i[:-1] + "9")), "there is no instance", id="an unknown instance"),
        pytest.param(lambda _: Split(InstanceId("nobody/0")), "there is no operator 'nobody'", id="unknown operator"),
        pytest.param(lambda i: Merge((i,)), "merge needs two or more different instances", id="one instance"),
        pytest.param(lambda i: Merge((i, i)), "merge needs two or more different instances", id="the same twice"),
        pytest.param(
            lambda i: Merge((i, InstanceId("other/0"))), "of one operator", id="instances of different operators"
        ),
        pytest.param(lambda i: Regroup(operator_of(i), 0), "can have 1 to 192 instances", id="no groups"),
        pytest.param(lambda i: Regroup(operator_of(i), 193), "can have 1 to 192 instances", id="too many groups"),
    ],
)
def test_a_change_that_makes_no_sense_is_rejected(change: object, reason: str) -> None:
    graph = graph_of()
    with pytest.raises(PartitioningError, match=reason):
        DECLARED.after(change(graph.stateful_instances[0]), graph)  # type: ignore[operator]


def test_an_operator_without_keys_cannot_be_divided() -> None:
    graph = Graph.of([CARS.window(tumbling(1)).aggregate(n=count()).sink("all")])
    with pytest.raises(PartitioningError, match="has no keys, so that its state cannot be divided"):
        DECLARED.after(Split(graph.stateful_instances[0]), graph)


def test_a_group_must_name_an_instance_for_every_slot() -> None:
    with pytest.raises(PartitioningError, match="must name an instance for each of its 64 slots"):
        Partitioning(1, ((InstanceId("a/0"), (0, 1)),))
