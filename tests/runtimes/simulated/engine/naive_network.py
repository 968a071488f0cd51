"""A fluid model of a network: every link divides its bandwidth evenly, and a flow is as fast as its slowest link."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from shoal.runtimes.simulated.machine.machine import Machine


@dataclass
class Flow:
    """Bytes on their way."""

    left: float
    links: tuple[int, ...]
    target: int
    arrived: Callable[[int], None]


class NaiveNetwork:
    """Flows on the links of a machine; rates are computed again whenever they are needed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.flows: list[Flow] = []
        self.down = [0] * len(machine.links)
        self.carried = [0.0] * len(machine.links)

    def switch(self, link: int, by: int) -> None:
        self.down[link] += by

    def ship(self, here: int, there: int, size: float, arrived: Callable[[int], None]) -> None:
        links = self.machine.route(here, there)
        of = [self.machine.links[link] for link in links]
        overhead = max(ceil(size / link.segment_bytes) * link.overhead_bytes for link in of)
        self.flows.append(Flow(size + overhead, links, there, arrived))

    def rate(self, flow: Flow) -> float:
        shares = []
        for link in flow.links:
            crossing = sum(link in other.links for other in self.flows)
            shares.append(0.0 if self.down[link] else self.machine.links[link].bytes_per_s / crossing)
        return min(shares)

    def wait(self, seconds: float) -> None:
        """Let time pass in which no flow begins or ends."""
        for flow in self.flows:
            sent = min(flow.left, self.rate(flow) * seconds)
            flow.left -= sent
            for link in flow.links:
                self.carried[link] += sent

    def first_end(self) -> tuple[float, Flow | None]:
        """The seconds until the first flow ends, and that flow."""
        ends = [(flow.left / self.rate(flow), flow) for flow in self.flows if self.rate(flow) > 0]
        return min(ends, key=lambda end: end[0], default=(inf, None))

    def latency_s(self, flow: Flow) -> float:
        return sum(self.machine.links[link].latency_s for link in flow.links)
