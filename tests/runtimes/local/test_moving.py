"""Instances move while everything goes on: in every order in which nodes may take their turns, no result changes."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.random_graphs import cases
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import Controlled, Rows
from tests.runtimes.local.witness import Witness

from shoal.model.graph import Graph
from shoal.runtimes.local.memory import Sizes
from shoal.runtimes.local.standstill import StillLane

SHARES = st.sampled_from([0.05, 0.3, 0.8])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 3), st.integers(1, 64), SHARES, st.integers(0, 2**32))
def test_any_order_of_turns_and_moves_gives_the_answers_of_no_moves(
    case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int
) -> None:
    graph, rows = case
    controlled = Controlled(graph, rows, workers, Sizes(block_rows, 2, 2))
    controlled.run(random.Random(seed), share)
    controlled.assert_right(rows)


@pytest.mark.parametrize("seed", range(12))
def test_rows_come_to_every_instance_once_and_in_order(seed: int) -> None:
    draw = random.Random(seed)
    rows, seen = witness.numbered(300), Witness()
    controlled = Controlled(witness.graph(), rows, 1 + seed % 4, Sizes(draw.randint(1, 20), 2, 2))
    with seen.watching():
        controlled.run(draw, draw.choice([0.05, 0.3]))
    seen.assert_in_order(rows)
    controlled.assert_right(rows)
    assert controlled.moves > 0 or seed % 4 == 0


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(1, 3), st.integers(1, 64), SHARES, st.integers(0, 2**32))
def test_so_does_any_order_of_turns_with_changes_while_nobody_does_anything(
    case: tuple[Graph, Rows], workers: int, block_rows: int, share: float, seed: int
) -> None:
    graph, rows = case
    controlled = Controlled(graph, rows, workers, Sizes(block_rows, 2, 2), StillLane)
    controlled.run(random.Random(seed), share, controlled.change)
    controlled.assert_right(rows)


@pytest.mark.parametrize("seed", range(12))
def test_rows_come_once_and_in_order_also_if_all_are_moved_at_once(seed: int) -> None:
    draw = random.Random(seed)
    rows, seen = witness.numbered(300), Witness()
    controlled = Controlled(witness.graph(), rows, 1 + seed % 4, Sizes(draw.randint(1, 20), 2, 2), StillLane)
    with seen.watching():
        controlled.run(draw, draw.choice([0.05, 0.3]), controlled.change)
    seen.assert_in_order(rows)
    controlled.assert_right(rows)
    assert controlled.moves > 0 or seed % 4 == 0
