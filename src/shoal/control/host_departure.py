"""Departures: hosts that are expected to go, and the instances that leave them in time.

1. A host goes when an announced outage takes it away, when its battery runs out, or when the user wants it to be free.
2. The transfer of its instances takes their bytes over the link of the host, and a hand-over each. They leave when the
   time until the departure is hardly longer than that, so that the host is used as long as it can be.
3. If not all of them can leave in time, the most useful ones do: the utility of an instance is the number of events per
   second that need its state, and the greedy selection of state shedding chooses among them by utility and time.
4. If the mechanism chooses among fragments of state, all of them leave, and the runtime is told how much time it has.
   It sends the most useful fragments of all instances first.
5. They go to the workers of other hosts with the least work. Nothing returns to the host until it is back.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shoal.control.journal import Left
from shoal.control.observation import Observation
from shoal.errors import ConfigError, did_you_mean
from shoal.mechanisms.shedding.selection import GreedySelection
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.control.hosts import Floats, HostDeparture, Hosts
from shoal.model.control.messages import MoveLimit
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Ints

SAFETY = 1.5
"""Times the expected transfer that is allowed for it: other bytes cross the same links."""
LEAD_PERIODS = 2.0
"""Reports of the runtime until a command takes effect."""
BATTERY_SAMPLES = 20
"""Reports over which the use of a battery is averaged."""
FEWEST_SAMPLES = 3
EMPTY = "is expected to run out of battery"
WANTED = "is to be free"
NAMED_FIRST = 3
"""Instances that are named as the most useful ones."""
LATE = "their state takes longer than the time that is left"
NOWHERE = "no other host remains"


def leaving_of(text: str) -> Mapping[str, float]:
    """Hosts that are to be free by a time, as HOST@SECONDS with commas.

    >>> leaving_of("box-2@30,box-3@45.5")
    {'box-2': 30.0, 'box-3': 45.5}
    """
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, at = part.rpartition("@")
        try:
            found[name] = float(at)
        except ValueError:
            found[name] = float("nan")
        if not name or not found[name] >= 0:
            raise ConfigError(f"leave must be HOST@SECONDS, several with commas; got {part!r}")
    return found


@dataclass(frozen=True)
class Evacuation:
    """The binding with which instances leave, and what is to be said of it.

    `limit`: how much time there is, if the runtime has to choose what to send. `first`: the most useful instances, if
    time is short; `kept`: the share of the utility that leaves in time, as far as it is known.
    """

    binding: Binding
    hosts: tuple[str, ...]
    trigger: str
    moved: int
    moved_bytes: int
    transfer_s: float
    stayed: int
    reason: str
    limit: MoveLimit | None = None
    first: tuple[InstanceId, ...] = ()
    kept: float = 1.0

    def entry(self, epoch: int, at_s: float, names: Mapping[InstanceId, str]) -> Left:
        """The same for the journal; `names` are those that people know instances by."""
        return Left(
            at_s,
            epoch,
            self.trigger,
            self.hosts,
            self.moved,
            self.moved_bytes,
            round(self.transfer_s, 6),
            self.stayed,
            self.reason,
            tuple(names.get(each, str(each)) for each in self.first),
            round(self.kept, 6),
        )


@dataclass
class Departures:
    """Follows what is known of hosts that go; `leave` is what the user wants, by name of the host.

    `sheds`: the mechanism chooses which state to send if there is no time for all of it.
    """

    horizon_s: float
    leave: Mapping[str, float] = field(default_factory=dict)
    ahead: bool = True
    sheds: bool = False
    _batteries: deque[tuple[float, Floats]] = field(default_factory=lambda: deque(maxlen=BATTERY_SAMPLES))
    _emptied: dict[int, HostDeparture] = field(default_factory=dict)
    _given_up: set[int] = field(default_factory=set)

    def note(self, topology: Topology | None, now_s: float) -> None:
        """Take what a report says of batteries; called once per report, in order of time."""
        hosts = None if topology is None else topology.hosts
        if hosts is None:
            if self.leave:
                raise ConfigError("leave names hosts, and this runtime does not know its hosts; leave it out")
            return
        for name in self.leave:
            if name not in hosts.names:
                raise ConfigError(
                    f"leave must name hosts of the topology; got {name!r}{did_you_mean(name, hosts.names)}"
                )
        if hosts.has_batteries:
            self._batteries.append((now_s, hosts.battery_j))

    def away(self, hosts: Hosts, now_s: float) -> tuple[int, ...]:
        """The workers that get no more instances: their hosts are gone, or go within the horizon."""
        if not self.ahead:
            return ()
        known = self._known(hosts, now_s)
        gone = {each.host for each in known if each.at_s - self.horizon_s <= now_s < each.until_s}
        return tuple(np.flatnonzero(np.isin(hosts.of_worker, list(gone))).tolist())

    def left_s(self, hosts: Hosts | None, now_s: float) -> Mapping[int, float]:
        """How long each host that is expected to go is still there, by its number; without hosts none is."""
        return (
            {}
            if hosts is None
            else {each.host: each.at_s - now_s for each in self._known(hosts, now_s) if now_s < each.at_s}
        )

    def back_s(self, hosts: Hosts | None, now_s: float) -> Mapping[int, float]:
        """How long until each host is back that gets no instances now, by its number; those that return at all."""
        if hosts is None or not self.ahead:
            return {}
        known = [each for each in self._known(hosts, now_s) if each.at_s - self.horizon_s <= now_s < each.until_s]
        return {each.host: each.until_s - now_s for each in known if each.until_s < float("inf")}

    def expects(self, topology: Topology | None, now_s: float) -> bool:
        """Whether any host is expected to go."""
        hosts = None if topology is None else topology.hosts
        return self.ahead and hosts is not None and any(now_s < each.at_s for each in self._known(hosts, now_s))

    def due(self, observation: Observation, period_s: float, now_s: float) -> Evacuation | None:
        """The instances that have to leave now; None if there is nothing to do, or nothing more.

        Called after each report, if `expects`; `period_s` is the time between two reports.
        """
        hosts = observation.topology.hosts
        if hosts is None:
            return None
        known = [each for each in self._known(hosts, now_s) if now_s < each.at_s]
        search = _Search(observation, hosts, self.away(hosts, now_s), sheds=self.sheds)
        lead_s = LEAD_PERIODS * period_s
        due = [each for each in known if search.is_due(each, now_s, lead_s)]
        for each in due:
            if each.event == EMPTY:
                self._emptied.setdefault(each.host, each)
        found = search.evacuation(due, now_s, lead_s) if due else None
        if found is None or found.moved:
            return found
        new = {each.host for each in due} - self._given_up
        self._given_up |= new
        return found if new else None

    def _known(self, hosts: Hosts, now_s: float) -> list[HostDeparture]:
        """All departures that are known and not over, the first for every host, by time."""
        numbers = {name: number for number, name in enumerate(hosts.names)}
        wanted = (
            HostDeparture(numbers[name], at_s, event=WANTED) for name, at_s in self.leave.items() if name in numbers
        )
        announced = (each for each in hosts.departures if each.known_at_s <= now_s)
        several = [*announced, *wanted, *self._emptying(now_s)]
        first: dict[int, HostDeparture] = {}
        for each in sorted(several, key=lambda one: (one.at_s, one.host)):
            if now_s < each.until_s:
                first.setdefault(each.host, each)
        return list(first.values())

    def _emptying(self, now_s: float) -> list[HostDeparture]:
        """Batteries that become empty at the rate of the last reports; a host that was left for it stays so."""
        found = list(self._emptied.values())
        if len(self._batteries) < FEWEST_SAMPLES:
            return found
        (first_s, first_j), (last_s, last_j) = self._batteries[0], self._batteries[-1]
        for host in np.flatnonzero(np.isfinite(last_j)).tolist():
            used_j = float(first_j[host] - last_j[host])
            if used_j > 0 and last_s > first_s and host not in self._emptied:
                left_s = float(last_j[host]) * (last_s - first_s) / used_j
                found.append(HostDeparture(host, last_s + left_s, known_at_s=now_s, event=EMPTY))
        return found


class _Search:
    """Where the instances of hosts that go could be instead, and how long it takes to send them there."""

    def __init__(self, observation: Observation, hosts: Hosts, away: Sequence[int], *, sheds: bool) -> None:
        self._sheds = sheds
        self._loads, self._binding, self._hosts = observation.loads, observation.binding, hosts
        self._placed = observation.placed.copy()
        self._speed = hosts.speed[hosts.of_worker]
        self._work = observation.work_s * self._speed[self._placed]
        self._away = np.isin(np.arange(len(self._speed)), list(away))

    def _places(self, host: int) -> Ints:
        """The instances on a host."""
        return np.flatnonzero(self._hosts.of_worker[self._placed] == host)

    def _transfer_s(self, host: int, places: Ints, targets: Ints) -> Floats:
        """How long each instance takes alone; together they take the sum, since they share the link of the host."""
        way, there = self._hosts.ways.onward(host), self._hosts.of_worker[targets]
        seconds: Floats = self._loads.costs.hand_over_s + self._loads.state_bytes[places] / way.bytes_per_s[there]
        return seconds

    def is_due(self, departure: HostDeparture, now_s: float, lead_s: float) -> bool:
        """Whether instances of the host have to leave before the next report but one."""
        places = self._places(departure.host)
        if not len(places):
            return False
        targets = self._targets(places, departure.host)
        if targets is None:
            return now_s + lead_s >= departure.at_s
        way = self._hosts.ways.onward(departure.host)
        furthest_s = float(way.latency_s[self._hosts.of_worker[targets]].max())
        transfer_s = float(self._transfer_s(departure.host, places, targets).sum()) + furthest_s
        at_s = departure.at_s - self._battery_s(departure, places, now_s)
        return now_s + lead_s + SAFETY * transfer_s >= at_s

    def _battery_s(self, departure: HostDeparture, places: Ints, now_s: float) -> float:
        """How much sooner a battery is empty by sending the state."""
        hosts, host = self._hosts, departure.host
        if departure.event != EMPTY or not hosts.battery_j[host] > 0:
            return 0.0
        spent_j = hosts.byte_j[host] * float(self._loads.state_bytes[places].sum())
        return float(spent_j / hosts.battery_j[host]) * (departure.at_s - now_s)

    def _targets(self, places: Ints, host: int) -> Ints | None:
        """A worker for every instance, the heaviest first to the one that is done first; None if there is no worker."""
        free = ~self._away & (self._hosts.of_worker != host)
        if not free.any():
            return None
        load_s = np.bincount(self._placed, self._work, len(self._speed)) / self._speed
        load_s[~free] = np.inf
        found = np.zeros(len(places), np.int64)
        for position in np.argsort(-self._work[places], kind="stable").tolist():
            then_s = load_s + self._work[places[position]] / self._speed
            found[position] = worker = int(then_s.argmin())
            load_s[worker] = then_s[worker]
        return found

    def evacuation(self, due: Sequence[HostDeparture], now_s: float, lead_s: float) -> Evacuation | None:
        """Everything that can leave in time, by the departures that are due."""
        worker_of, names = dict(self._binding.worker_of), tuple(self._hosts.names[each.host] for each in due)
        chosen = [self._chosen(each, each.at_s - now_s - lead_s / 2) for each in due]
        for each in chosen:
            for position in each.going:
                place, worker = each.places[position], int(each.targets[position])
                worker_of[self._loads.instances[place]] = WorkerId(worker)
                self._placed[place] = worker
        going = np.concatenate([each.places[each.going] for each in chosen])
        every = np.concatenate([each.places for each in chosen])
        short = [each for each in chosen if each.reason]
        utility = self._loads.rate_per_s
        return Evacuation(
            Binding(worker_of, self._binding.workers),
            names,
            "; ".join(each.sentence(name) for each, name in zip(due, names, strict=True)),
            len(going),
            round(float(self._loads.state_bytes[going].sum())),
            max(each.transfer_s for each in chosen),
            len(every) - len(going),
            short[0].reason if short else "",
            self._limit(due) if len(going) else None,
            tuple(self._loads.instances[place] for each in short for place in each.places[each.first])[:NAMED_FIRST],
            _share(float(utility[going].sum()), float(utility[every].sum())) * min(each.share for each in chosen),
        )

    def _limit(self, due: Sequence[HostDeparture]) -> MoveLimit | None:
        """Until when state can be sent; what is wanted then, and not forced, ends then."""
        soonest = min(due, key=lambda each: each.at_s)
        return MoveLimit(soonest.at_s, ends=soonest.event == WANTED) if self._sheds else None

    def _chosen(self, departure: HostDeparture, left_s: float) -> "_Chosen":
        """The instances that leave a host in a time: all, or the most useful ones that can be sent in it.

        If fragments can be chosen, all of them leave, and a part of their state does not arrive.
        """
        places = self._places(departure.host)
        targets = self._targets(places, departure.host)
        if targets is None:
            nothing = np.zeros(0, np.int64)
            return _Chosen(places, places, nothing, nothing, 0.0, NOWHERE if len(places) else "")
        each_s = self._transfer_s(departure.host, places, targets)
        everyone = np.arange(len(places))
        if each_s.sum() <= left_s:
            return _Chosen(places, targets, everyone, everyone[:0], float(each_s.sum()), "")
        costs_us = np.ceil(each_s * 1e6).astype(np.int64)
        selected = GreedySelection().choose(self._loads.rate_per_s[places], costs_us, max(0, int(left_s * 1e6)))
        if self._sheds:
            share = max(0.0, left_s) / float(each_s.sum())
            reason = f"there is time for {share:.0%} of it, so that the most useful state of all goes first"
            return _Chosen(places, targets, everyone, selected.order, float(each_s.sum()), reason, share)
        going, first = np.flatnonzero(selected.mask), selected.order[: int(selected.mask.sum())]
        return _Chosen(places, targets, going, first, float(each_s[going].sum()), LATE)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The instances on a host that goes, where each could go, and the positions of those that do.

    `first`: positions by utility, if not all can leave in time, which `reason` explains. `share`: what arrives of the
    state that leaves.
    """

    places: Ints
    targets: Ints
    going: Ints
    first: Ints
    transfer_s: float
    reason: str
    share: float = 1.0


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def remaining(observation: Observation, away: Sequence[int]) -> Observation:
    """The same observation without some workers and what is on them; the others are numbered again, in order."""
    topology = observation.topology
    kept = [worker for worker in range(topology.workers) if worker not in set(away)]
    number = {worker: position for position, worker in enumerate(kept)}
    worker_of = {each: number[int(at)] for each, at in observation.binding.worker_of.items() if int(at) in number}
    nodes = np.unique(np.array(topology.node_of)[kept], return_inverse=True)[1]
    hosts = topology.hosts and replace(topology.hosts, of_worker=topology.hosts.of_worker[kept])
    return replace(
        observation,
        loads=observation.loads.part(np.flatnonzero(np.isin(observation.placed, kept))),
        binding=Binding.of(worker_of, len(kept)),
        topology=Topology(tuple(nodes.tolist()), topology.shared, hosts),
        numbers=tuple(kept),
    )


def expanded(found: Binding, part: Observation, whole: Binding) -> Binding:
    """A binding of the remaining workers as one of all workers; what is on the others stays."""
    moved = {each: WorkerId(part.numbers[int(at)]) for each, at in found.worker_of.items()}
    return Binding({**whole.worker_of, **moved}, whole.workers)
