"""Destinations: the hosts that instances go to, by what the twin predicts of the ways there.

1. A policy proposes a worker. Others would do as well: those of hosts that are there and stay until the move must have
   paid off, with room for the instance, and without a harm to what the policy aims at.
2. The twin predicts the cost of every way by its cheapest mechanism. An instance goes to the worker with the largest
   benefit, if that costs clearly less than the way to the proposed one; otherwise the policy knows better. Staying
   costs nothing. If windows are known to close, staying is left to the choice of the moment.
3. An instance waits for a host that is away and announced to return, if it then costs clearly less than now and the
   benefit is larger in spite of the wait.
4. Where all ways cost the same, nothing changes.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.control.decision import Choice
from shoal.control.effects.host_entries import HostChoice, HostOption
from shoal.control.observation import Observation
from shoal.control.proposal import Case, judge_of, scores_under
from shoal.control.twin.candidates import Destination, MigrationOption, candidates
from shoal.control.twin.choice import Objective
from shoal.control.twin.live import LiveProfiles
from shoal.control.twin.moment import CLEARLY, Moment
from shoal.control.twin.profile import LONGEST_S, MigrationProfile
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.control.hosts import Hosts
from shoal.model.control.partitioning import operator_of
from shoal.policies.binding.loads import Floats, Ints

MOST_MOVES_HOSTED = 8
"""Moves of a proposal for which other hosts are searched: those with the most state."""
HOSTS_EACH = 4
"""Hosts that are considered for a move: so many with the least work, and so many with the fastest way."""


@dataclass(frozen=True)
class HostTimes:
    """How long hosts that are expected to go are still there, and how long it takes until others are back.

    Both by the number of the host. `most_wait_s`: how long a migration may wait. `closing`: operators whose windows are
    known to close.
    """

    left_s: Mapping[int, float]
    back_s: Mapping[int, float]
    most_wait_s: float
    closing: Collection[str] = ()


@dataclass(frozen=True)
class HostedProposal:
    """A proposal with other workers for some moves. What waits stays where it is.

    `waiting`: the cost of the first such move now, and when the host is back.
    """

    binding: Binding
    choices: tuple[HostChoice, ...] = ()
    waiting: tuple[Moment, Moment] | None = None


class HostSearch:
    """Searches hosts for the moves of one proposal."""

    def __init__(self, live: LiveProfiles, hosts: Hosts, wanted: Binding, case: Case, times: HostTimes) -> None:
        """Nothing has been searched yet; `live` makes profiles of moves that begin now."""
        self._live, self._hosts, self._case, self._times = live, hosts, case, times
        self._ways = Counter[tuple[int, int]]()
        self._judge = judge_of(live.observation, case)
        self._wanted = wanted
        self._place_of = {each: place for place, each in enumerate(live.observation.loads.instances)}
        self._arrange()

    @property
    def _observation(self) -> Observation:
        return self._live.observation

    def _arrange(self) -> None:
        """Compute what depends on the moves that have been chosen."""
        self._after_s = self._observation.under(self._wanted)
        self._scores = scores_under(self._observation, self._wanted, self._judge)

    def found(self, objective: Objective, among: Sequence[str]) -> HostedProposal:
        """The proposal with the hosts that are best for its moves, by the cheapest of some mechanisms."""
        choices, waiting = list[HostChoice](), None
        moves = sorted(self._between_hosts(), key=lambda each: -self._bytes(each))
        ways = self._ways = Counter(self._ends(move, int(move.target)) for move in moves)
        for move in moves[:MOST_MOVES_HOSTED]:
            stay = self._stay(move)
            options = candidates(stay.benefit, self._destinations(move), self._case.model, objective, among)
            own = next(each for each in options if each.worker == int(move.target))
            here = (stay,) if self._may_stay(move, own) else ()
            best = max((own, *(each for each in (*options, *here) if _is_better(each, own))), key=_now)
            later = next((each for each in options if each.moment.wait_s and _is_better(each, best)), None)
            if later is not None:
                waiting = waiting or (own.moment, replace(later.moment, until=self._until(later.worker)))
            elif best is not own:
                choices.append(self._entry(move, best, options))
            if later is not None or best is not own:
                target = int(move.source) if later is not None else best.worker
                ways[self._ends(move, int(move.target))] -= 1
                ways[self._ends(move, target)] += 1
                self._send(move, target)
        return HostedProposal(self._wanted, tuple(choices), waiting)

    def _between_hosts(self) -> list[Move]:
        return [
            move
            for move in self._observation.binding.diff(self._wanted)
            if move.instance in self._place_of and self._host(int(move.source)) != self._host(int(move.target))
        ]

    def _stay(self, move: Move) -> MigrationOption:
        score = self._score(move, int(move.source))
        return MigrationOption(Moment(0.0, "", 0.0, self._bytes(move), Choice(int(move.source), score)), score, 0.0)

    def _may_stay(self, move: Move, own: MigrationOption) -> bool:
        """Whether only the cost speaks against the proposed worker, and no window is known to close."""
        better = own.moment.choice.score > self._score(move, int(move.source))
        return better and operator_of(move.instance) not in self._times.closing

    def _ends(self, move: Move, target: int) -> tuple[int, int]:
        return self._host(int(move.source)), self._host(target)

    def _host(self, worker: int) -> int:
        return int(self._hosts.of_worker[worker])

    def _bytes(self, move: Move) -> float:
        return float(self._observation.loads.state_bytes[self._place_of[move.instance]])

    def _score(self, move: Move, worker: int) -> float:
        return self._scores.of(self._place_of[move.instance], move)(worker)

    def _send(self, move: Move, worker: int) -> None:
        """Let an instance go to another worker than proposed."""
        self._wanted = Binding({**self._wanted.worker_of, move.instance: WorkerId(worker)}, self._wanted.workers)
        self._arrange()

    def _until(self, worker: int) -> str:
        return f"host {self._observation.host_of(worker)} is back"

    def _destinations(self, move: Move) -> Iterator[Destination]:
        """The proposed worker, and the others that would do."""
        yield self._destination(move, int(move.target))
        for worker in self._near_or_idle(move).tolist():
            host = self._host(worker)
            wait_s = self._times.back_s.get(host, 0.0)
            if wait_s <= self._times.most_wait_s and self._would_do(move, worker, wait_s):
                yield self._destination(move, worker, wait_s)

    def _near_or_idle(self, move: Move) -> Ints:
        """The idlest worker of each host that is considered, without those of source and target."""
        order = np.lexsort((self._after_s, self._hosts.of_worker))
        hosts, first = np.unique(self._hosts.of_worker[order], return_index=True)
        idlest = order[first]
        ends = [self._host(int(move.source)), self._host(int(move.target))]
        away = np.isin(idlest, list(self._case.away)) & ~np.isin(hosts, list(self._times.back_s))
        kept = ~np.isin(hosts, ends) & ~away
        idlest, hosts = idlest[kept], hosts[kept]
        way = self._hosts.ways.onward(ends[0])
        way_s: Floats = way.latency_s[hosts] + self._bytes(move) / way.bytes_per_s[hosts]
        by_work = np.argsort(self._after_s[idlest], kind="stable")[:HOSTS_EACH]
        by_way = np.argsort(way_s, kind="stable")[:HOSTS_EACH]
        return idlest[np.unique(np.concatenate([by_work, by_way]))]

    def _would_do(self, move: Move, worker: int, wait_s: float) -> bool:
        """Whether a worker has room, its host stays, and the aim of the policy is not harmed."""
        place, speed, host = self._place_of[move.instance], self._hosts.speed, self._host(worker)
        work_s = self._observation.work_s[place] * speed[self._host(int(move.source))] / speed[host]
        if self._after_s[worker] + work_s > self._observation.horizon_s:
            return False
        if not wait_s and self._times.left_s.get(host, LONGEST_S) < self._case.model.most_s:
            return False
        if self._judge is None:
            return True
        placed = self._observation.placed_by(self._wanted)
        there = np.where(np.arange(placed.size) == place, worker, placed)
        return self._judge.aim(there).violation <= self._judge.aim(placed).violation

    def _destination(self, move: Move, worker: int, wait_s: float = 0.0) -> Destination:
        past = tuple(self._case.past(worker))
        return Destination(worker, self._score(move, worker), past, self._profile(move, worker), wait_s)

    def _profile(self, move: Move, worker: int) -> MigrationProfile:
        """The profile of one move; moves between the same two hosts share the way."""
        ends = self._ends(move, worker)
        sharing = self._ways[ends] + (worker != int(move.target))
        (profile,) = self._live.of(ends, [replace(move, target=WorkerId(worker))])
        return replace(profile, link=replace(profile.link, bytes_per_s=profile.link.bytes_per_s / sharing))

    def _entry(self, move: Move, best: MigrationOption, options: Sequence[MigrationOption]) -> HostChoice:
        name = self._case.names.get(move.instance, str(move.instance))
        others = (each for each in options if each is not best)
        listed = tuple(self._listed(each) for each in (best, *others))
        return HostChoice(name, int(move.source), int(move.target), round(self._bytes(move)), listed)

    def _listed(self, option: MigrationOption) -> HostOption:
        choice = option.moment.choice
        return HostOption(
            choice.worker,
            self._observation.host_of(choice.worker),
            round(choice.score, 4),
            round(choice.cost, 6),
            round(option.benefit, 4),
            option.moment.mechanism,
            round(option.seconds, 6),
            round(option.moment.wait_s, 6),
        )


def _now(option: MigrationOption) -> tuple[bool, float]:
    """What can be done now, the largest benefit first."""
    return not option.moment.wait_s, option.benefit


def _is_better(option: MigrationOption, than: MigrationOption) -> bool:
    """Whether an option costs clearly less than another and has a larger benefit."""
    return option.benefit > than.benefit and option.moment.cost <= (1 - CLEARLY) * than.moment.cost
