"""Contention: how much longer turns take while other workers are busy, from traced runs on several workers.

Workers of one process share the interpreter lock. It is released in compiled code, and has to be won back after every
call of such code, against the other workers. So the fixed part of a turn, which is many short calls, takes several
times as long, and some turns wait far longer than others; the work per event is slowed down less. Processors that
share memory and other programs on the machine count, too.

1. Every node has a modelled cost of a turn by its fit for one thread: a fixed part and the rest, its work.
2. Runs at several rates, each several times, and as fast as possible say what turns take (`slowdown.py`). Runs of one
   rate differ, and so do profiles of few runs; what they have in common is what the next run has, too.
3. A worker that is idle has to wake up and win the lock before it can begin a turn. How long that takes, from the end
   of the turn that gave it something to do, is measured where it was idle then.
4. A worker that has more to do pauses between two turns: it decides, wins the lock, or steps aside.
5. The thread that delivers results has to win the lock, too. How long that takes is measured by giving it results.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.pace import paced
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.dataflow.source_node import POLL_S
from shoal.runtimes.local.delivery_probe import ProbedRuntime
from shoal.runtimes.local.node_costs import columns_of
from shoal.runtimes.local.node_groups import groups_of
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.local.slowdown import LEAST_TURNS, LONG_S, ContendedTurns, Ints, errors_of, node_factors, slowdown
from shoal.runtimes.local.trace import TracedRuntime, TracedTurn, TurnTrace
from shoal.runtimes.measured.cost_fit import PARTS, Floats

LOADS = (0.03, 0.1, 0.25)
"""The loads of every worker in runs at a rate, if turns had no fixed part."""
REPEATS = 2
"""How often a run of each load is made."""
LONGEST_S = 3.0
"""About how long a run takes."""
BEGINNING_S = 1.0
"""The first turns of a run at a rate do not count, at most a third: channels allocate memory then."""
SLOW = 6.0
"""Turns that take so many times the processor time of others are exceptions, such as memory that has to grow."""
MOST_WORKERS = 8

Delivered = Sequence[tuple[int, float]]
"""Deliveries: the other workers in a turn, and seconds."""


@dataclass(frozen=True, eq=False)
class ContendedRuns:
    """The turns and deliveries of all runs at a rate, each by itself, and of the run as fast as possible."""

    at_rate: Sequence[ContendedTurns]
    delivered: Sequence[Delivered]
    fastest: ContendedTurns
    fastest_delivered: Delivered

    @property
    def pooled(self) -> ContendedTurns:
        """The turns of all runs at a rate."""
        return ContendedTurns.of(self.at_rate)

    @classmethod
    def of(
        cls, graph: Graph, sources: Mapping[str, Source], event_s: float, nodes: Sequence[Mapping[str, Any]]
    ) -> "ContendedRuns":
        """Make all runs; loads take turns, so that a slow minute of the machine is not one of them."""
        workers = contending()
        at_rate, delivered = [], []
        for load in LOADS * REPEATS:
            rate = load * workers / max(event_s, 1e-9)
            loaded = paced(sources, rate, rate * LONGEST_S)
            at_rate.append(_traced(graph, loaded, workers, nodes))
            delivered.append(_delivered(graph, loaded, workers))
        whole = paced(sources, None, LONGEST_S / max(event_s, 1e-9))
        return cls(at_rate, delivered, _traced(graph, whole, workers, nodes), _delivered(graph, whole, workers))


def contending() -> int:
    """The workers of the runs."""
    return min(MOST_WORKERS, os.cpu_count() or 1)


def contention(
    graph: Graph, sources: Mapping[str, Source], event_s: float, nodes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The slowdown at rates and as fast as possible, the factor of every node, and `errors` of single runs.

    `event_s`: about how much processor time an event takes. `nodes`: those of the profile, with their costs.
    """
    return contention_of(ContendedRuns.of(graph, sources, event_s, nodes), [str(node["name"]) for node in nodes])


def contention_of(runs: ContendedRuns, names: Sequence[str]) -> dict[str, Any]:
    """What runs on several workers say, as plain data, with the names of nodes."""
    workers, at_rate, fastest = contending(), runs.pooled, runs.fastest
    of_node = node_factors(at_rate, len(names), workers)
    slower = slowdown(at_rate, of_node, workers, [each for run in runs.delivered for each in run])
    fastest_slower = slowdown(fastest, of_node, workers, runs.fastest_delivered)
    if int((fastest.others > 0).sum()) < LEAST_TURNS:
        # a few large turns, in which the fixed part hardly counts
        fastest_slower = replace(slower, work=fastest_slower.work, long=fastest_slower.long)
    return {
        "at_rate": slower.data(names),
        "as_fast_as_possible": fastest_slower.data(names),
        "nodes": dict(zip(names, np.round(of_node, 6).tolist(), strict=True)),
        "long_s": LONG_S,
        "errors": np.round(errors_of(runs.at_rate, at_rate, of_node, workers), 4).tolist(),
    }


