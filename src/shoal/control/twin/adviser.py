"""The adviser: asks the twin when and by which mechanism a rebinding should move state, and writes it down."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from shoal.control.decision import Choice, cost
from shoal.control.effects.host_entries import HostsMeasured
from shoal.control.journal import Advised, Entry, MechanismCost, Moving
from shoal.control.observation import Observation
from shoal.control.proposal import Case, Verdict, judged
from shoal.control.settings import ControlSettings
from shoal.control.twin.choice import Ranked, choose_for
from shoal.control.twin.destinations import HostSearch, HostTimes
from shoal.control.twin.live import LiveProfiles, groups_of
from shoal.control.twin.moment import MOST_MOMENTS, Moment, Patience, best_moment, waits_s
from shoal.control.twin.profile import MigrationProfile
from shoal.control.twin.state_cycle import StateCycles
from shoal.errors import MechanismError
from shoal.model.control.binding import Binding, Move
from shoal.model.control.messages import MovesFinished, Rebind
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
STAYS = "the twin expects the moves to cost more than they gain"
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
        self._expected: tuple[str, MechanismCost] | None = None
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

    def hosted(
        self,
        wanted: Binding,
        observation: Observation,
        case: Case,
        hosts_s: tuple[Mapping[int, float], Mapping[int, float]],
        now_s: float,
    ) -> Verdict:
        """Judge a proposal, with other hosts for its moves where the ways there cost clearly less.

        `hosts_s`: how long hosts are still there that go, and how long until others are back. Where the runtime does
        not know hosts, and where every proposal is carried out, the proposal is judged as it is.
        """
        own, hosts = judged(observation, wanted, case), observation.topology.hosts
        if hosts is None or not self.among or self._settings.decision == "always":
            return own
        left_s, back_s = hosts_s
        closing = {name for name in self._cycles.operators if any(self._closings_s([name]))}
        times = HostTimes(left_s, back_s, self.patience.left_s(now_s), closing)
        found = HostSearch(self._live(observation, left_s), hosts, wanted, case, times).found(
            self._objective, self.among
        )
        if found.binding == wanted:
            return own
        verdict = replace(judged(observation, found.binding, case), hosts=found.choices)
        if not verdict.refused:
            return verdict
        if found.waiting is None:
            return replace(own, binding=observation.binding, refused=STAYS, hosts=found.choices)
        reason = self.patience.wait(*found.waiting, self._step_s(observation), now_s)
        return replace(own, binding=observation.binding, refused=reason, postponed=True)

    def _step_s(self, observation: Observation) -> float:
        return observation.loads.period_s or self._settings.window_s

    def timely(self, verdict: Verdict, observation: Observation, left_s: Mapping[int, float], now_s: float) -> Verdict:
        """The verdict, or a postponed one if its moves cost clearly less at a later moment.

        Called with each verdict before its moves are made. Where every proposal is carried out, none is postponed.
        """
        if verdict.postponed:
            return verdict
        step_s = self._step_s(observation)
        moved = [each for each in verdict.moves if not each.refused]
        self._moment = ""
        if verdict.refused or not moved or self._settings.decision == "always":
            self.patience.rest()
            return verdict
        moves = self._known(observation, verdict.binding)
        closings_s = sorted(self._closings_s({operator_of(move.instance) for move in moves}))
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

    def _closings_s(self, operators: Iterable[str]) -> Iterator[float]:
        """When windows of operators close, as far as is known what becomes of their state."""
        for name in operators:
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
        self._expected = None if observation.topology.hosts is None else (command.id, _cost(table[0]))
        entry = Advised(now_s, table[0].mechanism, len(moves), _bytes(profiles), tuple(map(_cost, table)), moment)
        return replace(command, mechanism=table[0].mechanism), (entry,)

    def finished(self, event: MovesFinished, now_s: float) -> tuple[Entry, ...]:
        """What a migration between hosts has cost, beside what was expected of it; called for each one that ends."""
        if self._expected is None or self._expected[0] != event.rebind or event.aborted or not event.moves:
            return ()
        (_, expected), self._expected = self._expected, None
        frozen_s = [each.frozen_s for each in event.moves if each.frozen_s is not None]
        seconds = [each.seconds for each in event.moves if each.seconds is not None]
        if not frozen_s and not seconds:
            return ()
        return (
            HostsMeasured(
                now_s,
                expected.mechanism,
                len(event.moves),
                expected.frozen_s,
                max(frozen_s, default=None),
                expected.seconds,
                max(seconds, default=None),
            ),
        )


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
