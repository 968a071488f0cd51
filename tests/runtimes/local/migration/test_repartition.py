"""Instances that are split and merged while a local run goes on, among moves: no result changes."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.random_graphs import cases
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import Controlled, Rows
from tests.runtimes.local.fragile import losing
from tests.runtimes.local.migration.test_rebinding import shuffle_in_any_way
from tests.runtimes.local.nudged import Nudged
from tests.runtimes.local.witness import Witness
from tests.small_city import city, digest, result_tables

from shoal.model.control.messages import EpochCommitted, Rebind, Repartition
from shoal.model.control.partitioning import DECLARED, Merge, Regroup, Split, operator_of
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.divided_lanes import DividedLanes
from shoal.runtimes.local.migration.key_slots import ROOM
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.stop_the_world import PausedLane
from shoal.runtimes.local.scheduling.bound_pool import QUEUES, BoundPool
from shoal.session.digest import differences
from shoal.session.partitions import changed, random_changes
from shoal.session.run import Run, start


@dataclass(frozen=True)
class Kind:
    """How instances move meanwhile, the class of parts, and the most workers."""

    move: Callable[[DividedLanes], object]
    part: type[MovingLane] = MovingLane
    most: int = 0


KINDS = {
    "while the run goes on": Kind(DividedLanes.request_all),
    "while workers come and go": Kind(DividedLanes.request_all, most=5),
    "at barriers": Kind(lambda divided_lanes: divided_lanes.move_at_barrier(0.0), PausedLane),
    "at barriers while workers come and go": Kind(
        lambda divided_lanes: divided_lanes.move_at_barrier(0.0), PausedLane, most=5
    ),
}


def disturb(controlled: Controlled, kind: Kind, draw: random.Random) -> None:
    """Sometimes split, merge, or bind elsewhere; then advance all changes."""
    divided_lanes, graph = controlled.divided_lanes, controlled.graph
    if draw.random() < 0.3:
        reason = divided_lanes.repartition(asked_at_random(divided_lanes, graph, draw))
        assert reason == "" or "has room for" in reason
    if draw.random() < 0.2:
        workers = draw.randint(1, controlled.most)
        wanted = shuffled(graph, workers, draw.randrange(1 << 30), divided_lanes.asked_partitioning)
        assert divided_lanes.set_target(wanted) == ""
    if kind.part is MovingLane and draw.random() < 0.5:
        controlled.request(draw)
    divided_lanes.advance()
    kind.move(divided_lanes)
    assert_consistent(divided_lanes, graph)
    controlled.check()


def asked_at_random(divided_lanes: DividedLanes, graph: Graph, draw: random.Random) -> Repartition:
    """Changes to the last partitioning; one instance is bound to the first worker."""
    changes = random_changes(graph, divided_lanes.asked_partitioning, draw)
    instances = changed(divided_lanes.asked_partitioning, changes, graph).instances(graph)
    return Repartition(changes, {draw.choice(instances): 0} if instances else {})


def assert_consistent(divided_lanes: DividedLanes, graph: Graph) -> None:
    """Binding and partitioning have the same instances."""
    binding, partitioning = divided_lanes.current()
    assert set(binding.worker_of) == set(partitioning.instances(graph))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 3), st.integers(1, 64), st.sampled_from([0.05, 0.3]), st.integers(0, 2**32))
def test_any_order_of_turns_splits_merges_and_moves_gives_the_results_of_none(
    kind: Kind, case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int
) -> None:
    graph, rows = case
    controlled = Controlled(graph, rows, workers, Sizes(block_rows, 2, 2), kind.part, kind.most)
    controlled.run(random.Random(seed), share, lambda draw: disturb(controlled, kind, draw))
    controlled.assert_right(rows)
    assert_consistent(controlled.divided_lanes, graph)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_rows_of_every_key_come_once_and_in_order(kind: Kind, seed: int) -> None:
    draw = random.Random(seed)
    rows, observed = witness.numbered(300), Witness()
    sizes = Sizes(draw.randint(1, 20), 2, 2)
    controlled = Controlled(witness.graph(), rows, 1 + seed, sizes, kind.part, kind.most)
    with observed.watching():
        controlled.run(draw, 0.1, lambda draw: disturb(controlled, kind, draw))
    observed.assert_in_order_by_key(rows)
    controlled.assert_right(rows)
    assert controlled.divided_lanes.current()[1].version > 3


def change(nudged: Nudged) -> None:
    """Split, merge and move at every fourth poll."""
    if nudged.draw.random() < 0.25:
        divided_lanes = nudged.runtime._divided_lanes
        assert divided_lanes is not None
        nudged.runtime.apply(asked_at_random(divided_lanes, nudged.graph, nudged.draw))
        asked = divided_lanes.asked_partitioning
        nudged.runtime.apply(Rebind(shuffled(nudged.graph, nudged.workers, nudged.draw.randrange(1 << 30), asked)))


def assert_whole(nudged: Nudged) -> None:
    """Every report has the same instances in binding, partitioning and loads, and none was refused."""
    assert [reason for reason in nudged.refused if "has room for" not in reason] == []
    for report in nudged.reports:
        snapshot = report.snapshot
        assert set(snapshot.binding.worker_of) == set(snapshot.partitioning.instances(nudged.graph))
        assert set(snapshot.loads) == set(snapshot.binding.worker_of)
        assert all(load.backlog >= 0 for load in snapshot.loads.values())


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    **{design: {"queues": design} for design in QUEUES},
    "at barriers": {"mechanism": "all-at-once"},
}


@pytest.mark.parametrize("seed", range(2))
def test_on_threads_moves_by_any_mechanism_change_no_result_while_instances_are_split_and_merged(seed: int) -> None:
    def act(nudged: Nudged) -> None:
        change(nudged)
        shuffle_in_any_way(nudged)

    nudged = Nudged(witness.graph(), witness.numbered(300), 3, act, seed).run()
    nudged.assert_right()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_on_threads_rows_of_every_key_come_once_and_in_order(options: Mapping[str, Any]) -> None:
    rows, observed = witness.numbered(900), Witness()
    nudged = Nudged(witness.graph(), rows, 3, change, 1, dict(options))
    with observed.watching():
        nudged.run()
    nudged.assert_right()
    observed.assert_in_order_by_key(rows)
    assert_whole(nudged)
    last = nudged.reports[-1].snapshot
    assert last.partitioning.version > 0
    events = sum(load.events for report in nudged.reports for load in report.snapshot.loads.values())
    assert events == 3 * 900 + sum(row["met"] for row in nudged.results()["met"])


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 4), st.sampled_from(sorted(OPTIONS)), st.integers(0, 2**32))
def test_on_threads_no_result_of_any_graph_changes(
    case: tuple[Graph, Rows], workers: int, options: str, seed: int
) -> None:
    nudged = Nudged(*case, workers, change, seed, dict(OPTIONS[options])).run()
    nudged.assert_right()
    assert_whole(nudged)


@pytest.mark.parametrize("taken", [False, True], ids=["between two turns", "with a turn in hand"])
def test_workers_may_be_lost_meanwhile(taken: bool) -> None:
    rows, observed = witness.numbered(600), Witness()
    nudged = Nudged(witness.graph(), rows, 3, change, 5)
    with observed.watching(), losing(BoundPool, {0: 20, 2: 30}, taken=taken):
        nudged.run()
    nudged.assert_right()
    observed.assert_in_order_by_key(rows)


FIRST = witness.graph().stateful_instances[0]
OPERATOR = operator_of(FIRST)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        pytest.param(Repartition((Split(InstanceId("nobody/0")),)), "there is no operator 'nobody'", id="nobody"),
        pytest.param(Repartition((Regroup(OPERATOR, 0),)), "can have 1 to", id="no groups"),
        pytest.param(Repartition((Merge((FIRST,)),)), "merge needs two or more different instances", id="one alone"),
        pytest.param(
            Repartition((Split(FIRST),), {InstanceId("nobody/0"): 0}),
            "the binding names instance 'nobody/0', which the partitioning does not have",
            id="an instance that will not exist",
        ),
        pytest.param(
            Repartition((Split(FIRST),), {FIRST: 7}), "is bound to worker 7; there are workers 0..1", id="no worker"
        ),
        pytest.param(
            Repartition((Regroup(OPERATOR, witness.KEYS + ROOM + 1),)),
            f"has room for {witness.KEYS + ROOM} instances",
            id="more than there is room for",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(command: Repartition, reason: str) -> None:
    controlled = Controlled(witness.graph(), witness.numbered(5), 2, Sizes(20, 2, 2))
    assert reason in controlled.divided_lanes.repartition(command)
    assert controlled.divided_lanes.current()[1] == controlled.divided_lanes.asked_partitioning == DECLARED
    controlled.run(random.Random(0), 0.0)


def test_instances_are_split_only_where_they_are_bound() -> None:
    def split(nudged: Nudged) -> None:
        nudged.runtime.apply(Repartition((Split(FIRST),)))

    nudged = Nudged(witness.graph(), witness.numbered(50), 2, split, options={"queues": None}).run()
    nudged.assert_right()
    assert set(nudged.refused) == {"instances are bound to workers only with queues; set queues=worker-queue"}


def test_an_instance_that_was_merged_cannot_be_bound_any_more() -> None:
    graph = witness.graph()
    controlled = Controlled(graph, witness.numbered(5), 2, Sizes(20, 2, 2))
    merged = InstanceId(f"{OPERATOR}/1")
    assert controlled.divided_lanes.repartition(Repartition((Merge((FIRST, merged)),))) == ""
    assert f"the binding names instance {merged!r}" in controlled.divided_lanes.set_target(shuffled(graph, 2, 0))
    controlled.run(random.Random(0), 0.0)


def test_splits_and_merges_of_the_small_city_change_no_result() -> None:
    draw, ready = random.Random(1), city(rows_per_epoch=300)
    asked = [DECLARED]

    def disturb_city(run: Run, _: EpochCommitted) -> None:
        if run.partitioning == asked[-1]:
            changes = random_changes(run.graph, run.partitioning, draw)
            asked.append(changed(run.partitioning, changes, run.graph))
            run.runtime.apply(Repartition(changes))

    undisturbed = start(city().job, on="local", workers=2, conf={"queues": "worker-queue"})
    undisturbed.wait()
    run = start(ready.job, on="local", workers=2, conf={"queues": "worker-queue"})
    run.wait(disturb_city)
    assert run.partitioning.version > 0
    assert run.refused == []
    assert digest(run) == digest(undisturbed)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
