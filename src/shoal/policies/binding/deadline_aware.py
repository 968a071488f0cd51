"""The policy `deadline-aware`: instances are where every query meets its deadline, the tightest first.

1. The latency of a query is that of its slowest path: the hops from the host of its stream from instance to instance,
   and at every instance the queue of its worker, by utilisation, and the work on an event. What was measured beyond
   that, such as the wait for a batch of input, stays as it is.
2. While a query is late, that with the tightest deadline is helped first. Considered are moves of the instances on its
   path, one by one and all of them to one host, and of other instances off the workers on its path.
3. The move that lowers its latency most is made, unless a query with a tighter deadline would be later, or one with the
   same deadline as late as this one was. So the latenesses, in order of deadline, become less, and the search ends.
4. A query that cannot be helped is passed over. If no query is late, nothing moves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.errors import ConfigError
from shoal.model.control.binding import Binding
from shoal.model.control.topology import Topology
from shoal.policies.binding.demand import Demand
from shoal.policies.binding.goal import Aim
from shoal.policies.binding.loads import Floats, Ints, Loads

NAME = "deadline-aware"
_LEAST = 1e-6
"""Share of a deadline by which a move must make a query faster."""
_MOST_HOSTS = 16
"""Hosts that are considered for a move: the least busy ones, and those closest to the streams."""
_MOST_TRIALS = 4000
"""Placements that are considered at a time; what is not reached is left for the next time."""
_OTHERS = 3
"""Instances that are considered to leave a worker on the path of a late query."""


@dataclass(frozen=True)
class DeadlineAware:
    """Places instances so that no query is late; makes at most `most_moves` moves at a time."""

    most_moves: int = 32

    measure = "the latency of the latest query, in deadlines,"

    def propose(self, loads: Loads, binding: Binding, topology: Topology) -> Binding:
        """The binding once no query is late, or none that is late can be helped."""
        search = _Search(DeadlineJudge(Demand(loads, binding, topology, NAME)))
        moves = 0
        while moves < self.most_moves and search.help_one():
            moves += 1
        return loads.bound(binding, search.placed) if moves else binding

    def judge(self, loads: Loads, binding: Binding, topology: Topology) -> "DeadlineJudge":
        """Values placements by the lateness of queries."""
        return DeadlineJudge(Demand(loads, binding, topology, NAME))


class DeadlineJudge:
    """Violation is the lateness of all queries, in deadlines; the amount is the latency of the latest."""

    def __init__(self, demand: Demand) -> None:
        """Values placements of the instances of a demand, by the deadlines of its loads."""
        paths = demand.loads.paths
        if not paths.deadline_s:
            raise ConfigError(f"policy {NAME} needs deadlines of queries; got none")
        self.demand = demand
        known = ((query, paths.deadline_s[query]) for query in paths.ends if query in paths.deadline_s)
        self.queries = sorted(known, key=lambda each: (each[1], each[0]))
        ends = [paths.ends[query] for query, _ in self.queries]
        self._end = np.array([end for several in ends for end in several], np.int64)
        self._query = np.repeat(np.arange(len(ends)), [len(several) for several in ends])
        self.deadline_s = np.array([deadline_s for _, deadline_s in self.queries])
        measured_s = np.array([demand.loads.latency_s.get(query, 0.0) for query, _ in self.queries])
        self._unexplained_s = np.maximum(0.0, measured_s - self._modelled_s(demand.placed))

    def _modelled_s(self, placed: Ints) -> Floats:
        latency_s = np.zeros(len(self.queries))
        np.maximum.at(latency_s, self._query, self.demand.latency_s(placed)[self._end])
        return latency_s

    def latency_s(self, placed: Ints) -> Floats:
        """The expected latency of every query: by the model, and what was measured beyond it, e.g. input in batches."""
        expected_s: Floats = self._modelled_s(placed) + self._unexplained_s
        return expected_s

    def ratios(self, placed: Ints) -> Floats:
        """The latency of every query, in deadlines; the tightest deadline comes first."""
        ratio: Floats = self.latency_s(placed) / self.deadline_s
        return ratio

    def aim(self, placed: Ints) -> Aim:
        """How far a placement is from the goal."""
        ratio = self.ratios(placed)
        return Aim(float(np.maximum(0.0, ratio - 1).sum()), float(ratio.max(initial=0.0)))

    def cost(self, placed: Ints, place: int, worker: int) -> float:
        """The lateness of all queries and the latency of the latest, with a place on a worker."""
        there = placed.copy()
        there[place] = worker
        aim = self.aim(there)
        return max(1e-12, aim.violation + aim.amount)

    @cached_property
    def _inputs(self) -> Mapping[int, Sequence[int]]:
        """The places that feed each place."""
        loads, found = self.demand.loads, dict[int, list[int]]()
        for source, target in zip(loads.edge_source.tolist(), loads.edge_target.tolist(), strict=True):
            found.setdefault(target, []).append(source)
        return found

    def path(self, query: int) -> list[int]:
        """All places that events of a query pass."""
        found, left = set[int](), self._end[self._query == query].tolist()
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                left += self._inputs.get(place, ())
        return sorted(found)


class _Search:
    """The search for a placement."""

    def __init__(self, judge: DeadlineJudge) -> None:
        self._judge, self._demand = judge, judge.demand
        self.placed = judge.demand.placed.copy()
        self._hosts = np.unique(judge.demand.host_of)
        self._trials_left = _MOST_TRIALS

    def help_one(self) -> bool:
        """Make the best move for the tightest query that is late and can be helped; False if there is none."""
        ratio = self._judge.ratios(self.placed)
        for query in np.flatnonzero(ratio > 1 + _LEAST).tolist():
            if self._trials_left <= 0:
                break
            best, least = None, float(ratio[query]) - _LEAST
            for trial in self._trials(query):
                then, self._trials_left = self._judge.ratios(trial), self._trials_left - 1
                if then[query] < least and not self._harms(query, ratio, then):
                    best, least = trial, float(then[query])
            if best is not None:
                self.placed = best
                return True
        return False

    def _harms(self, query: int, before: Floats, then: Floats) -> bool:
        """Whether a tighter query becomes later, or one with the same deadline as late as this one was."""
        deadline_s = self._judge.deadline_s
        later = then > np.maximum(before, 1.0) + _LEAST
        tighter, equal = deadline_s < deadline_s[query], deadline_s == deadline_s[query]
        return bool((later & (tighter | (equal & (then > before[query] - _LEAST)))).any())

    def _trials(self, query: int) -> Iterator[Ints]:
        """Placements that could be better for a query, each with some places elsewhere."""
        path = self._judge.path(query)
        busy = self._demand.utilisation(self.placed)
        targets = self._targets(busy)
        slowest = sorted(path, key=lambda place: -busy[self.placed[place]])[:_MOST_HOSTS]
        units = [[place] for place in slowest] + ([path] if 1 < len(path) <= _MOST_HOSTS else [])
        for worker in dict.fromkeys(self.placed[slowest].tolist()):
            others = np.setdiff1d(np.flatnonzero(self.placed == worker), path)
            heaviest = others[np.argsort(-self._demand.work[others], kind="stable")[:_OTHERS]]
            units += [[place] for place in heaviest.tolist()]
        for unit in units:
            for target in targets:
                if any(self.placed[place] != target for place in unit):
                    trial = self.placed.copy()
                    trial[unit] = target
                    yield trial

    def _targets(self, busy: Floats) -> list[int]:
        """The least busy worker of every host that is considered."""
        demand, first = self._demand, dict[int, int]()
        for worker in np.argsort(busy, kind="stable").tolist():
            first.setdefault(int(demand.host_of[worker]), worker)
        if len(first) <= _MOST_HOSTS:
            return list(first.values())
        sources = set(demand.hosts.source_of.values()) or {int(self._hosts[0])}
        away_s = sum(demand.onward(host).latency_s for host in sorted(sources))
        close = sorted(first, key=lambda host: (float(np.asarray(away_s)[host]), host))[: _MOST_HOSTS // 2]
        return [first[host] for host in dict.fromkeys([*close, *list(first)[: _MOST_HOSTS // 2]])]
