"""Contention: how much slower workers are that work at the same time, from runs that bind instances.

A turn takes longer on the clock than on the processor: workers wait for the interpreter lock, which is released only in
compiled code, and for the processor itself. Other programs on the machine count, too.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup

LOAD = 0.3
"""The load of every worker in runs at a rate."""
LONGEST_S = 1.5
"""About how long a run takes."""
LEAST_SHARE = 0.05
"""The share of the time in which other workers must be busy for their effect to be measured."""
MOST_WORKERS = 8


def contention(graph: Graph, sources: Mapping[str, Source], event_s: float) -> dict[str, Any]:
    """Factors of the time of turns with 1, 2, ... busy workers: at a rate, and as fast as possible.

    `event_s`: about how much processor time an event takes.
    """
    workers = range(1, min(MOST_WORKERS, os.cpu_count() or 1) + 1)
    at_rate = [_ratio(graph, _at_load(sources, event_s, LOAD * number), number) for number in workers]
    fastest = [_ratio(graph, _at_load(sources, event_s, None), number) for number in workers]
    return {"at_rate": factors(at_rate), "as_fast_as_possible": factors(fastest)}


def factors(measured: Sequence[tuple[float, float]]) -> list[float]:
    """The factor with 1, 2, ... busy workers, from runs with as many: mean factor, and mean number of busy others.

    The mean factor is between those for fewer busy workers and for all. It is never smaller with more workers.

    >>> factors([(1.0, 0.0), (1.2, 0.5)])
    [1.0, 1.4]
    """
    found: list[float] = []
    for number, (ratio, others) in enumerate(measured):
        before = found[-1] if found else 1.0
        share = min(1.0, max(0.0, others - (number - 1))) if number else 1.0
        factor = before if share < LEAST_SHARE else before + (ratio - before) / share
        found.append(round(max(before, factor), 6))
    return found


def _at_load(sources: Mapping[str, Source], event_s: float, load: float | None) -> dict[str, Source]:
    """The same sources at rates that give a load, or without one, for a short time; files have no rate."""
    generated = [each for each in sources.values() if isinstance(each, Generator) and each.events is not None]
    total = sum(each.events or 0 for each in generated)
    rate = None if load is None else load / max(event_s, 1e-9)
    most = LONGEST_S / max(event_s, 1e-9) if rate is None else rate * LONGEST_S
    share = min(1.0, most / max(1, total))
    found = dict(sources)
    for name, each in sources.items():
        if isinstance(each, Generator) and each.events is not None:
            part = each.events / max(1, total)
            own = None if rate is None else max(1.0, rate * part)
            found[name] = replace(each, rate=own, events=max(1, int(each.events * share)))
    return found


def _ratio(graph: Graph, sources: Mapping[str, Source], workers: int) -> tuple[float, float]:
    """Time on the clock over processor time of all turns of a run, and how many other workers were busy meanwhile."""
    runtime = LocalRuntime(LocalSetup(sources, MemorySink(), queues="worker-queue", most_workers=workers))
    runtime.start(graph, round_robin(graph, workers))
    began_s = ended_s = runtime.now_s()
    for event in runtime.events():
        ended_s = event.at_s
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
    took_s = max(ended_s - began_s, 1e-9)
    pool = runtime.pool
    worked = list(pool.worked_s[:workers])
    busy_s, cpu_s = sum(pool.busy_s), sum(pool.cpu_s)
    others = sum(one * (sum(worked) - one) for one in worked) / max(sum(worked), 1e-9) / took_s
    return busy_s / cpu_s if cpu_s else 1.0, others
