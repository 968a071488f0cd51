"""Rebindings between threads: each is reported once, with all of its moves, whatever supersedes it."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.runtimes.local import witness
from tests.runtimes.local.nudged import Nudge, Nudged

from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError, MechanismError
from shoal.language.python.stream import Stream
from shoal.mechanisms.catalog import LOSSY
from shoal.mechanisms.catalog import MECHANISMS as CATALOG
from shoal.mechanisms.plan import Batch, Plan, Queue, StepKind
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.binding import WorkerId
from shoal.model.control.costs import LinkCosts
from shoal.model.control.messages import MovesFinished, Rebind, Repartition
from shoal.model.control.partitioning import Regroup, operator_of
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Graph
from shoal.model.query.window import rows, tumbling
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.migration.executor import ENDED, MECHANISMS, SUPERSEDED
from shoal.runtimes.local.migration.way import way_of
from shoal.runtimes.local.runtime import LocalSetup

GRAPH = witness.graph()
EXACT = [name for name in MECHANISMS if name not in LOSSY]
WAYS: dict[str, Callable[[Nudged], str]] = {
    **{name: lambda _, name=name: name for name in EXACT},  # type: ignore[misc]
    "each in turn": lambda nudged: nudged.draw.choice(EXACT),
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
        assert move.seconds is not None
        assert move.seconds > 0
        assert (move.late_results is None) == (move.emission_delay_s is None) == (move.emission_delay_sum_s is None)
        assert not move.late_results or move.emission_delay_s
        assert move.lost is None
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
        nudged.runtime.apply(Rebind(round_robin(GRAPH, 2), "checkpoint-assisted"))

    nudged = Nudged(GRAPH, witness.numbered(50), 2, ask).run()
    nudged.assert_right()
    assert set(nudged.refused) == {
        f"mechanism checkpoint-assisted does not run on the local runtime; there are {', '.join(MECHANISMS)}"
    }
    assert finished(nudged) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("slow", f"mechanism must be one of {', '.join(MECHANISMS)}; got 'slow'", id="unknown"),
        pytest.param("checkpoint-assisted", "mechanism checkpoint-assisted does not run on the local", id="of others"),
        pytest.param("blocking", "mechanism 'blocking' is now named all-at-once", id="an old name"),
    ],
)
def test_a_run_with_a_mechanism_that_threads_do_not_have_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        LocalSetup({}, MemorySink(), mechanism=name)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_that_runs_on_threads_has_plans_that_threads_can_execute(name: str) -> None:
    transfers = [Transfer(instance, WorkerId(0), WorkerId(1)) for instance in GRAPH.stateful_instances]
    assert (way_of(CATALOG[name].plan(transfers, LinkCosts())) is None) == (name == "all-at-once")


def test_a_plan_with_a_step_that_threads_do_not_have_is_refused() -> None:
    transfer = Transfer(GRAPH.stateful_instances[0], WorkerId(0), WorkerId(1), replicated=True)
    with pytest.raises(MechanismError, match="checkpoint-assisted has step replica, which the local runtime cannot"):
        way_of(CATALOG["checkpoint-assisted"].plan([transfer], LinkCosts()))
    move = (StepKind.EXTRACT, StepKind.SEND, StepKind.IMPORT, StepKind.RESUME)
    some = Batch(Queue.NORMAL, move, (transfer,), ids=np.zeros(1, np.uint64))
    with pytest.raises(MechanismError, match="has parts of instances, which the local runtime cannot execute"):
        way_of(Plan("megaphone", (some, Batch(Queue.NORMAL, move, (transfer,)))))


def test_what_is_dropped_is_what_results_miss_whatever_supersedes_the_rebinding() -> None:
    left = Stream("left", witness.SCHEMA, time="ts")
    counted = left.partition_by("k", groups=witness.KEYS).window(tumbling(0.05)).aggregate(rows=count())
    numbered, asked = {"left": witness.numbered(1_500)["left"]}, list[Rebind]()
    ask = asking(asked, lambda nudged: nudged.draw.choice(["drop", *MECHANISMS]), share=0.4)
    options = {"most_workers": 4, "sizes": Sizes(16, 2, 2)}
    nudged = Nudged(Graph.of([counted.sink("counted")]), numbered, 3, ask, options=options).run()
    reported = finished(nudged)
    assert sorted(event.rebind for event in reported) == sorted(rebind.id for rebind in asked)
    lost = sum(move.lost.rows for event in reported for move in event.moves if move.lost is not None)
    assert lost > 0
    assert sum(row["rows"] for row in nudged.results()["counted"]) == 1_500 - lost
    assert nudged.refused == []


def test_no_instance_is_split_while_others_are_dropped() -> None:
    """Such a command is refused with a reason, or comes when the moves are finished: no loss goes unreported."""
    left = Stream("left", witness.SCHEMA, time="ts")
    counted = left.partition_by("k", "n", groups=witness.KEYS).window(tumbling(0.05)).aggregate(rows=count())
    graph = Graph.of([counted.sink("counted")])
    operator = operator_of(graph.stateful_instances[0])

    def act(nudged: Nudged) -> None:
        if nudged.draw.random() < 0.2:
            groups = nudged.draw.randint(2, 12)
            nudged.runtime.apply(Repartition((Regroup(operator, groups),)))
        if nudged.draw.random() < 0.3:
            binding = shuffled(graph, 3, nudged.draw.randrange(1 << 30))
            nudged.runtime.apply(Rebind(binding, "drop", str(nudged.draw.random())))

    nudged = Nudged(graph, {"left": witness.numbered(1_500)["left"]}, 3, act).run()
    lost = sum(m.lost.rows for event in finished(nudged) for m in event.moves if m.lost is not None)
    assert lost > 0
    assert sum(row["rows"] for row in nudged.results()["counted"]) == 1_500 - lost
    reasons = {reason.split(" while ")[0] for reason in nudged.refused if "while" in reason}
    assert reasons
    assert reasons <= {"instances cannot be split or merged", "no instance can be dropped"}


def test_window_recreation_of_state_of_any_age_is_refused_and_nothing_moves() -> None:
    left = Stream("left", witness.SCHEMA, time="ts")
    counted = left.partition_by("k", groups=witness.KEYS).window(rows(20)).aggregate(total=sum_("n"))
    ask = asking([], lambda _: "window-recreation", share=0.5)
    nudged = Nudged(Graph.of([counted.sink("counted")]), {"left": witness.numbered(600)["left"]}, 3, ask).run()
    nudged.assert_right()
    (reason,) = {reason.split("; ")[-1] for reason in nudged.refused if reason.startswith("window-recreation")}
    assert reason == "use state-recreation"
    assert sum(report.moves for report in nudged.reports) == 0
    assert finished(nudged) == []
