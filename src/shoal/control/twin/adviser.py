"""The adviser: asks the twin when and by which mechanism a rebinding should move state, and writes it down."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from shoal.control.decision import Choice, cost
from shoal.control.journal import Advised, MechanismCost, Moving
from shoal.control.observation import Observation
from shoal.control.proposal import Verdict
from shoal.control.settings import ControlSettings
from shoal.control.twin.choice import Ranked, choose_for
from shoal.control.twin.live import LiveProfiles, groups_of
from shoal.control.twin.moment import MOST_MOMENTS, Moment, Patience, best_moment, waits_s
from shoal.control.twin.profile import MigrationProfile
from shoal.control.twin.state_cycle import StateCycles
from shoal.errors import MechanismError
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import Rebind
from shoal.model.control.partitioning import operator_of
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import Graph

AUTO = "auto"
"""The mechanism that stands for the one that the twin chooses, for every rebinding."""
NEVER = frozenset({"drop"})
"""Mechanisms that change results by design: they are used only where they are asked for."""
MOST_PROFILES = 12
"""Profiles of a rebinding that are simulated: those with the most state."""
MOST_LATER = 4
"""The same where several moments are compared."""
STEADY = 0.7
"""Weight of what was known of the pace of event time, against what a snapshot says."""


class Adviser:
    """Chooses moments and mechanisms of a runtime, and learns how fast event time passes and how state changes."""

    def __init__(self, among: Sequence[str], settings: ControlSettings) -> None:
        """Nothing has been observed yet."""
        self.among = tuple(name for name in among if name not in NEVER)
        self._settings, self._objective = settings, settings.weights
        self._watermarks: Mapping[str, int] = {}
        self._newest: tuple[Snapshot, Graph] | None = None
        self._cycles, self.patience = StateCycles(), Patience(settings.horizon_s)
        self._moment = ""
        self._since_s = 0.0
        self._paced = False
        self.pace = 1.0

    def note(self, snapshot: Snapshot, graph: Graph) -> None:
        """Take the watermarks and the sizes of a snapshot; called once for each, in order of time."""
        marks = {name: mark for name, mark in snapshot.watermarks_us.items() if name in graph.streams}
        ahead = max(
            (mark - self._watermarks[name] for name, mark in marks.items() if name in self._watermarks), default=0
        )
        self._since_s += snapshot.period_s if self._watermarks else 0.0
        if ahead > 0 and self._since_s > 0:
            pace = max(1e-3, ahead / 1e6 / self._since_s)
            if ahead < 1e15:
                self.pace = STEADY * self.pace + (1 - STEADY) * pace if self._paced else pace
                self._paced = True
            self._since_s = 0.0
        self._watermarks, self._newest = marks, (snapshot, graph)
        self._cycles.note(snapshot, graph)

    def timely(self, verdict: Verdict, observation: Observation, left_s: Mapping[int, float], now_s: float) -> Verdict:
        """The verdict, or a postponed one if its moves cost clearly less at a later moment.

        Called with each verdict before its moves are made. Where every proposal is carried out, none is postponed.
        """
        step_s = observation.loads.period_s or self._settings.window_s
        moved = [each for each in verdict.moves if not each.refused]
        self._moment = ""
        if verdict.refused or not moved or self._settings.decision == "always":
            self.patience.rest()
            return verdict
        moves = self._known(observation, verdict.binding)
        closings_s = sorted(self._closings_s(moves))
        moments, live = list[Moment](), self._live(observation, left_s)
        for wait_s in (0.0, *waits_s(closings_s, step_s, self.patience.left_s(now_s))) if closings_s else ():
            moments += self._begun(_profiles(live, moves, MOST_LATER, wait_s), moved, wait_s)
        stay = fmean(each.score_here for each in moved)
        best = best_moment(moments, stay) if moments else None
        if best is None or not best.wait_s:
            self._moment = self.patience.go(moments, now_s)
            return verdict
        reason = self.patience.wait(moments[0], best, step_s, now_s)
        return replace(verdict, binding=observation.binding, refused=reason, postponed=True)

    def _closings_s(self, moves: Sequence[Move]) -> Iterator[float]:
        """When windows of instances that move close, as far as is known what becomes of their state."""
        for name in {operator_of(move.instance) for move in moves}:
            cycle = self._cycles.of(name)
            phase_us = None if cycle is None else cycle.phase_us()
            if cycle is None or phase_us is None:
                continue
            first_us = cycle.slide_us - phase_us
            for ahead_us in range(first_us, first_us + MOST_MOMENTS * cycle.slide_us, cycle.slide_us):
                if cycle.ratio(ahead_us) is not None:
                    yield ahead_us / 1e6 / self.pace

    def _begun(self, profiles: Sequence[MigrationProfile], moved: Sequence[Moving], wait_s: float) -> Iterator[Moment]:
        """The moment after a wait; none if a source is gone by then."""
        if not profiles or not self.among or not all(each.left_s > 0 for each in profiles):
            return
        best = choose_for(profiles, self._objective, self.among)[0]
        until_s = fmean(each.amortisation_s for each in moved)
        rate = sum(each.rate for each in profiles)
        share = cost(self._settings.weight, best.cost, rate * until_s)
        choice = Choice(moved[0].target, fmean(each.score_there for each in moved), share, until_s)
        yield Moment(wait_s, best.mechanism, best.cost, sum(each.state_bytes for each in profiles), choice)

    def _live(self, observation: Observation, left_s: Mapping[int, float]) -> LiveProfiles:
        if self._newest is None:
            raise MechanismError("the twin was asked before its first snapshot; expected one, got none")
        snapshot, graph = self._newest
        period_s = snapshot.period_s or 1.0
        results = {instance: load.results / period_s for instance, load in snapshot.loads.items()}
        return LiveProfiles(observation, graph, results, left_s, self.pace, self._cycles)

    @staticmethod
    def _known(observation: Observation, binding: Binding) -> list[Move]:
        known = set(observation.loads.instances)
        return [move for move in observation.binding.diff(binding) if move.instance in known]

    def advised(
        self,
        command: Rebind,
        observation: Observation,
        left_s: Mapping[int, float],
        now_s: float,
    ) -> tuple[Rebind, tuple[Advised, ...]]:
        """The command with a mechanism, and the table by which it was chosen; unchanged if nothing is known."""
        moves = self._known(observation, command.binding)
        profiles = _profiles(self._live(observation, left_s), moves, MOST_PROFILES)
        if not profiles or not self.among:
            return command, ()
        table = choose_for(profiles, self._objective, self.among)
        moment, self._moment = self._moment, ""
        entry = Advised(now_s, table[0].mechanism, len(moves), _bytes(profiles), tuple(map(_cost, table)), moment)
        return replace(command, mechanism=table[0].mechanism), (entry,)


def _profiles(live: LiveProfiles, moves: Sequence[Move], most: int, later_s: float = 0.0) -> list[MigrationProfile]:
    """The profiles of moves that begin now or later: those with the most state now."""
    groups = groups_of(live.observation, moves)
    found = [profile for ends, own in groups.items() for profile in live.of(ends, own)]
    largest = sorted(range(len(found)), key=lambda place: -found[place].state_bytes)[:most]
    if later_s:
        then = replace(live, later_s=later_s)
        found = [profile for ends, own in groups.items() for profile in then.of(ends, own)]
    return [found[place] for place in largest]


def _bytes(profiles: Sequence[MigrationProfile]) -> int:
    return round(sum(each.state_bytes for each in profiles))


def _cost(ranked: Ranked) -> MechanismCost:
    found = ranked.prediction
    if found is None:
        return MechanismCost(ranked.mechanism, None, refused=ranked.refused)
    return MechanismCost(
        ranked.mechanism,
        round(ranked.cost, 6),
        round(found.frozen_s, 6),
        round(found.latency_s, 6),
        round(found.emission_s, 6),
        round(found.seconds, 6),
        round(found.sent_bytes),
        round(found.lost, 6),
        ranked.refused,
    )
