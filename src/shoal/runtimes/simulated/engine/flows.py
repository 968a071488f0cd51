"""Flows: bytes on their way over links, which divide their bandwidth evenly among the flows that cross them.

A flow is as fast as the slowest of its links allows. Links whose flows have changed are marked; `settle` then gives the
flows on them their new rates. A link that is down carries nothing, and its flows go on when it returns.
"""

from typing import Any

import numpy as np

from shoal.kernels.compiled import compiled
from shoal.runtimes.simulated.engine import agenda, memory
from shoal.runtimes.simulated.engine.arrays import FLOW, NONE


@compiled
def _mark(world: Any, link: int) -> None:
    links, core = memory.links(world), memory.core(world)[0]
    if not links[link].dirty:
        links[link].dirty = 1
        memory.dirty(world)[core.dirty] = link
        core.dirty += 1


@compiled
def _hop_of(world: Any, flow: int, link: int) -> int:
    """Which of the links of a flow this is."""
    hop = 0
    while memory.hops(world)[flow, hop] != link:
        hop += 1
    return hop


@compiled
def _route(world: Any, here: int, there: int, flow: int) -> int:
    """Write the links between two hosts into a flow; returns their number."""
    hosts, hops = memory.hosts(world), memory.hops(world)
    hops[flow, :] = NONE
    if not len(memory.route_start(world)):  # a star: up to the hub and down again
        hops[flow, 0], hops[flow, 1] = hosts[here].up_link, hosts[there].down_link
        return 2
    pair = here * len(hosts) + there
    start, stop = memory.route_start(world)[pair], memory.route_start(world)[pair + 1]
    for place in range(start, stop):
        hops[flow, place - start] = memory.route_link(world)[place]
    return stop - start


@compiled
def ship(world: Any, here: int, there: int, size: float, what: int, first: int, second: int) -> None:
    """Send bytes from one host to another; `what`, `first` and `second` say what arrives with them."""
    links, core, flows = memory.links(world), memory.core(world)[0], memory.flows(world)
    flow = core.free_flow
    core.free_flow = flows[flow].free
    core.flows += 1
    flows[flow].what, flows[flow].first, flows[flow].second, flows[flow].target = what, first, second, there
    flows[flow].rate, flows[flow].since_s, flows[flow].latency_s = 0.0, -1.0, 0.0
    number, overhead = _route(world, here, there, flow), 0.0
    for hop in range(number):
        link = memory.hops(world)[flow, hop]
        head = links[link].head
        memory.after(world)[flow, hop], memory.before(world)[flow, hop] = head, NONE
        if head != NONE:
            memory.before(world)[head, _hop_of(world, head, link)] = flow
        links[link].head = flow
        links[link].flows += 1
        flows[flow].latency_s += links[link].latency_s
        overhead = max(overhead, np.ceil(size / links[link].segment) * links[link].overhead)
        _mark(world, link)
    flows[flow].size = flows[flow].left = size + overhead


@compiled
def end(world: Any, flow: int) -> None:
    """Take a flow off its links, which have carried it; it keeps its place until `forget`."""
    links, size = memory.links(world), memory.flows(world)[flow].size
    memory.flows(world)[flow].size = 0.0
    for hop in range(memory.core(world)[0].hops):
        link = memory.hops(world)[flow, hop]
        if link == NONE:
            break
        next_, last = memory.after(world)[flow, hop], memory.before(world)[flow, hop]
        if last == NONE:
            links[link].head = next_
        else:
            memory.after(world)[last, _hop_of(world, last, link)] = next_
        if next_ != NONE:
            memory.before(world)[next_, _hop_of(world, next_, link)] = last
        links[link].flows -= 1
        links[link].carried += size
        _mark(world, link)


@compiled
def forget(world: Any, flow: int) -> None:
    """Free the place of a flow."""
    core, flows = memory.core(world)[0], memory.flows(world)
    flows[flow].version += 1
    flows[flow].free = core.free_flow
    core.free_flow = flow
    core.flows -= 1


@compiled
def switch(world: Any, link: int, down: int) -> None:
    """Take a link down, or up again; one that was taken down twice has to come up twice."""
    memory.links(world)[link].down += 1 if down else -1
    _mark(world, link)


@compiled
def settle(world: Any) -> None:
    """Give all flows on marked links their new rates, and put their new ends on the agenda."""
    core, links = memory.core(world)[0], memory.links(world)
    for place in range(core.dirty):
        link = memory.dirty(world)[place]
        links[link].dirty = 0
        flow = links[link].head
        while flow != NONE:
            _revise(world, flow)
            flow = memory.after(world)[flow, _hop_of(world, flow, link)]
    core.dirty = 0


@compiled
def _revise(world: Any, flow: int) -> None:
    flows, links, now_s = memory.flows(world), memory.links(world), memory.core(world)[0].now_s
    rate = np.inf
    for hop in range(memory.core(world)[0].hops):
        link = memory.hops(world)[flow, hop]
        if link == NONE:
            break
        share = 0.0 if links[link].down > 0 else links[link].bytes_per_s / links[link].flows
        rate = min(rate, share)
    since_s = flows[flow].since_s
    if since_s >= 0 and rate == flows[flow].rate:
        return
    if since_s >= 0:
        flows[flow].left = max(0.0, flows[flow].left - (now_s - since_s) * flows[flow].rate)
    flows[flow].since_s, flows[flow].rate = now_s, rate
    flows[flow].version += 1
    if rate > 0:
        agenda.add(world, now_s + flows[flow].left / rate, FLOW, flow, flows[flow].version)
