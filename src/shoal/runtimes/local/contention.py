"""Contention: how much longer turns take while other workers are busy, from traced runs on several workers.

Workers of one process share the interpreter lock. It is released in compiled code, and has to be won back after every
call of such code, against the other workers. So the fixed part of a turn, which is many short calls, takes several
times as long, and some turns wait far longer than others; the work per event is slowed down less. Processors that
share memory and other programs on the machine count, too.

1. Every node has a modelled cost of a turn by its fit for one thread: a fixed part and the rest, its work.
2. For every number of other workers in a turn, the time of turns on the clock is fitted as a factor of each part. A
   turn that works for long makes longer calls, not more, so that what it works beyond a millisecond has another factor.
3. Nodes differ in how many calls they make, so each has a factor of its own on its fixed part.
4. What is left is the variation of the fixed part of each node: its values, divided into equally many turns, smallest
   first. Hiccups are as long in short turns as in long ones, so that nodes cannot share a distribution.
5. A worker that is idle has to wake up and win the lock before it can begin a turn. How long that takes, from the end
   of the turn that gave it something to do, is measured where it was idle then.
6. The thread that delivers results has to win the lock, too. How long that takes is measured by giving it results.
7. A worker that has more to do takes some time between two turns: it decides, wins the lock, or steps aside.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.delivery_probe import ProbedRuntime
from shoal.runtimes.local.node_costs import columns_of
from shoal.runtimes.local.node_groups import groups_of
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.local.trace import TracedRuntime, TracedTurn, TurnTrace
from shoal.runtimes.measured.cost_fit import PARTS, Floats, non_negative

Ints = NDArray[np.int64]

LOADS = (0.03, 0.1, 0.25)
"""The loads of every worker in runs at a rate, if turns had no fixed part."""
LONGEST_S = 2.0
"""About how long a run takes."""
BEGINNING_S = 0.25
"""The first turns of a run at a rate do not count: channels allocate memory then."""
LEAST_TURNS = 30
"""With fewer turns, a number of busy workers counts as the one before it."""
NODE_TURNS = 15
"""With fewer turns, a node has no factor of its own."""
LARGEST_NODE_FACTOR = 5.0
WAITS = 64
"""The number of values that describe how the fixed part varies."""
SLOW = 6.0
"""Turns that take so many times the processor time of others are exceptions, such as memory that has to grow."""
MOST_WORKERS = 8
LONG_S = 0.001
"""The work of a turn from which on it is long: one with more of it waits hardly more often for the lock."""
LEAST_LONG_TURNS = 5
"""With fewer long turns, a number of busy workers counts as the one before it."""
MOST_SLOWER = 1.5
"""Work takes at most so many times as long as if all workers did theirs one after another, with cold caches."""


@dataclass(frozen=True, eq=False)
class ContendedTurns:
    """Turns on several workers, in columns: node, other workers in a turn, modelled fixed part and work, and time.

    `wake_s`: how long the worker took to begin it, from when there was something to do; not a number if it was busy.
    `between_s`: how long it took from its turn before, if there was something to do by then; else not a number.
    """

    node: Ints
    others: Ints
    fixed_s: Floats
    work_s: Floats
    wall_s: Floats
    wake_s: Floats
    between_s: Floats

    @property
    def long_s(self) -> Floats:
        """What turns work beyond that of a short one."""
        return np.maximum(0.0, self.work_s - LONG_S)

    def worked_s(self, factors: "Factors") -> Floats:
        """What the work of turns takes."""
        level = np.minimum(self.others, len(factors.work) - 1)
        found: Floats = factors.work[level] * (self.work_s - self.long_s) + factors.long[level] * self.long_s
        return found

    @classmethod
    def none(cls) -> "ContendedTurns":
        """No turns."""
        no, none = np.zeros(0, np.int64), np.zeros(0)
        return cls(no, no, none, none, none, none, none)

    def where(self, chosen: NDArray[np.bool_]) -> "ContendedTurns":
        """Some of the turns."""
        return ContendedTurns(**{name: column[chosen] for name, column in vars(self).items()})

    def and_also(self, other: "ContendedTurns") -> "ContendedTurns":
        """These turns and others."""
        return ContendedTurns(
            **{name: np.concatenate([column, getattr(other, name)]) for name, column in vars(self).items()}
        )


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of the fixed part of turns, of their work, and of their work beyond `LONG_S`, by other busy workers."""

    turn: Floats
    work: Floats
    long: Floats


