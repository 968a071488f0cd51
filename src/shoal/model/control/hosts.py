"""Hosts: what policies may know of the computers behind a topology, where a runtime knows it.

All columns have a value for every host. Runtimes without such figures have topologies without hosts, and whatever needs
them must refuse rather than assume some.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Legs:
    """The ways between one host and every host: latency, bytes per second of the narrowest link, joules per byte.

    A host reaches itself at once, at no cost. Energy is that of all hosts on the way, headers included.
    """

    latency_s: Floats
    bytes_per_s: Floats
    byte_j: Floats


class Ways(Protocol):
    """The ways between all hosts; the same question always has the same answer."""

    def onward(self, host: int) -> Legs:
        """From a host to every host."""

    def back(self, host: int) -> Legs:
        """From every host to a host."""


@dataclass(frozen=True)
class HostDeparture:
    """A time in which a host will be gone: `event` says why, `known_at_s` since when that is known.

    >>> HostDeparture(2, 30.0, 50.0, event="is expected to lose its link").sentence("box-2")
    'host box-2 is expected to lose its link at 30.0 s'
    """

    host: int
    at_s: float
    until_s: float = float("inf")
    known_at_s: float = 0.0
    event: str = "is expected to fail"

    def sentence(self, name: str) -> str:
        """What happens to the host, and when."""
        return f"host {name} {self.event} at {self.at_s:.1f} s"


@dataclass(frozen=True, eq=False)
class Hosts:
    """All hosts of a machine, whether they have workers of the run or not.

    `of_worker`: the host of every worker. `speed`: work done per second, relative to the machine on which costs were
    measured. `busy_w` and `idle_w`: watts of a core at work and of one that waits; `byte_j`: joules to send or receive
    a byte; `battery_j`: joules that are left, infinite without a battery. `source_of`: the host that reads each stream;
    a stream that comes from outside of the machine has none. `departures`: what is announced, known by now or not.
    """

    names: tuple[str, ...]
    of_worker: Ints
    cores: Ints
    speed: Floats
    busy_w: Floats
    idle_w: Floats
    byte_j: Floats
    battery_j: Floats
    ways: Ways
    source_of: Mapping[str, int] = field(default_factory=dict)
    departures: tuple[HostDeparture, ...] = ()

    @property
    def has_energy(self) -> bool:
        """Whether anything on any host takes energy."""
        return bool((self.busy_w + self.idle_w + self.byte_j).any())

    @property
    def has_batteries(self) -> bool:
        """Whether any host can run out of energy."""
        return bool(np.isfinite(self.battery_j).any())