def _traced(
    graph: Graph, sources: Mapping[str, Source], workers: int, nodes: Sequence[Mapping[str, Any]]
) -> ContendedTurns:
    """The turns of a run on some workers, with what each would cost in one thread."""
    setup = LocalSetup(sources, MemorySink(), queues="worker-queue", most_workers=workers)
    runtime = TracedRuntime(setup)
    _run(runtime, graph, workers)
    number_of = {node["name"]: number for number, node in enumerate(nodes)}
    began = [turn.began_s for trace in runtime.traces for turn in trace.turns] or [0.0]
    skipped_s = min(BEGINNING_S, (max(began) - min(began)) / 3)
    first_s = min(began) + (skipped_s if all(_has_rate(each) for each in sources.values()) else 0.0)
    waits = turn_waits(runtime.traces)
    found = ContendedTurns.none()
    for group in groups_of(runtime.nodes):
        number = number_of.get(group.name)
        if number is None:
            continue
        cost = np.array([nodes[number]["cost"][name] for name in PARTS])
        turns = [turn for place in group.places for turn in runtime.traces[place].turns]
        waited = np.concatenate([waits[place] for place in group.places])
        for empty in (False, True):
            counts = np.array([turn.empty == empty and turn.began_s >= first_s for turn in turns], bool)
            if counts.any():
                chosen = [turn for turn, each in zip(turns, counts.tolist(), strict=True) if each]
                found = found.and_also(_usual(number, chosen, waited[counts], cost, of_lane=group.kind == "lane"))
    return found


def _delivered(graph: Graph, sources: Mapping[str, Source], workers: int) -> list[tuple[int, float]]:
    """How long deliveries take in a run on some workers, with the number of other workers in a turn."""
    runtime = ProbedRuntime(LocalSetup(sources, MemorySink(), queues="worker-queue", most_workers=workers))
    _run(runtime, graph, workers)
    return runtime.waits_s


def _run(runtime: LocalRuntime, graph: Graph, workers: int) -> None:
    runtime.start(graph, round_robin(graph, workers))
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error


def _has_rate(source: Source) -> bool:
    return isinstance(source, Generator) and source.rate is not None


def _usual(number: int, turns: Sequence[TracedTurn], waits: Floats, cost: Floats, *, of_lane: bool) -> ContendedTurns:
    """The turns of a node in columns, without exceptions: rare costs that do not come back, as those of lanes do."""
    columns = columns_of(turns)
    modelled_s = np.maximum(columns @ cost, 1e-9)
    ratio = np.array([turn.cpu_s for turn in turns]) / modelled_s
    found = ContendedTurns(
        np.full(len(turns), number),
        waits[:, 3].astype(np.int64),
        np.full(len(turns), cost[0]),
        columns[:, 1:] @ cost[1:],
        np.array([turn.wall_s for turn in turns]),
        waits[:, 0],
        waits[:, 1],
        waits[:, 2].astype(np.int64),
        np.array([turn.empty for turn in turns], bool),
        np.array([of_lane and turn.results > 0 for turn in turns], bool),
    )
    return found if of_lane or turns[0].empty else found.where(ratio <= SLOW * float(np.median(ratio)))


def turn_waits(traces: Sequence[TurnTrace]) -> list[Floats]:
    """Of every turn of every node, how long its idle worker took to begin it, or a busy one from its turn before.

    Four columns: of the first two at most one is a number; the others are how many other workers were active when the
    wait began, and when the turn did. A node has something to do from the end of the first turn of a node before it
    that ended after its own last turn had begun, and a source when it may be polled again. The worker was idle if its
    last turn had ended by then. It is active in its turns and while it waits for them.
    """
    writers = {id(channel): place for place, trace in enumerate(traces) for channel in trace.node.outputs}
    began = [np.array([turn.began_s for turn in trace.turns]) for trace in traces]
    ended = [began[place] + [turn.wall_s for turn in trace.turns] for place, trace in enumerate(traces)]
    everything = sorted(
        (turn.began_s, turn.began_s + turn.wall_s, turn.worker) for trace in traces for turn in trace.turns
    )
    busy_until: dict[int, float] = {}
    free_s: dict[tuple[float, int], float] = {}
    for began_s, ended_s, worker in everything:
        free_s[began_s, worker] = busy_until.get(worker, -np.inf)
        busy_until[worker] = ended_s
    found, since = list[Floats](), list[Floats]()
    for place, trace in enumerate(traces):
        before = [ended[writers[id(channel)]] for channel in trace.node.inputs]
        last_s, waits, since_s = -np.inf, np.full((len(trace.turns), 4), np.nan), began[place].copy()
        for number, turn in enumerate(trace.turns):
            nexts = [each[at] for each in before if (at := int(np.searchsorted(each, last_s, "right"))) < len(each)]
            given_s = min(nexts, default=np.inf) if before or last_s < 0 else last_s + POLL_S
            before_s = free_s[turn.began_s, turn.worker]
            since_s[number] = min(max(given_s, before_s), turn.began_s)
            if before_s < given_s <= turn.began_s:
                waits[number, 0] = turn.began_s - given_s
            elif given_s <= before_s:
                waits[number, 1] = turn.began_s - before_s
            last_s = turn.began_s
        found.append(waits)
        since.append(since_s)
    workers = [np.array([turn.worker for turn in trace.turns], np.int64) for trace in traces]
    all_since, all_ended, all_workers = np.concatenate(since), np.concatenate(ended), np.concatenate(workers)
    for place, waits in enumerate(found):
        for column, at_s in ((2, since[place]), (3, began[place])):
            waits[:, column] = _active(all_since, all_ended, all_workers, at_s, workers[place])
    return found


def _active(since_s: Floats, ended_s: Floats, worker: Ints, at_s: Floats, own: Ints) -> Ints:
    """How many workers other than their own are active at some times, by when all of them are."""
    found = np.zeros(len(at_s), np.int64)
    for other in np.unique(worker):
        began, ended = (np.sort(each[worker == other]) for each in (since_s, ended_s))
        inside = np.searchsorted(began, at_s, "right") > np.searchsorted(ended, at_s, "right")
        found += inside & (own != other)
    return found