@dataclass(frozen=True)
class Slowdown:
    """Factors of the work and of the fixed part of turns with 1, 2, ... busy workers; `long`: of work beyond `LONG_S`.

    `waits`: how the fixed part of each node varies, factors that occur equally often, 1 on average; by its number.
    `wake_ups`: seconds until an idle worker begins a turn, values that occur equally often. `deliveries`: seconds from
    the end of a turn with results until the sink has them. `between_s`: the mean seconds between two turns of a worker
    that has more to do, None if that was not measured.
    """

    work: tuple[float, ...]
    turn: tuple[float, ...]
    long: tuple[float, ...]
    waits: Mapping[int, tuple[float, ...]]
    wake_ups: tuple[tuple[float, ...], ...]
    deliveries: tuple[tuple[float, ...], ...]
    between_s: float | None = None

    def data(self, names: Sequence[str]) -> dict[str, Any]:
        """The slowdown as plain data, with the names of nodes."""
        return {**asdict(self), "waits": {names[number]: values for number, values in self.waits.items()}}


def contention(
    graph: Graph, sources: Mapping[str, Source], event_s: float, nodes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The slowdown at rates and as fast as possible, and the factor of every node that has one.

    `event_s`: about how much processor time an event takes. `nodes`: those of the profile, with their costs.
    """
    workers = min(MOST_WORKERS, os.cpu_count() or 1)
    at_rate, delivered = ContendedTurns.none(), list[tuple[int, float]]()
    for load in LOADS:
        loaded = _at_load(sources, event_s, load * workers)
        at_rate = at_rate.and_also(_traced(graph, loaded, workers, nodes))
        delivered += _delivered(graph, loaded, workers)
    whole = _at_load(sources, event_s, None)
    fastest = _traced(graph, whole, workers, nodes)
    of_node = node_factors(at_rate, len(nodes), workers)
    slower = slowdown(at_rate, of_node, workers, delivered)
    fastest_slower = slowdown(fastest, of_node, workers, _delivered(graph, whole, workers))
    if int((fastest.others > 0).sum()) < LEAST_TURNS:
        # a few large turns, in which the fixed part hardly counts
        fastest_slower = replace(slower, work=fastest_slower.work, long=fastest_slower.long)
    names = [str(node["name"]) for node in nodes]
    return {
        "at_rate": slower.data(names),
        "as_fast_as_possible": fastest_slower.data(names),
        "nodes": dict(zip(names, np.round(of_node, 6).tolist(), strict=True)),
        "long_s": LONG_S,
    }


def node_factors(turns: ContendedTurns, nodes: int, workers: int) -> Floats:
    """How much more than others the fixed part of every node is slowed down; 1 for nodes with few turns."""
    factors = _factors(turns, workers)
    level = np.minimum(turns.others, workers - 1)
    left_s = turns.wall_s - turns.worked_s(factors)
    modelled_s = np.bincount(turns.node, weights=factors.turn[level] * turns.fixed_s, minlength=nodes)
    measured_s = np.bincount(turns.node, weights=left_s, minlength=nodes)
    enough = (np.bincount(turns.node, minlength=nodes) >= NODE_TURNS) & (modelled_s > 0)
    ratio = np.where(enough, measured_s / np.where(modelled_s > 0, modelled_s, 1.0), 1.0)
    return np.clip(ratio, 1 / LARGEST_NODE_FACTOR, LARGEST_NODE_FACTOR)


def slowdown(
    turns: ContendedTurns, of_node: Floats, workers: int, delivered: Sequence[tuple[int, float]] = ()
) -> Slowdown:
    """The slowdown with 1 to `workers` busy workers, given the factor of every node."""
    own = replace(turns, fixed_s=turns.fixed_s * of_node[turns.node])
    factors = _factors(own, workers)
    wake_ups, deliveries = [(0.0,) * WAITS], [(0.0,) * WAITS]
    for level in range(workers):
        chosen = own.where(own.others == level)
        woken = _equally_often(chosen.wake_s[~np.isnan(chosen.wake_s)])
        wake_ups.append(wake_ups[-1] if woken is None else tuple(np.round(woken, 7).tolist()))
        taken = _equally_often(np.array([took_s for others, took_s in delivered if others == level]))
        deliveries.append(deliveries[-1] if taken is None else tuple(np.round(taken, 7).tolist()))
    work, turn, long = (tuple(np.round(each, 6).tolist()) for each in (factors.work, factors.turn, factors.long))
    waits, between_s = _waits(own, factors), turns.between_s[~np.isnan(turns.between_s)]
    mean_s = round(float(between_s.mean()), 9) if len(between_s) >= LEAST_TURNS else None
    return Slowdown(work, turn, long, waits, tuple(wake_ups[1:]), tuple(deliveries[1:]), mean_s)


def _waits(turns: ContendedTurns, factors: Factors) -> dict[int, tuple[float, ...]]:
    """How the fixed part of every node varies that has enough turns: means of equal parts, 1 on average."""
    level = np.minimum(turns.others, len(factors.turn) - 1)
    left_s = np.maximum(turns.wall_s - turns.worked_s(factors), 0.0)
    found = {}
    for node in np.unique(turns.node).tolist():
        chosen = (turns.node == node) & (turns.fixed_s > 0)
        varied = _equally_often(left_s[chosen] / (factors.turn[level] * turns.fixed_s)[chosen])
        if varied is not None:
            found[node] = tuple(np.round(varied / varied.mean(), 4).tolist())
    return found


def _factors(turns: ContendedTurns, workers: int) -> Factors:
    """Factors with 1, 2, ... busy workers, never smaller with more of them.

    While a worker waits, others work, so that no work takes much longer than that of all workers one after another.
    Workers that begin a turn meanwhile are not among those that are busy at its beginning. Where nearly all turns are
    long, the work of all has one factor.
    """
    turn, work, long = np.ones(workers), np.ones(workers), np.ones(workers)
    for level in range(workers):
        here, before = turns.where(turns.others == level), max(0, level - 1)
        turn[level], work[level], long[level] = turn[before], work[before], long[before]
        chosen = here.where(here.long_s <= 0)
        if len(chosen.wall_s) < LEAST_TURNS:
            chosen = here
        if len(chosen.wall_s) < LEAST_TURNS or not float(chosen.fixed_s.sum()) > 0:
            continue
        columns = np.column_stack([chosen.fixed_s, chosen.work_s])
        weight = 1 / np.sqrt(np.maximum(columns.sum(axis=1), 1e-9))
        _, of_work = non_negative(columns * weight[:, None], chosen.wall_s * weight)
        work[level] = np.clip(of_work, work[before], MOST_SLOWER * workers)
        left_s = float((chosen.wall_s - work[level] * chosen.work_s).sum())
        turn[level] = max(turn[before], left_s / float(chosen.fixed_s.sum()))
        long[level] = _of_long(here, float(turn[level]), float(work[level]), float(long[before]))
    return Factors(turn, work, long)


def _of_long(turns: ContendedTurns, turn: float, work: float, before: float) -> float:
    """The factor of work beyond that of short turns, between that with one busy worker less and that of their work."""
    long = turns.where(turns.long_s > 0)
    if len(long.wall_s) < LEAST_LONG_TURNS:
        return min(before, work)
    left_s = long.wall_s - turn * long.fixed_s - work * (long.work_s - long.long_s)
    return float(np.clip(left_s.sum() / long.long_s.sum(), min(before, work), work))


def _equally_often(values: Floats) -> Floats | None:
    """Values that occur equally often, as the means of equal parts, smallest first; None if there are too few."""
    if len(values) < WAITS or not float(values.sum()) > 0:
        return None
    return np.array([part.mean() for part in np.array_split(np.sort(values), WAITS)])


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


def _traced(
    graph: Graph, sources: Mapping[str, Source], workers: int, nodes: Sequence[Mapping[str, Any]]
) -> ContendedTurns:
    """The turns of a run on some workers, with what each would cost in one thread."""
    setup = LocalSetup(sources, MemorySink(), queues="worker-queue", most_workers=workers)
    runtime = TracedRuntime(setup)
    _run(runtime, graph, workers)
    number_of = {node["name"]: number for number, node in enumerate(nodes)}
    began_s = min((turn.began_s for trace in runtime.traces for turn in trace.turns), default=0.0)
    first_s = began_s + (BEGINNING_S if all(_has_rate(each) for each in sources.values()) else 0.0)
    waits = turn_waits(runtime.traces)
    found = ContendedTurns.none()
    for group in groups_of(runtime.nodes):
        number = number_of.get(group.name)
        turns = [
            (turn, *waited_s)
            for place in group.places
            for turn, waited_s in zip(runtime.traces[place].turns, waits[place].tolist(), strict=True)
            if not turn.empty and turn.began_s >= first_s
        ]
        if turns and number is not None:
            cost = np.array([nodes[number]["cost"][name] for name in PARTS])
            found = found.and_also(_usual(number, turns, cost, recurs=group.kind == "lane"))
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


def _usual(
    number: int, turns: Sequence[tuple[TracedTurn, float, float]], cost: Floats, *, recurs: bool
) -> ContendedTurns:
    """The turns of a node in columns, without exceptions, if a rare cost of it does not come back."""
    columns = columns_of([turn for turn, _, _ in turns])
    modelled_s = np.maximum(columns @ cost, 1e-9)
    ratio = np.array([turn.cpu_s for turn, _, _ in turns]) / modelled_s
    found = ContendedTurns(
        np.full(len(turns), number),
        np.array([turn.others for turn, _, _ in turns]),
        np.full(len(turns), cost[0]),
        columns[:, 1:] @ cost[1:],
        np.array([turn.wall_s for turn, _, _ in turns]),
        np.array([wake_s for _, wake_s, _ in turns]),
        np.array([between_s for _, _, between_s in turns]),
    )
    return found if recurs else found.where(ratio <= SLOW * float(np.median(ratio)))


def turn_waits(traces: Sequence[TurnTrace]) -> list[Floats]:
    """Of every turn of every node, how long its idle worker took to begin it, or a busy one from its turn before.

    Two columns, of which at most one is a number. A node has something to do from the end of the first turn of a node
    before it that ended after its own last turn had begun. The worker was idle if its last turn had ended by then.
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
    found = []
    for trace in traces:
        before = [ended[writers[id(channel)]] for channel in trace.node.inputs]
        last_s, waits = -np.inf, np.full((len(trace.turns), 2), np.nan)
        for number, turn in enumerate(trace.turns):
            nexts = [each[at] for each in before if (at := int(np.searchsorted(each, last_s, "right"))) < len(each)]
            given_s = min(nexts, default=np.inf)
            before_s = free_s[turn.began_s, turn.worker]
            if before_s < given_s <= turn.began_s:
                waits[number, 0] = turn.began_s - given_s
            elif given_s <= before_s:
                waits[number, 1] = turn.began_s - before_s
            last_s = turn.began_s
        found.append(waits)
    return found
