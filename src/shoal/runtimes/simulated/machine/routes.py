"""Routes: which links bytes take from one host to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.runtimes.simulated.machine.hosts import Link

Numbers = NDArray[np.int64]
MOST_ROUTED = 512
"""Hosts and switches of a network that is no star: routes between all pairs are computed."""
_HOPS = 1024
_NANOSECONDS = 1_000_000_000
_NO_WAY = np.iinfo(np.int64).max // 4
_NONE: Numbers = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Routes:
    """The links between hosts, by number, in one of two forms.

    Star: from host a to host b lead `uplink[a]` and `downlink[b]`; `start` and `link` are empty. Otherwise `uplink` and
    `downlink` are empty, and the route from a to b is `link[start[a * hosts + b] : start[a * hosts + b + 1]]`. A host
    has no links to itself.
    """

    hosts: int
    uplink: Numbers
    downlink: Numbers
    start: Numbers
    link: Numbers

    @property
    def is_star(self) -> bool:
        """Whether the routes have the form of a star."""
        return bool(len(self.uplink))

    def between(self, source: int, target: int) -> tuple[int, ...]:
        """The links from one host to another, in the order in which bytes take them."""
        if source == target:
            return ()
        if self.is_star:
            return int(self.uplink[source]), int(self.downlink[target])
        pair = source * self.hosts + target
        return tuple(self.link[self.start[pair] : self.start[pair + 1]].tolist())


def star_routes(hosts: Sequence[str], links: Sequence[Link]) -> Routes | None:
    """Routes of a network in which every host has one link to and one from the same switch; None if it is another."""
    number = {name: index for index, name in enumerate(hosts)}
    up, down = np.full(len(hosts), -1, np.int64), np.full(len(hosts), -1, np.int64)
    hubs = {end for link in links for end in (link.source, link.target) if end not in number}
    if len(hubs) != 1 or len(links) != 2 * len(hosts):
        return None
    for index, link in enumerate(links):
        if link.source in number and link.target in number:
            return None
        if link.source in number:
            up[number[link.source]] = index
        else:
            down[number[link.target]] = index
    if up.min() < 0 or down.min() < 0:
        return None
    return Routes(len(hosts), _fixed(up), _fixed(down), _NONE, _NONE)


def shortest_routes(hosts: Sequence[str], switches: Sequence[str], links: Sequence[Link]) -> Routes:
    """Routes of least latency; of those the ones with fewest links. The result is the same on every machine.

    Every host must be reachable from every other. Takes memory in the square and time in the cube of the number of
    ends, a few seconds for `MOST_ROUTED`.
    """
    number = {name: index for index, name in enumerate((*hosts, *switches))}
    first = _first_links(number, links)
    target_of = np.array([number[link.target] for link in links], np.int64)
    here, goal = np.divmod(np.arange(len(hosts) ** 2), len(hosts))
    pairs, taken = [_NONE], [_NONE]
    while len(on_way := np.flatnonzero(here != goal)):  # one step of every route that has not arrived
        taken.append(first[here[on_way], goal[on_way]])
        pairs.append(on_way)
        here[on_way] = target_of[taken[-1]]
    pair = np.concatenate(pairs)
    start = np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=len(hosts) ** 2))))
    link = np.concatenate(taken)[np.argsort(pair, kind="stable")]
    return Routes(len(hosts), _NONE, _NONE, _fixed(start), _fixed(link))


def _first_links(number: Mapping[str, int], links: Sequence[Link]) -> Numbers:
    """For every pair of ends the link with which the shortest route begins (Floyd and Warshall's algorithm).

    Latencies are whole nanoseconds here, so that sums are exact and equal ones are found equal; every link adds one
    more unit below them, so that of equal latencies fewer links win.
    """
    size = len(number)
    length = np.full((size, size), _NO_WAY, np.int64)
    np.fill_diagonal(length, 0)
    first = np.full((size, size), -1, np.int64)
    for index, link in enumerate(links):
        pair = number[link.source], number[link.target]
        length[pair] = round(link.latency_s * _NANOSECONDS) * _HOPS + 1
        first[pair] = index
    for via in range(size):
        through = length[:, via, None] + length[None, via, :]
        shorter = through < length
        np.copyto(length, through, where=shorter)
        np.copyto(first, first[:, via, None], where=shorter)
    return first


def unjoined(hosts: Sequence[str], links: Sequence[Link]) -> tuple[str, str] | None:
    """Two hosts of which the first has no route to the second; None if there are none."""
    onward: dict[str, list[str]] = {}
    back: dict[str, list[str]] = {}
    for link in links:
        onward.setdefault(link.source, []).append(link.target)
        back.setdefault(link.target, []).append(link.source)
    reached, reaching = _reached(hosts[0], onward), _reached(hosts[0], back)
    for host in hosts:
        if host not in reached:
            return hosts[0], host
        if host not in reaching:
            return host, hosts[0]
    return None


def _reached(begin: str, onward: Mapping[str, Sequence[str]]) -> set[str]:
    found, open_ends = {begin}, [begin]
    while open_ends:
        new = [end for end in onward.get(open_ends.pop(), ()) if end not in found]
        found.update(new)
        open_ends += new
    return found


def _fixed(numbers: Numbers) -> Numbers:
    numbers.setflags(write=False)
    return numbers
