"""Time of the naive simulation: what happens next, in order, while bytes flow."""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf

from tests.runtimes.simulated.engine.naive_network import Flow, NaiveNetwork

from shoal.runtimes.simulated.machine.machine import Machine


class NaiveClock:
    """The time, the actions planned for later, and the network."""

    def __init__(self, machine: Machine) -> None:
        self.now_s, self.numbers = 0.0, count()
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.network = NaiveNetwork(machine)

    def plan(self, time_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (time_s, next(self.numbers), action))

    def plan_outage(self, begin_s: float, end_s: float, switch: Callable[[int], None]) -> None:
        if begin_s <= 0:
            switch(1)
        else:
            self.plan(begin_s, lambda: switch(1))
        if end_s < inf:
            self.plan(end_s, lambda: switch(-1))

    def go_on(self, until_s: float, between: Callable[[], None]) -> None:
        """Act until a time; `between` is called before each action, and before the end."""
        while True:
            between()
            left_s, ending = self.network.first_end()
            end_s = self.now_s + left_s
            next_s = min(self.agenda[0][0] if self.agenda else inf, end_s)
            if next_s > until_s:
                self._pass(until_s)
                return
            self._pass(next_s)
            if end_s == next_s and ending is not None:
                self._end_flow(ending)
            else:
                heapq.heappop(self.agenda)[2]()

    def _pass(self, time_s: float) -> None:
        self.network.wait(time_s - self.now_s)
        self.now_s = time_s

    def _end_flow(self, flow: Flow) -> None:
        self.network.flows.remove(flow)
        self.plan(self.now_s + self.network.latency_s(flow), lambda: flow.arrived(flow.target))
