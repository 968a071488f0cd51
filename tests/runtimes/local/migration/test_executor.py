"""Rebindings between threads: each is reported once, with all of its moves, whatever supersedes it."""

from collections.abc import Callable

import pytest
from tests.runtimes.local import witness
from tests.runtimes.local.nudged import Nudge, Nudged

from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError, MechanismError
from shoal.mechanisms.catalog import MECHANISMS as CATALOG
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import MovesFinished, Rebind
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.executor import ENDED, MECHANISMS, SUPERSEDED, executable
from shoal.runtimes.local.runtime import LocalSetup

GRAPH = witness.graph()
WAYS: dict[str, Callable[[Nudged], str]] = {
    **{name: lambda _, name=name: name for name in MECHANISMS},  # type: ignore[misc]
    "each in turn": lambda nudged: nudged.draw.choice(MECHANISMS),
}


def finished(nudged: Nudged) -> list[MovesFinished]:
    return [event for event in nudged.events if isinstance(event, MovesFinished)]


def asking(asked: list[Rebind], way: Callable[[Nudged], str], share: float) -> Nudge:
    """Sometimes, bind all instances to workers drawn at random."""

    def ask(nudged: Nudged) -> None:
        if nudged.draw.random() < share:
            binding = shuffled(nudged.graph, nudged.draw.randint(1, 4), nudged.draw.randrange(1 << 30))
            asked.append(Rebind(binding, way(nudged), str(len(asked))))
            nudged.runtime.apply(asked[-1])

    return ask


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.5, 0.05], ids=["often", "now and then"])
def test_every_rebinding_is_reported_once_with_all_of_its_moves(way: str, share: float) -> None:
    asked: list[Rebind] = []
    options = {"most_workers": 4, "sizes": Sizes(16, 2, 2)}
    nudged = Nudged(GRAPH, witness.numbered(900), 3, asking(asked, WAYS[way], share), options=options).run()
    nudged.assert_right()
    reported = finished(nudged)
    assert sorted(event.rebind for event in reported) == sorted(rebind.id for rebind in asked)
    wanted = {rebind.id: rebind.binding.worker_of for rebind in asked}
    made = [(event.rebind, move) for event in reported for move in event.moves if not move.aborted]
    assert made
    assert all(wanted[rebind][move.instance] == move.target for rebind, move in made)
    for _, move in made:
        assert move.frozen_s is not None
        assert move.frozen_s > 0
        assert move.late_s is not None
        assert move.late_s >= 0
        assert move.state_bytes >= 0
    reasons = {move.aborted for event in reported for move in event.aborted}
    assert reasons <= {SUPERSEDED, ENDED}
    last = next(event for event in reported if event.rebind == asked[-1].id)
    assert SUPERSEDED not in {move.aborted for move in last.moves}


def test_a_rebinding_that_moves_nothing_is_finished_at_once() -> None:
    asked: list[Rebind] = []

    def ask(nudged: Nudged) -> None:
        if not asked:
            asked.append(Rebind(shuffled(GRAPH, 2, seed=0), id="nothing"))
            nudged.runtime.apply(asked[0])

    nudged = Nudged(GRAPH, witness.numbered(100), 2, ask).run()
    assert [(event.rebind, event.moves) for event in finished(nudged)] == [("nothing", ())]


def test_a_mechanism_that_threads_do_not_have_is_refused() -> None:
    def ask(nudged: Nudged) -> None:
        nudged.runtime.apply(Rebind(round_robin(GRAPH, 2), "rhino"))

    nudged = Nudged(GRAPH, witness.numbered(50), 2, ask).run()
    nudged.assert_right()
    assert set(nudged.refused) == {
        "mechanism rhino does not run on the local runtime; there are megaphone, all-at-once"
    }
    assert finished(nudged) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("slow", "mechanism must be one of megaphone, all-at-once; got 'slow'", id="unknown"),
        pytest.param("rhino", "mechanism rhino does not run on the local runtime", id="one of Spark's"),
        pytest.param("blocking", "mechanism 'blocking' is now named all-at-once", id="an old name"),
    ],
)
def test_a_run_with_a_mechanism_that_threads_do_not_have_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        LocalSetup({}, MemorySink(), mechanism=name)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_that_runs_on_threads_has_plans_that_threads_can_execute(name: str) -> None:
    transfers = [Transfer(instance, WorkerId(0), WorkerId(1)) for instance in GRAPH.stateful_instances]
    plan = CATALOG[name].plan(transfers, LinkCosts())
    assert executable(plan) is plan


def test_a_plan_with_a_step_or_queue_that_threads_do_not_have_is_refused() -> None:
    transfer = Transfer(GRAPH.stateful_instances[0], WorkerId(0), WorkerId(1))
    with pytest.raises(MechanismError, match="mechanism rhino has queue preamble, which the local runtime cannot"):
        executable(CATALOG["rhino"].plan([transfer], LinkCosts()))
    move = (StepKind.DROP, StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT, StepKind.RESUME)
    with pytest.raises(MechanismError, match="mechanism drop has step drop, which the local runtime cannot execute"):
        executable(Plan("drop", (Batch(Queue.CRITICAL, move, (transfer,)),)))
