"""Replicas: copies of the state of instances at a standby host, brought up to date periodically.

1. Every period each other host copies the state of its instances, and sends what has changed since the copies before in
   one flow. Instances that are moving are left out.
2. A copy counts once it has arrived. Until then its host sends no other one: if a period is too short for what changes
   in it, replicas become older, but never queue up.
3. A host that is gone for good sends nothing more; what was under way from there never counts.

A round is planned for every period only as far as the epoch that runs, so that a run in which nothing can happen any
more is still found out.
"""

from collections.abc import Iterator, Mapping

from shoal.mechanisms.transfer import STATIC_BYTES
from shoal.model.query.graph import InstanceId
from shoal.runtimes.migration.piece import Piece
from shoal.runtimes.migration.state_copy import StateCopy
from shoal.runtimes.simulated.network.network import Network
from shoal.runtimes.simulated.network.station import Station
from shoal.runtimes.simulated.network.wires import Bytes

NO_HOST = -1


class Replicas:
    """The replicas of all instances; none with `standby` `NO_HOST`."""

    def __init__(self, network: Network, standby: int, period_s: float) -> None:
        """Nothing is replicated yet; the first copies are made after a period."""
        self._network, self._standby, self._period_s = network, standby, period_s
        self._here: dict[InstanceId, StateCopy] = {}
        self._sending: dict[int, Bytes | None] = {}
        self._rounds = 0
        self._sent = 0

    def plan(self, until_s: float) -> None:
        """Plan the rounds up to a time."""
        while self._standby != NO_HOST and (self._rounds + 1) * self._period_s <= until_s:
            self._rounds += 1
            self._network.calendar.add(self._rounds * self._period_s, self._replicate)

    def at(self, station: Station, core: int) -> StateCopy | None:
        """The replica of an instance, if it is at the host of a core."""
        return self._here.get(station.instance) if self._network.host(core) == self._standby else None

    def taken(self) -> int:
        """The bytes that were sent since the last call."""
        sent, self._sent = self._sent, 0
        return sent

    def lose(self, host: int) -> None:
        """A host is gone for good."""
        flow = self._sending.pop(host, None)
        if flow is not None:
            self._network.wires.cancel(flow)
        if host == self._standby:
            self._standby = NO_HOST
            self._here.clear()

    def _replicate(self) -> None:
        """Let every host send its copies, unless it still does."""
        if self._standby == NO_HOST:  # it went after the round was planned
            return
        stations: dict[int, list[Station]] = {}
        for station in self._network.stations.values():
            host = self._network.host(station.home.core)
            if host == self._standby:
                self._here.pop(station.instance, None)
            elif station.crossing is None:
                stations.setdefault(host, []).append(station)
        for host in sorted(stations.keys() - self._sending.keys()):
            self._copy(host, stations[host])

    def _copy(self, host: int, stations: list[Station]) -> None:
        """Copy the state of instances of a host, and send what has changed."""
        made: dict[InstanceId, StateCopy] = {}
        nbytes = 0
        for instance, copy, changed in self._copied(stations):
            made[instance] = copy
            nbytes += changed
        if not nbytes:
            self._here.update(made)  # nothing has changed: what is there is as new as this
            return
        self._sent += STATIC_BYTES + nbytes
        self._sending[host] = None
        flow = self._network.wires.send(host, self._standby, STATIC_BYTES + nbytes, lambda: self._arrived(host, made))
        self._sending[host] = flow

    def _copied(self, stations: list[Station]) -> Iterator[tuple[InstanceId, StateCopy, int]]:
        """A copy of each instance, and the bytes in which it differs from the one before."""
        for station in stations:
            kernel, state = station.kernel, station.state
            copy, before = StateCopy.of(kernel, state), self._here.get(station.instance)
            base = before if before is not None else StateCopy.nothing(kernel)
            now = Piece(copy.piece.fragments, dict(copy.piece.tables), copy.piece.watermark_us)
            yield station.instance, copy, base.difference(kernel, now).nbytes

    def _arrived(self, host: int, made: Mapping[InstanceId, StateCopy]) -> None:
        if host in self._sending and self._standby != NO_HOST:
            del self._sending[host]
            self._here.update(made)
