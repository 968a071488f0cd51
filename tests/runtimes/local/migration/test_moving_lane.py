"""Instances move while the run goes on: no order of turns changes a result."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.random_graphs import cases
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import EXACT_WAYS, Controlled, Rows, way_named
from tests.runtimes.local.witness import Witness
from tests.test_random_graphs import canonical

from shoal.connectors.admission import DEAD_LETTERS
from shoal.language.python.stream import Stream
from shoal.model.control.messages import LostState
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Graph
from shoal.model.query.window import hop, tumbling
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.dataflow.split import MovingSplit
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.moving_lane import MovingLane
from shoal.runtimes.local.migration.part_messages import Arrival
from shoal.runtimes.local.migration.stop_the_world import OwnerChange, PausedLane


@dataclass(frozen=True)
class Kind:
    """An action between turns, the class of parts, and the most workers."""

    act: Callable[[Controlled, random.Random], None]
    part: type[MovingLane] = MovingLane
    most: int = 0


KINDS = {
    "instances requested one by one": Kind(Controlled.request),
    "instances whose state may come later": Kind(Controlled.request_in_any_way),
    "workers that come and go": Kind(Controlled.pursue, most=5),
    "all at once at a barrier": Kind(Controlled.change, PausedLane),
    "workers that come and go at barriers": Kind(Controlled.change, PausedLane, most=5),
    "both ways in turn": Kind(Controlled.mix, PausedLane, most=5),
}
SHARES = st.sampled_from([0.05, 0.3, 0.8])


ANY_RUN = (cases(), st.integers(1, 3), st.integers(1, 64), SHARES, st.integers(0, 2**32))


def first(quick: int, seeds: int) -> list[Any]:
    """A number of seeds; all but the first are slow tests."""
    return [pytest.param(seed, marks=() if seed < quick else pytest.mark.slow) for seed in range(seeds)]


def check(kind: Kind, case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int) -> None:
    graph, rows = case
    controlled = Controlled(graph, rows, workers, Sizes(block_rows, 2, 2), kind.part, kind.most)
    controlled.run(random.Random(seed), share, lambda draw: kind.act(controlled, draw))
    controlled.assert_right(rows)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(*ANY_RUN)
def test_any_order_of_turns_and_moves_gives_the_results_of_no_moves(
    kind: Kind, case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int
) -> None:
    check(kind, case, workers, block_rows, share, seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(*ANY_RUN)
def test_many_more_orders_of_turns_and_moves_give_the_results_of_no_moves(
    kind: Kind, case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int
) -> None:
    check(kind, case, workers, block_rows, share, seed)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", first(2, 12))
def test_rows_come_to_every_instance_once_and_in_order(kind: Kind, seed: int) -> None:
    draw = random.Random(seed)
    rows, observed = witness.numbered(300), Witness()
    sizes = Sizes(draw.randint(1, 20), 2, 2)
    controlled = Controlled(witness.graph(), rows, 1 + seed % 4, sizes, kind.part, kind.most)
    with observed.watching():
        controlled.run(draw, draw.choice([0.05, 0.3]), lambda draw: kind.act(controlled, draw))
    observed.assert_in_order(rows)
    controlled.assert_right(rows)
    assert controlled.moves > 0 or (seed % 4 == 0 and not kind.most)


def test_a_move_is_reported_if_a_barrier_moves_its_instance_on_before_it_has_settled() -> None:
    controlled = Controlled(hops(), witness.numbered(50), 2, Sizes(5, 2, 2), PausedLane)
    (lane,) = controlled.divided_lanes.lanes
    parts = [part for part in lane.parts if isinstance(part, PausedLane)]
    instance = min(parts[0]._own)
    lost = LostState(1, 2, 1, 10, 0.5)
    (state,) = parts[0]._state.take_out([instance]).values()
    parts[0]._own.remove(instance)
    lane.ownership.give(0, {instance: 1})
    before = lane.ownership.owner.copy()
    parts[1]._arrive(Arrival(instance, state, 0, 10, time.perf_counter(), lost=lost))
    for number in range(len(parts[1].inputs)):
        parts[1]._incoming[instance].drain(number)
    assert parts[1]._incoming[instance].complete  # it would settle in the next turn
    before[instance] = 0
    change = OwnerChange(lane.ownership, parts, before)
    change.release()
    change.finish(time.perf_counter())
    made = [move for reports in lane.ownership.finished_moves for move in reports]
    made.sort(key=lambda move: move.ended_s)
    assert [(move.instance, move.source, move.target, move.lost) for move in made] == [
        (instance, 0, 1, lost),
        (instance, 1, 0, None),
    ]
    controlled.allocator.close()
    controlled.directory.cleanup()


LAZY: dict[str, Callable[[Node], bool]] = {
    "what it says is late": lambda node: isinstance(node, MovingSplit) and node.stream is None and node.home > 0,
    "what it does is late": lambda node: isinstance(node, MovingLane) and bool(node.sleep.downstream) and node.home > 0,
}


@pytest.mark.parametrize("lazy", LAZY.values(), ids=LAZY)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", first(1, 6))
def test_no_watermark_is_ahead_of_the_results_of_a_part_that_has_just_woken_up(
    kind: Kind, lazy: Callable[[Node], bool], seed: int
) -> None:
    draw, rows = random.Random(seed), witness.numbered(300)
    controlled = Controlled(witness.graph(), rows, 1, Sizes(20, 2, 2), kind.part, most=3)
    controlled.run(draw, 0.1, lambda draw: kind.act(controlled, draw), lazy)
    controlled.assert_right(rows)
    assert controlled.moves > 0


def test_a_part_that_wakes_up_does_not_advance_before_all_splits_have_notified_it() -> None:
    rows = witness.numbered(300)
    controlled = Controlled(witness.graph(), rows, 1, Sizes(20, 2, 2), most=2)
    controlled.drain(asked=3)
    first = next(part for part in controlled.parts if part.home == 1 and part.sleep.downstream)
    behind = next(
        part for part in controlled.parts if part.home == 1 and part.sleep in dict(first.sleep.downstream).values()
    )
    between = next(n for n in controlled.nodes if isinstance(n, MovingSplit) and n.home == 1 and n.stream is None)
    for instance in range(1, witness.KEYS):
        first.request(instance)
    controlled.drain(asked=3)
    assert not first.sleep.asleep
    assert behind.sleep.asleep  # and has not read that the first has woken up
    for instance in range(witness.KEYS):
        behind.request(instance)
    controlled.drain(without=[first, between], asked=8)  # it wakes up, while the first is slow
    controlled.drain(without=[first])  # and is notified
    while not all(node.ended for node in controlled.nodes if isinstance(node, SourceNode)):
        controlled.drain(asked=1)
    controlled.drain()
    controlled.end()
    controlled.assert_right(rows)
    assert controlled.moves == 2 * witness.KEYS - 1


def hops() -> Graph:
    """Windows that overlap."""
    left = Stream("left", witness.SCHEMA, time="ts")
    hopping = left.partition_by("k", groups=witness.KEYS).window(hop(0.010, 0.002))
    return Graph.of([hopping.aggregate(rows=count(), total=sum_("n")).sink("hops")])


def outcome(kind: Kind, graph: Graph, rows: Rows, share: float, seed: int) -> dict[str, list[str]]:
    """The results and dead letters of a run with some moves, or none."""
    controlled = Controlled(graph, rows, 3, Sizes(20, 2, 2), kind.part, kind.most, as_given=True)
    controlled.run(random.Random(seed), share, lambda draw: kind.act(controlled, draw))
    assert controlled.moves > 0 or not share
    return {table: canonical(each) for table, each in controlled.results().items()}


def out_of_order(draw: random.Random, rows: int) -> list[dict[str, int]]:
    """Rows that come up to 12 ms after later ones."""
    times = [1000 * max(0, n - draw.randint(0, 12)) for n in range(rows)]
    return [{"ts": ts, "k": n * 7 % witness.KEYS, "n": n} for n, ts in enumerate(times)]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", first(3, 12))
def test_rows_that_are_late_for_some_of_their_windows_count_in_the_others_only(kind: Kind, seed: int) -> None:
    rows = {"left": out_of_order(random.Random(seed), 200)}
    assert outcome(kind, hops(), rows, 0.3, seed) == outcome(kind, hops(), rows, 0, seed)


def merged() -> Graph:
    """Windows over two streams."""
    left, right = (Stream(name, witness.SCHEMA, time="ts") for name in ("left", "right"))
    both = left.union(right).partition_by("k", groups=witness.KEYS).window(tumbling(0.004))
    return Graph.of([both.aggregate(rows=count(), total=sum_("n")).sink("merged")])


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", first(2, 12))
def test_rows_are_late_by_their_own_stream_wherever_their_instance_is(kind: Kind, seed: int) -> None:
    draw = random.Random(seed)
    rows = {"left": out_of_order(draw, 150), "right": out_of_order(draw, 150)}
    wanted = outcome(kind, merged(), rows, 0, seed)
    assert wanted[DEAD_LETTERS]
    assert outcome(kind, merged(), rows, 0.3, seed) == wanted


@pytest.mark.parametrize("seed", first(2, 6))
def test_the_rows_that_are_missing_from_results_are_those_that_were_reported_as_dropped(seed: int) -> None:
    losses = [loss for number in range(4) for loss in dropped(random.Random(f"{seed}/{number}"))]
    assert sum(each.rows for each in losses) > 0
    assert all(each.share == 1 and each.keys == 1 and each.state_bytes > 0 for each in losses if each.fragments)
    assert {loss.query for each in losses for loss in each.queries} == {"counted"}


def dropped(draw: random.Random) -> list[LostState]:
    """What a run with moves of all kinds has reported as lost, which is what its results lack."""
    left = Stream("left", witness.SCHEMA, time="ts")
    counted = left.partition_by("k", groups=witness.KEYS).window(tumbling(0.020)).aggregate(rows=count())
    controlled = Controlled(Graph.of([counted.sink("counted")]), witness.numbered(400), 3, Sizes(20, 2, 2))
    drop = way_named("drop")
    assert drop is not None

    def act(draw: random.Random) -> None:
        part = draw.choice(controlled.parts)
        part.request(draw.randrange(witness.KEYS), draw.choice([drop, *EXACT_WAYS]))

    controlled.run(draw, 0.1, act)
    losses = [made.lost for _, made in controlled.divided_lanes.finished_moves() if made.lost is not None]
    lost = sum(each.rows for each in losses)
    assert sum(row["rows"] for row in controlled.results()["counted"]) == 400 - lost
    return losses
