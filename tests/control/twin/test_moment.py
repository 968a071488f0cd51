"""The moment: a migration waits for windows to close if that is worth it, within a bound, and says so."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.world import World

from shoal.control.controller import Controller
from shoal.control.decision import Choice
from shoal.control.journal import Advised, Kept
from shoal.control.settings import ControlSettings
from shoal.control.story import story_lines
from shoal.control.twin.moment import CLEARLY, Moment, Patience, best_moment, waits_s
from shoal.control.twin.state_cycle import StateCycle, cycles_of
from shoal.language.python.flow import Flow
from shoal.language.python.stream import Stream
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.window import Window, hop

SLIDE_S = 8.0
CARS = Stream("cars", {"ts": "timestamp", "seen": "timestamp not null", "road": "int64"}, time="ts", lateness_s=0)


def counted(cars: Flow, window: Window) -> Graph:
    return Graph.of([cars.partition_by("road", groups=4).window(window).aggregate(n=count()).sink("counted")])


COUNTED = counted(CARS, hop(SLIDE_S, SLIDE_S))
FULL_BYTES = 2e9


@dataclass
class Windows(World):
    """One worker gets too much work at `hot_s`; state grows until windows close. Event time is the time of the run."""

    hot_s: float = 126.0
    full_bytes: float = FULL_BYTES
    among: tuple[str, ...] = ("all-at-once",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.work = lambda place, now_s: 0.2 if place % 2 == 0 and now_s >= self.hot_s else 0.02
        self.controller = Controller(self.graph, self.policy, self.settings, mechanisms=self.among)

    def snapshot(self, busy: Sequence[float]) -> Snapshot:
        found = super().snapshot(busy)
        size = round(self.full_bytes * (self.now_s % SLIDE_S) / SLIDE_S)
        loads = {name: replace(load, state_bytes=size) for name, load in found.loads.items()}
        return replace(found, loads=loads, watermarks_us={"cars": round(self.now_s * 1e6)})


def windows(**given: object) -> Windows:
    settings = {"graph": COUNTED, "policy": "greedy", "work": lambda place, now_s: 0.0, **given}
    world = Windows(**settings)  # type: ignore[arg-type]
    world.run(50)
    return world


def postponed(world: World) -> list[Kept]:
    return [entry for entry in world.entries if isinstance(entry, Kept) and "waits" in entry.reason]


def test_a_move_before_a_large_window_closes_waits_for_that() -> None:
    world = windows()
    waited = postponed(world)
    assert waited[0].at_s < 128.0 <= world.decisions[0].at_s <= 130.0
    assert [entry.times for entry in waited] == [1]
    assert world.decisions[0].moved_bytes < 0.2 * FULL_BYTES
    (advised,) = [entry for entry in world.entries if isinstance(entry, Advised)][:1]
    assert advised.moment.startswith("after a wait of")


def test_the_story_says_why_a_move_waits_and_why_it_begins() -> None:
    text = "\n".join(story_lines(windows().entries))
    assert "nothing moved, though worker 0 had" in text
    assert "the twin waits about" in text
    assert "until windows have closed" in text
    assert "the twin chose mechanism all-at-once for 1 instance with" in text
    assert ", after a wait of" in text


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"full_bytes": 1e6}, id="with little state the wait is worth nothing"),
        pytest.param({"hot_s": 121.0, "settings": ControlSettings(horizon_s=3.0)}, id="no window closes in time"),
        pytest.param({"hot_s": 102.0}, id="no window has closed before"),
        pytest.param({"settings": ControlSettings(decision="always")}, id="every proposal is to be carried out"),
        pytest.param({"among": ()}, id="the twin does not choose"),
    ],
)
def test_a_move_does_not_wait_if(given: dict[str, object]) -> None:
    world = windows(**given)
    hot_s = float(str(given.get("hot_s", 126.0)))
    assert not postponed(world)
    assert world.decisions
    decided = [each.at_s for each in world.decisions if each.at_s >= hot_s]
    assert decided[0] <= hot_s + 3.0


class Stubborn(Windows):
    """Windows that never close when they should: the watermark stands still as soon as there is much to do."""

    def snapshot(self, busy: Sequence[float]) -> Snapshot:
        found = super().snapshot(busy)
        if self.now_s < self.hot_s:
            return found
        loads = {name: replace(load, state_bytes=int(FULL_BYTES)) for name, load in found.loads.items()}
        return replace(found, loads=loads, watermarks_us={"cars": round(self.hot_s * 1e6)})


def test_nothing_waits_longer_than_the_bound() -> None:
    world = Stubborn(lambda place, now_s: 0.0, policy="greedy", graph=COUNTED, settings=ControlSettings(horizon_s=6.0))
    world.run(60)
    first = postponed(world)[0]
    assert first.at_s + 5.0 <= world.decisions[0].at_s <= first.at_s + 7.0
    (advised,) = [entry for entry in world.entries if isinstance(entry, Advised)][:1]
    assert "waited as long as it may" in advised.moment


def test_a_policy_that_is_asked_once_is_asked_again_after_a_wait() -> None:
    world = windows(policy="metis", hot_s=0.0, settings=ControlSettings(profile_s=11.0, horizon_s=30.0))
    assert [entry.at_s for entry in postponed(world)] == [111.0]
    assert [entry.at_s for entry in world.decisions] == [122.0]


def test_moves_that_wait_are_made_without_another_trigger() -> None:
    world = windows(hot_s=0.0, settings=ControlSettings(trigger="periodic:26"))
    assert [entry.at_s for entry in postponed(world)] == [127.0]
    assert world.decisions[0].at_s == 128.0
    assert world.decisions[0].trigger == "moves have waited for 1 s"


moments = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0, 1e6)).map(
        lambda each: Moment(each[0], "rhino", each[1], 0.0, Choice(1, 2.0, each[1] / 1e6, 60.0))
    ),
    min_size=1,
    max_size=5,
).map(lambda several: [replace(several[0], wait_s=0.0), *several[1:]])


@given(moments, st.floats(0, 3))
def test_the_best_moment_is_now_or_clearly_cheaper_and_of_more_benefit(several: list[Moment], stay: float) -> None:
    best = best_moment(several, stay)
    if best is not several[0]:
        assert best.cost <= (1 - CLEARLY) * several[0].cost
        assert best.benefit(stay) > several[0].benefit(stay)


@given(st.lists(st.floats(0, 100)), st.floats(0.1, 10), st.floats(-5, 50))
def test_waits_are_whole_observations_after_closings_and_within_the_bound(
    closings: list[float], step_s: float, most_s: float
) -> None:
    for wait_s in waits_s(closings, step_s, most_s):
        assert step_s - 1e-9 <= wait_s <= most_s + 1e-5
        assert any(wait_s - step_s - 1e-3 <= closing <= wait_s + 1e-3 for closing in closings)


def test_a_cycle_knows_the_state_of_one_slide_ago() -> None:
    cycle = StateCycle(1000, frozenset({"cars"}))
    for at in range(0, 1901, 100):
        cycle.add(at, float(at % 1000 + 50))
    assert cycle.phase_us() == 900
    assert cycle.phase_us(200) == 100
    assert cycle.ratio(100) == pytest.approx(50 / 950)
    assert cycle.ratio(1100) == pytest.approx(50 / 950)
    assert cycle.ratio(250) == pytest.approx(250 / 950)  # the size after 150 counts


def test_nothing_is_known_before_a_whole_slide_has_passed() -> None:
    cycle = StateCycle(1000, frozenset({"cars"}))
    assert cycle.ratio(100) is None
    assert cycle.phase_us() is None
    cycle.add(500, 10.0)
    cycle.add(900, 20.0)
    assert cycle.ratio(100) is None
    assert cycle.ratio(700) == pytest.approx(1.0)


def test_windows_over_another_event_time_have_no_cycle() -> None:
    assert [each.slide_us for each in cycles_of(COUNTED).values()] == [int(SLIDE_S * 1e6)]
    assert all(each.streams == {"cars"} for each in cycles_of(COUNTED).values())
    assert not cycles_of(counted(CARS.retime("seen"), hop(8, 8)))
    assert not cycles_of(counted(CARS, hop(8, 8, clock="processing")))


def test_patience_starts_again_after_a_migration_or_a_long_time() -> None:
    patience = Patience(10.0)
    now, then = (Moment(wait_s, "rhino", 1.0, 1e6, Choice(1, 2.0, 0.0, 60.0)) for wait_s in (0.0, 4.0))
    assert patience.left_s(0.0) == 10.0
    first = patience.wait(now, then, 1.0, 0.0)
    assert patience.wait(now, replace(then, wait_s=3.0), 1.0, 1.0) == first
    assert patience.left_s(4.0) == 6.0
    cheap = replace(now, cost=0.25)
    assert patience.go([cheap, then], 4.0) == "after a wait of 4 s, at a cost of 0.25 rather than 1"
    assert patience.left_s(4.0) == 10.0
    patience.wait(now, then, 1.0, 5.0)
    assert patience.left_s(26.0) == 10.0
