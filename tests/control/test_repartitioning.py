"""Splits and merges by the controller: when, why, and what it makes of what they brought."""

import random
from collections.abc import Sequence

from tests.control.world import World

from shoal.control.journal import Decided, Divided, DivisionMeasured, Refused
from shoal.control.partitions.repartitioning import GIVEN_UP_S
from shoal.control.settings import ControlSettings
from shoal.control.story import story_lines
from shoal.model.control.messages import CommandRefused, Repartition
from shoal.model.control.partitioning import Split


def one_hot(place: int, now_s: float) -> float:
    """One of twelve instances has most of the work."""
    return 0.9 if place == 3 else 0.01


def divided(world: World) -> list[Divided]:
    return [entry for entry in world.entries if isinstance(entry, Divided)]


def test_an_instance_that_alone_exceeds_a_workers_share_is_split_and_the_peak_falls() -> None:
    world = World(one_hot, workers=4).run(20)
    [split, *others] = divided(world)
    assert (split.change, split.parts, others) == ("split", 8, [])
    assert split.shares > 3
    assert world.peaks[0] > 3
    assert world.peaks[-1] < 1.2


def test_the_journal_says_what_a_split_brought() -> None:
    world = World(one_hot, workers=4).run(20)
    [measured] = [entry for entry in world.entries if isinstance(entry, DivisionMeasured)]
    assert measured.shares_before > 3
    assert measured.shares_after < 0.6
    story = "\n".join(story_lines(world.entries))
    assert "split aggregate of avg_speed[1] into 8 parts, since it alone had" in story
    assert "its largest part has" in story


def test_parts_are_merged_when_the_load_has_gone_elsewhere() -> None:
    world = World(lambda place, now_s: 0.9 if place == (3 if now_s < 110 else 7) else 0.01, workers=4).run(40)
    assert [entry.change for entry in divided(world)] == ["split", "merge", "split"] or [
        entry.change for entry in divided(world)
    ] == ["split", "split", "merge"]
    assert world.peaks[-1] < 1.2


def test_an_instance_with_one_hot_key_is_split_once_and_left_alone_afterwards() -> None:
    def all_in_one_slot(slots: Sequence[int], number: int) -> float:
        return float(slots[5] == number)

    world = World(one_hot, workers=4, part=all_in_one_slot).run(60)
    assert len([entry for entry in divided(world) if entry.change == "split"]) == 1


def test_a_split_that_the_runtime_refuses_is_not_asked_for_again() -> None:
    world = World(one_hot, workers=4)
    asked: list[Repartition] = []

    def refuse(command: Repartition) -> None:
        asked.append(command)
        world.send(CommandRefused(command, "it has one key only", at_s=world.now_s))

    world.repartition = refuse  # type: ignore[method-assign]
    world.run(30)
    assert len(asked) == 1
    assert isinstance(asked[0].changes[0], Split)
    assert any(isinstance(entry, Refused) for entry in world.entries)


def test_policies_of_the_studies_and_a_share_of_zero_leave_instances_whole() -> None:
    for world in (World(one_hot, policy="greedy", workers=4), World(one_hot, settings=ControlSettings(split=0))):
        assert divided(world.run(20)) == []


def test_an_even_load_is_neither_split_nor_merged() -> None:
    draw = random.Random(0)
    world = World(lambda place, now_s: 0.1 + 0.02 * draw.random(), workers=4).run(30)
    assert divided(world) == []
    assert not [entry for entry in world.entries if isinstance(entry, Decided) and entry.moved > 6]


def test_nothing_is_decided_while_a_split_has_not_been_made() -> None:
    world = World(one_hot, workers=4)
    asked: list[Repartition] = []
    make = world.repartition
    world.repartition = asked.append  # type: ignore[method-assign, assignment]
    world.run(10)
    assert len(asked) == 1
    make(asked[0])
    world.run(10)
    assert [type(entry) for entry in world.entries if isinstance(entry, Divided | DivisionMeasured)] == [
        Divided,
        DivisionMeasured,
    ]


def test_a_split_that_is_never_made_is_given_up() -> None:
    world = World(one_hot, workers=4)
    asked: list[Repartition] = []
    world.repartition = asked.append  # type: ignore[method-assign, assignment]
    world.run(2 * GIVEN_UP_S)
    assert len(asked) > 1
