"""The adviser: asks the twin by which mechanism a rebinding should move state, and writes the table down."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoal.control.journal import Advised, MechanismCost
from shoal.control.observation import Observation
from shoal.control.twin.choice import Objective, Ranked, choose_for
from shoal.control.twin.live import LiveProfiles, groups_of
from shoal.control.twin.profile import MigrationProfile
from shoal.model.control.messages import Rebind
from shoal.model.control.snapshot import Snapshot
from shoal.model.query.graph import Graph

AUTO = "auto"
"""The mechanism that stands for the one that the twin chooses, for every rebinding."""
NEVER = frozenset({"drop"})
"""Mechanisms that change results by design: they are used only where they are asked for."""
MOST_PROFILES = 12
"""Profiles of a rebinding that are simulated: those with the most state."""


class Adviser:
    """Chooses among the mechanisms of a runtime, and learns how fast event time passes."""

    def __init__(self, among: Sequence[str], objective: Objective) -> None:
        """Nothing has been observed yet."""
        self.among = tuple(name for name in among if name not in NEVER)
        self._objective = objective
        self._watermarks: Mapping[str, int] = {}
        self.pace = 1.0

    def note(self, snapshot: Snapshot) -> None:
        """Take the watermarks of a snapshot; called once for each, in order of time."""
        ahead = [
            mark - self._watermarks[name] for name, mark in snapshot.watermarks_us.items() if name in self._watermarks
        ]
        if ahead and snapshot.period_s > 0 and 0 < max(ahead) < 1e15:
            self.pace = max(1e-3, max(ahead) / 1e6 / snapshot.period_s)
        self._watermarks = snapshot.watermarks_us

    def advised(
        self,
        command: Rebind,
        observation: Observation,
        graph: Graph,
        snapshot: Snapshot,
        left_s: Mapping[int, float],
        now_s: float,
    ) -> tuple[Rebind, tuple[Advised, ...]]:
        """The command with a mechanism, and the table by which it was chosen; unchanged if nothing is known."""
        known = set(observation.loads.instances)
        moves = [move for move in observation.binding.diff(command.binding) if move.instance in known]
        period_s = snapshot.period_s or 1.0
        results = {instance: load.results / period_s for instance, load in snapshot.loads.items()}
        live = LiveProfiles(observation, graph, results, left_s, self.pace)
        groups = groups_of(observation, moves)
        profiles = [profile for ends, own in groups.items() for profile in live.of(ends, own)]
        profiles = sorted(profiles, key=lambda each: -each.state_bytes)[:MOST_PROFILES]
        if not profiles or not self.among:
            return command, ()
        table = choose_for(profiles, self._objective, self.among)
        entry = Advised(now_s, table[0].mechanism, len(moves), _bytes(profiles), tuple(map(_cost, table)))
        return replace(command, mechanism=table[0].mechanism), (entry,)


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
