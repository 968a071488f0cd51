"""Rebinding on threads: whatever moves, every instance is one worker's at a time, and gets its rows in order, once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.random_graphs import cases
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import Rows
from tests.runtimes.local.nudged import Nudge, Nudged
from tests.runtimes.local.witness import Witness

from shoal.model.graph import Graph
from shoal.model.messages import Rebind
from shoal.policies.static import shuffled
from shoal.runtimes.local.bound import QUEUES


def shuffle(nudged: Nudged) -> None:
    """Every instance to a worker drawn at random, at every second question."""
    if nudged.draw.random() < 0.5:
        nudged.runtime.apply(Rebind(shuffled(nudged.graph, nudged.workers, nudged.draw.randrange(1 << 30))))


@dataclass(frozen=True)
class Kind:
    """A way to disturb a run, and the options it needs."""

    nudge: Nudge
    options: Mapping[str, Any] = field(default_factory=dict)


KINDS = {
    "moves": Kind(shuffle),
    "moves at a standstill": Kind(shuffle, {"rebinding": "blocking"}),
}


@pytest.mark.parametrize("design", QUEUES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_rows_come_to_every_instance_once_and_in_order(kind: str, design: str, seed: int) -> None:
    rows, seen = witness.numbered(600), Witness()
    nudged = Nudged(witness.graph(), rows, 3, KINDS[kind].nudge, seed, {"queues": design, **KINDS[kind].options})
    with seen.watching():
        nudged.run()
    nudged.assert_right()
    seen.assert_in_order(rows)
    assert nudged.refused == []
    assert sum(report.moves for report in nudged.reports) > 10


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cases(), st.integers(1, 4), st.sampled_from(sorted(QUEUES)), st.sampled_from(sorted(KINDS)), st.integers(0, 2**32)
)
def test_no_answer_of_any_graph_changes(
    case: tuple[Graph, Rows], workers: int, design: str, kind: str, seed: int
) -> None:
    nudged = Nudged(*case, workers, KINDS[kind].nudge, seed, {"queues": design, **KINDS[kind].options}).run()
    nudged.assert_right()
    assert nudged.refused == []


def test_a_standstill_counts_as_time_spent_on_moves() -> None:
    nudged = Nudged(witness.graph(), witness.numbered(600), 3, shuffle, options={"rebinding": "blocking"}).run()
    nudged.assert_right()
    assert sum(report.moves for report in nudged.reports) > 10
    assert sum(report.migration_s for report in nudged.reports) >= sum(nudged.runtime.crew.stood_s) > 0
    assert min(nudged.runtime.crew.stood_s) > 0
