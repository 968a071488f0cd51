"""The adviser: every rebinding of the controller gets a mechanism of the runtime, and the journal the table."""

from dataclasses import replace

import pytest
from tests.control.world import GRAPH, World, committed

from shoal.control.controller import Controller
from shoal.control.journal import Advised, Decided
from shoal.control.settings import ControlSettings
from shoal.control.twin.adviser import Adviser
from shoal.control.twin.choice import Objective
from shoal.errors import ConfigError
from shoal.mechanisms.catalog import MECHANISMS
from shoal.model.control.binding import Binding
from shoal.model.control.messages import Event, Rebind
from shoal.model.control.snapshot import Snapshot


def hot(place: int, now_s: float) -> float:
    """Everything on the first worker, by and large."""
    del now_s
    return 0.05 if place % 2 == 0 else 0.001


class Advising(World):
    """A world whose controller chooses mechanisms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.controller = Controller(self.graph, self.policy, self.settings, mechanisms=tuple(MECHANISMS))
        self.used: list[str | None] = []

    def send(self, event: Event) -> None:
        before = len(self.moving)
        super().send(event)
        self.used += [command.mechanism for command in self.moving[before:]]


def test_a_decision_has_a_mechanism_and_its_table_in_the_journal() -> None:
    world = Advising(hot)
    world.run(20)
    assert any(isinstance(entry, Decided) for entry in world.entries)
    tables = [entry for entry in world.entries if isinstance(entry, Advised)]
    assert [entry.mechanism for entry in tables] == world.used
    for entry in tables:
        names = [each.mechanism for each in entry.candidates]
        assert sorted(names) == sorted(set(MECHANISMS) - {"drop"})
        assert names[0] == entry.mechanism
        costs = [each.cost for each in entry.candidates if each.cost is not None]
        assert costs == sorted(costs)
        assert entry.moved > 0


def test_without_mechanisms_to_choose_from_the_runtime_uses_its_own() -> None:
    world = World(hot).run(20)
    assert world.decisions
    assert not any(isinstance(entry, Advised) for entry in world.entries)


def test_a_resize_is_advised_too() -> None:
    world = Advising(hot, workers=4, policy="none")
    world.run(2)
    reaction = world.controller.resize(2, "it was asked for", 9, world.now_s)
    assert reaction is not None
    (command,) = reaction.commands
    assert isinstance(command, Rebind)
    assert command.mechanism in MECHANISMS
    assert isinstance(reaction.entries[-1], Advised)


def test_the_pace_of_event_time_follows_the_watermarks() -> None:
    adviser = Adviser(["all-at-once"], ControlSettings())
    binding = Binding.of(dict.fromkeys(GRAPH.stateful_instances, 0), 1)
    (stream,) = GRAPH.streams
    for epoch, mark_us in enumerate((0, 5_000_000, 5_000_000, 15_000_000)):
        adviser.note(Snapshot(epoch, binding, watermarks_us={stream: mark_us, "#now": epoch}, period_s=0.5), GRAPH)
    assert adviser.pace == pytest.approx(10.0)


def test_an_objective_that_makes_no_sense_is_rejected_with_the_settings() -> None:
    with pytest.raises(ConfigError, match="objective must weigh"):
        ControlSettings(objective="beauty:1")
    assert ControlSettings(objective="bytes:0").weights == replace(Objective(), bytes=0.0)


def test_nothing_is_advised_before_the_first_snapshot() -> None:
    controller = Controller(GRAPH, "guarded", mechanisms=("all-at-once",))
    snapshot = Snapshot(0, Binding.of(dict.fromkeys(GRAPH.stateful_instances, 0), 1), period_s=0.5)
    assert not controller.handle(committed(snapshot, 1.0)).commands
