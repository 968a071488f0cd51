"""Wires: bytes on their way between hosts; the flows over a link share its bandwidth evenly.

A flow is as fast as the slowest of its links allows. A link that is down carries nothing; its flows go on when it is
back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.network.calendar import Action, Calendar


@dataclass(eq=False)
class Bytes:
    """Bytes on their way: those that are left, headers included, and how fast they are since when."""

    links: tuple[int, ...]
    size: float
    left: float
    arrived: Action
    gone: Action | None = None
    rate: float = 0.0
    since_s: float = 0.0
    version: int = 0

    def passed(self, now_s: float) -> float:
        """The share of the bytes that has passed."""
        left = max(0.0, self.left - self.rate * (now_s - self.since_s))
        return 1.0 if self.size == 0 else 1 - left / self.size


class Wires:
    """All links of a machine."""

    def __init__(self, machine: Machine, calendar: Calendar) -> None:
        """Nothing is on its way; outages are planned."""
        self._machine, self._calendar = machine, calendar
        self._flows: list[Bytes] = []
        self._down = [0] * len(machine.links)
        self.carried = [0.0] * len(machine.links)
        for link, begin_s, end_s in machine.link_outages:
            calendar.add(begin_s, lambda link=link: self._switch(link, 1))  # type: ignore[misc]
            if end_s < math.inf:
                calendar.add(end_s, lambda link=link: self._switch(link, -1))  # type: ignore[misc]

    def send(
        self, source: int, target: int, nbytes: float, arrived: Action, gone: Action | None = None
    ) -> Bytes | None:
        """Send bytes from one host to another, and act when they are there; at once on the same host.

        `gone` happens earlier, when the last byte has left: others can be sent while these are still on their way.
        """
        links = self._machine.route(source, target)
        if not links:
            if gone is not None:
                self._calendar.add(self._calendar.now_s, gone)
            self._calendar.add(self._calendar.now_s, arrived)
            return None
        segments, overheads = self._machine.link_segment[list(links)], self._machine.link_overhead[list(links)]
        headers = max(math.ceil(nbytes / s) * o for s, o in zip(segments.tolist(), overheads.tolist(), strict=True))
        size = nbytes + headers
        flow = Bytes(links, size, size, arrived, gone, since_s=self._calendar.now_s)
        self._flows.append(flow)
        self._share_again()
        return flow

    def cancel(self, flow: Bytes) -> None:
        """Forget a flow: what has not passed never arrives."""
        if flow in self._flows:
            self._flows.remove(flow)
            flow.version += 1
            self._share_again()

    @property
    def now_s(self) -> float:
        """The time."""
        return self._calendar.now_s

    def _switch(self, link: int, down: int) -> None:
        self._down[link] += down
        self._share_again()

    def _share_again(self) -> None:
        """Give all flows their rates, and plan their ends again where these have changed."""
        now_s, crossing = self._calendar.now_s, [0] * len(self._down)
        for flow in self._flows:
            for link in flow.links:
                crossing[link] += 1
        bandwidth = self._machine.link_bytes_per_s
        for flow in self._flows:
            rate = min(0.0 if self._down[link] else float(bandwidth[link]) / crossing[link] for link in flow.links)
            if rate != flow.rate:
                flow.left = max(0.0, flow.left - flow.rate * (now_s - flow.since_s))
                flow.rate, flow.since_s, flow.version = rate, now_s, flow.version + 1
                if rate > 0:
                    self._plan_end(flow, now_s + flow.left / rate)

    def _plan_end(self, flow: Bytes, at_s: float) -> None:
        version = flow.version

        def end() -> None:
            if flow.version == version:
                self._flows.remove(flow)
                for link in flow.links:
                    self.carried[link] += flow.size
                self._calendar.add(self._calendar.now_s + self._latency_s(flow.links), flow.arrived)
                self._share_again()
                if flow.gone is not None:
                    flow.gone()

        self._calendar.add(at_s, end)

    def _latency_s(self, links: Sequence[int]) -> float:
        return float(self._machine.link_latency_s[list(links)].sum())
