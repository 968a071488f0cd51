"""Rebinding on threads: every instance belongs to one worker at a time, and gets its rows once and in order."""

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

from shoal.errors import ConfigError
from shoal.mechanisms.catalog import LOSSY
from shoal.model.control.binding import Binding
from shoal.model.control.messages import Rebind
from shoal.model.query.graph import Graph, InstanceId
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.executor import MECHANISMS
from shoal.runtimes.local.scheduling.bound_pool import QUEUES

MOST_WORKERS = 5
EXACT = [name for name in MECHANISMS if name not in LOSSY]


def shuffle(nudged: Nudged) -> None:
    """Every instance to a worker drawn at random, at every second poll."""
    if nudged.draw.random() < 0.5:
        nudged.runtime.apply(Rebind(shuffled(nudged.graph, nudged.workers, nudged.draw.randrange(1 << 30))))


def shuffle_in_any_way(nudged: Nudged) -> None:
    """The same, by a mechanism drawn at random."""
    if nudged.draw.random() < 0.5:
        binding = shuffled(nudged.graph, nudged.workers, nudged.draw.randrange(1 << 30))
        nudged.runtime.apply(Rebind(binding, nudged.draw.choice(EXACT)))


def resize(nudged: Nudged) -> None:
    """Every instance to a worker drawn at random, of a number of workers drawn at random, at every second poll."""
    if nudged.draw.random() < 0.5:
        workers = nudged.draw.randint(1, MOST_WORKERS)
        nudged.runtime.apply(Rebind(shuffled(nudged.graph, workers, nudged.draw.randrange(1 << 30))))


@dataclass(frozen=True)
class Kind:
    """A way to disturb a run, and the options it needs."""

    nudge: Nudge
    options: Mapping[str, Any] = field(default_factory=dict)


KINDS = {
    "moves": Kind(shuffle),
    "moves by any mechanism": Kind(shuffle_in_any_way),
    "moves at a barrier": Kind(shuffle, {"mechanism": "all-at-once"}),
    "workers that come and go": Kind(resize, {"most_workers": MOST_WORKERS}),
    "workers that come and go at barriers": Kind(resize, {"most_workers": MOST_WORKERS, "mechanism": "all-at-once"}),
}


@pytest.mark.parametrize("design", QUEUES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_come_to_every_instance_once_and_in_order(kind: str, design: str, seed: int) -> None:
    rows, observed = witness.numbered(600), Witness()
    nudged = Nudged(witness.graph(), rows, 3, KINDS[kind].nudge, seed, {"queues": design, **KINDS[kind].options})
    with observed.watching():
        nudged.run()
    nudged.assert_right()
    observed.assert_in_order(rows)
    assert nudged.refused == []
    assert sum(report.moves for report in nudged.reports) > 10


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cases(), st.integers(1, 4), st.sampled_from(sorted(QUEUES)), st.sampled_from(sorted(KINDS)), st.integers(0, 2**32)
)
def test_no_result_of_any_graph_changes(
    case: tuple[Graph, Rows], workers: int, design: str, kind: str, seed: int
) -> None:
    nudged = Nudged(*case, workers, KINDS[kind].nudge, seed, {"queues": design, **KINDS[kind].options}).run()
    nudged.assert_right()
    assert all(reason.startswith("window-recreation cannot move") for reason in nudged.refused)


@pytest.mark.parametrize("mechanism", [name for name in EXACT if name != "window-recreation"])
def test_the_number_of_workers_follows_the_binding(mechanism: str) -> None:
    """By the reports: more workers at once, fewer when removed ones own nothing.

    With window-recreation removed workers own nothing one after another, as their windows close.
    """
    graph, rows = witness.graph(), witness.numbered(2_000)
    steps = iter([5, 1, 4, 2])
    wanted = [2]

    def follow(nudged: Nudged) -> None:
        pool = nudged.runtime.pool
        if pool.threads == wanted[-1] and nudged.draw.random() < 0.05 and (workers := next(steps, None)):
            wanted.append(workers)
            nudged.runtime.apply(Rebind(round_robin(graph, workers)))
            assert pool.threads == workers

    options = {"most_workers": 5, "mechanism": mechanism, "sizes": Sizes(64, 2, 2)}
    nudged = Nudged(graph, rows, 2, follow, options=options).run()
    nudged.assert_right()
    assert wanted == [2, 5, 1, 4, 2]
    for report in nudged.reports:
        snapshot = report.snapshot
        assert snapshot.topology is not None
        assert snapshot.binding.workers == snapshot.topology.workers == len(snapshot.busy_s)
        assert snapshot.binding.workers in wanted
    assert nudged.reports[-1].snapshot.binding == round_robin(graph, 2)


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        pytest.param(
            Binding.of({}, workers=4),
            "the run may have up to 3 workers; got 4; start it with a larger most_workers",
            id="more workers than there may be",
        ),
        pytest.param(
            Binding.of({InstanceId("nobody/0"): 0}, workers=2),
            "the binding names instance 'nobody/0', which the graph does not have",
            id="an instance that does not exist",
        ),
        pytest.param(
            Binding.of({witness.graph().stateful_instances[0]: 0}, workers=1),
            "is bound to worker 1; there are workers 0..0",
            id="removed workers that still have instances",
        ),
    ],
)
def test_a_binding_that_cannot_be_is_refused_and_the_run_goes_on(binding: Binding, reason: str) -> None:
    asked: list[Binding] = []

    def ask(nudged: Nudged) -> None:
        if not asked:
            asked.append(binding)
            nudged.runtime.apply(Rebind(binding))

    nudged = Nudged(witness.graph(), witness.numbered(200), 2, ask, options={"most_workers": 3}).run()
    nudged.assert_right()
    assert len(nudged.refused) == 1
    assert reason in nudged.refused[0]
    assert {report.snapshot.binding.workers for report in nudged.reports} == {2}


def test_instances_of_a_run_that_does_not_bind_them_cannot_be_bound_elsewhere() -> None:
    nudged = Nudged(witness.graph(), witness.numbered(50), 2, shuffle, options={"queues": None}).run()
    nudged.assert_right()
    assert set(nudged.refused) == {"instances are bound to workers only with queues; set queues=worker-queue"}


def test_a_run_does_not_begin_with_more_workers_than_it_may_have() -> None:
    with pytest.raises(ConfigError, match="most_workers must be at least the 3 workers of the run; got 2"):
        Nudged(witness.graph(), witness.numbered(10), 3, shuffle, options={"most_workers": 2}).run()


def test_a_standstill_counts_as_time_spent_on_moves() -> None:
    nudged = Nudged(witness.graph(), witness.numbered(600), 3, shuffle, options={"mechanism": "all-at-once"}).run()
    nudged.assert_right()
    assert sum(report.moves for report in nudged.reports) > 10
    assert sum(report.migration_s for report in nudged.reports) >= sum(nudged.runtime.pool.stopped_s) > 0
    assert min(nudged.runtime.pool.stopped_s) > 0
