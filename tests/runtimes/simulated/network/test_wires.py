"""Bytes between hosts: shared links, headers, outages."""

import pytest

from shoal.runtimes.simulated.machine.hosts import Host, Link, Outage
from shoal.runtimes.simulated.machine.machine import Machine
from shoal.runtimes.simulated.network.calendar import Action, Calendar
from shoal.runtimes.simulated.network.wires import Wires


def wires(*outages: Outage, overhead: int = 0, latency_s: float = 0.0) -> tuple[Calendar, Wires]:
    links = [
        Link(a, b, 1000.0, latency_s, segment_bytes=100, overhead_bytes=overhead) for a, b in (("a", "b"), ("b", "a"))
    ]
    calendar = Calendar()
    return calendar, Wires(Machine((Host("a", 1), Host("b", 1)), tuple(links), outages), calendar)


def arrivals(calendar: Calendar, sender: Wires, sends: list[tuple[float, float]]) -> list[float]:
    """When bytes arrive that are sent at some times."""
    found = [0.0] * len(sends)
    for number, (at_s, size) in enumerate(sends):

        def arrived(number: int = number) -> None:
            found[number] = calendar.now_s

        def send(size: float = size, arrived: Action = arrived) -> None:
            sender.send(0, 1, size, arrived)

        calendar.add(at_s, send)
    calendar.run(100.0)
    return found


def test_a_flow_alone_has_the_whole_link() -> None:
    assert arrivals(*wires(latency_s=0.5), [(1.0, 500)]) == [pytest.approx(2.0)]


def test_the_last_byte_has_left_before_it_arrives() -> None:
    calendar, sender = wires(latency_s=0.5)
    found = dict[str, float]()
    arrived, gone = (lambda name=name: found.setdefault(name, calendar.now_s) for name in ("arrived", "gone"))
    sender.send(0, 1, 1000, arrived, gone)  # type: ignore[arg-type]
    calendar.run(10.0)
    assert found == {"gone": pytest.approx(1.0), "arrived": pytest.approx(1.5)}


def test_two_flows_share_the_link_until_one_ends() -> None:
    assert arrivals(*wires(), [(0.0, 1000), (0.5, 250)]) == [pytest.approx(1.25), pytest.approx(1.0)]


def test_every_begun_segment_has_a_header() -> None:
    assert arrivals(*wires(overhead=50), [(0.0, 101)]) == [pytest.approx(0.201)]


def test_a_flow_waits_while_its_link_is_down() -> None:
    assert arrivals(*wires(Outage(0.25, "a->b", 2.25)), [(0.0, 1000)]) == [pytest.approx(3.0)]


def test_bytes_on_one_host_are_there_at_once() -> None:
    calendar, sender = wires()
    seen = list[float]()
    sender.send(1, 1, 10**9, lambda: seen.append(calendar.now_s))
    calendar.run(0.0)
    assert seen == [0.0]


def test_what_is_cancelled_never_arrives_and_leaves_its_share_to_others() -> None:
    calendar, sender = wires()
    seen = list[float]()
    flow = sender.send(0, 1, 1000, lambda: seen.append(-1.0))
    sender.send(0, 1, 1000, lambda: seen.append(calendar.now_s))
    assert flow is not None
    calendar.run(1.0)
    assert flow.passed(calendar.now_s) == pytest.approx(0.5)
    sender.cancel(flow)
    calendar.run(10.0)
    assert seen == [pytest.approx(1.5)]
