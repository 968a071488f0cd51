"""Hosts that are gone for good: what they had is lost, and their instances go on elsewhere."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from shoal.compiler.lane import Lane
from shoal.errors import RunError
from shoal.model.control.binding import WorkerId
from shoal.model.control.messages import MoveReport
from shoal.runtimes.migration.departure import Departure
from shoal.runtimes.migration.interruption import before_redirection
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.network.convoy import Convoy
from shoal.runtimes.simulated.network.network import OUTSIDE, Network
from shoal.runtimes.simulated.network.replicas import Replicas
from shoal.runtimes.simulated.network.station import Station
from shoal.runtimes.simulated.workers import Workers


def gone_for_good(machine: Machine) -> dict[int, float]:
    """When hosts fail, or lose all of their links, and never return."""
    found = {host: begin_s for host, begin_s, end_s in machine.host_outages if end_s == math.inf}
    links = {link: begin_s for link, begin_s, end_s in machine.link_outages if end_s == math.inf}
    for host, each in enumerate(machine.hosts):
        out = [links.get(number) for number, link in enumerate(machine.links) if link.source == each.name]
        if out and None not in out:
            found[host] = min(found.get(host, math.inf), max(begin_s for begin_s in out if begin_s is not None))
    return found


def queries_of(lane: Lane) -> list[str]:
    """The query of each instance of a lane; its result table if several share one, its operator if none has one."""
    names = [str(instance) for instance in lane.instances]
    for outlet in lane.outlets:
        for number, query in enumerate(outlet.query_of[: len(names)]):
            names[number] = query or outlet.table
    return names


class LostHosts:
    """Lets the instances of lost hosts go on, and keeps what is lost until it is reported.

    `workers` gives the workers as they are now; `over` says whether the run has nothing left to do.
    """

    def __init__(
        self,
        network: Network,
        convoy: Convoy,
        replicas: Replicas,
        workers: Callable[[], Workers],
        over: Callable[[], bool],
    ) -> None:
        """Plan the losses of the machine."""
        self._network, self._convoy, self._replicas = network, convoy, replicas
        self._workers, self._over = workers, over
        self._gone: set[int] = set()
        self._rows = 0
        self._reports: list[MoveReport] = []
        for host, at_s in gone_for_good(network.machine).items():
            network.calendar.add(at_s, lambda host=host: self._lose(host))  # type: ignore[misc]

    def taken_rows(self) -> int:
        """The rows that were lost since the last call."""
        rows, self._rows = self._rows, 0
        return rows

    def taken_reports(self) -> tuple[MoveReport, ...]:
        """The instances that went on elsewhere since the last call, and what they have lost."""
        reports, self._reports = tuple(self._reports), []
        return reports

    def _lose(self, host: int) -> None:
        """A host is gone for good: its instances go on elsewhere, with what had arrived there."""
        if self._over():
            return
        self._refuse(host)
        network, host_of = self._network, self._network.machine.worker_host
        self._rows += self._convoy.interrupt(host)
        self._gone.add(host)
        self._replicas.lose(host)
        for core in np.flatnonzero(host_of == host).tolist():
            network.cores.lose(core)
        for station in network.stations.values():
            if host_of[station.home.core] == host:
                self._rows += self._restarted(station)
        self._rows += network.lose(host)

    def _refuse(self, host: int) -> None:
        """End the run if it cannot go on without a host."""
        network, host_of = self._network, self._network.machine.worker_host
        name = network.machine.hosts[host].name
        if any(core != OUTSIDE and host_of[core] == host for core in network.source_cores.values()):
            raise RunError(f"host {name!r}, which reads a source, is gone for good; use source=outside")
        if any(host_of[each.target.core] == host for each in self._convoy.crossings if not each.relocation.finished):
            raise RunError(f"host {name!r}, to which instances are moving, is gone for good")
        if all(host_of[core] in {*self._gone, host} for core in self._workers().cores):
            raise RunError("the simulated run cannot go on: every host is gone for good")

    def _restarted(self, station: Station) -> int:
        """Let an instance go on with its replica or an empty state; returns the rows lost on their way to it."""
        workers, kernel = self._workers(), station.kernel
        source = WorkerId(max(0, int(workers.number_of[station.home.core])))
        refuge = self._refuge(station)
        replica = self._replicas.at(station, refuge)
        copy = None if replica is None else replica.piece
        loss, state = before_redirection(kernel, Departure(kernel, station.state, listing=station.listing()), copy, ())
        rows = station.restart(refuge, state)
        lost = loss.lost_state(kernel, queries_of(station.lane))
        target = WorkerId(int(workers.number_of[refuge]))
        self._reports.append(MoveReport(station.instance, source, target, lost=lost, seconds=0.0))
        return rows

    def _refuge(self, station: Station) -> int:
        """A core for an instance: one of the host with its replica, or else the first that is left."""
        return min(self._left(), key=lambda core: self._replicas.at(station, core) is None)

    def _left(self) -> Iterator[int]:
        host_of = self._network.machine.worker_host
        return (core for core in self._workers().cores if host_of[core] not in self._gone)
