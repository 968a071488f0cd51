"""The cost of every node of a local run, fitted to the turns of several short runs of one thread.

Small and large turns are both needed to tell the cost of a turn from that of an event. So the target runs as fast as
it can, and then at rates at which turns are small; files, which have no rate, run with small channels instead. Lanes
that are divided by worker are divided among two, since to split a stream costs more than to pass it on.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.node_groups import NodeGroup, groups_of, operators_of
from shoal.runtimes.local.runtime import LocalSetup
from shoal.runtimes.local.trace import TracedRuntime, TracedTurn
from shoal.runtimes.measured.cost_fit import FittedCost, Floats, fitted, relative_error, turns_of, usual

PORTIONS = (12, 60)
"""The numbers of portions in which generated events are run as fast as possible, beside all at once."""
LOADS = (0.1, 0.4)
"""The loads of the worker at which generated events are run."""
BLOCK_ROWS = (8192, 1024, 128)
"""The sizes of blocks with which other sources are run, beside the usual one; channels hold a few blocks."""
LONGEST_S = 1.5
"""About how long a run at a rate takes."""
DIVIDED = 2
"""The number of workers among which lanes are divided."""
FASTEST_S = 2.0
"""About how much processor time the run as fast as possible takes."""
PARTS_OF = {
    "source": ("fixed_s", "event_s"),
    "split": ("fixed_s", "event_s"),
    "steps": ("fixed_s", "event_s", "result_s"),
    "lane": ("fixed_s", "event_s", "result_s", "state_byte_s", "merged_row_s", "merged_event_s", "pair_s"),
    "outlet": ("fixed_s", "event_s"),
}
"""What the cost of a node may depend on, by its kind."""


@dataclass(frozen=True)
class _Run:
    """A run to be traced: its sources, the size of blocks, and the load that its rate is to give, if it has one."""

    sources: Mapping[str, Source]
    block_rows: int = Sizes.block_rows
    load: float | None = None


@dataclass
class _Measured:
    """What was traced: of every node, its turns in each run; of every run, what it was and how long it took."""

    nodes: Sequence[Node] = ()
    turns: list[list[list[TracedTurn]]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    choosing_s: float = 0.0
    decisions: int = 0

    def of(self, group: NodeGroup) -> list[list[TracedTurn]]:
        """The turns of all nodes of a group, run by run."""
        runs = zip(*(self.turns[place] for place in group.places), strict=True)
        return [[turn for turns in run for turn in turns] for run in runs]


def node_costs(
    graph: Graph, sources: Mapping[str, Source], whole_s: float, queues: str | None = None
) -> dict[str, Any]:
    """Trace a graph in one thread and fit the cost of every node; with queues, lanes are divided by worker.

    `whole_s`: about how much processor time all events take; of generated events only a part is run if it is long.
    """
    measured = _Measured()
    share = min(1.0, FASTEST_S / max(whole_s, 1e-9))
    fastest = {name: _shortened(each, share) for name, each in sources.items()}
    busy_s = _traced(graph, _Run(fastest), queues, measured)
    for run in _further(fastest, busy_s):
        _traced(graph, run, queues, measured)
    groups = groups_of(measured.nodes)
    fits = [_NodeTurns.of(each, measured.of(each), recurs=_recurs(each.node, sources)) for each in groups]
    nodes = [_described(group, fit) for group, fit in zip(groups, fits, strict=True)]
    for number, run_data in enumerate(measured.runs):
        run_data["error"] = _error_of_run(number, fits)
    return {
        "runs": measured.runs,
        "turns": sum(len(run) for turns in measured.turns for run in turns),
        "worker": _worker(measured, 1 if queues is None else DIVIDED),
        "nodes": nodes,
    }


def _shortened(source: Source, share: float) -> Source:
    """The first share of generated events, without a rate."""
    if not isinstance(source, Generator) or source.events is None:
        return source
    return replace(source, rate=None, events=math.ceil(source.events * share))


def _further(sources: Mapping[str, Source], busy_s: float) -> Iterable[_Run]:
    """The other runs, after one as fast as possible, in which the worker was busy for some time."""
    generated = {name: each for name, each in sources.items() if isinstance(each, Generator)}
    if not generated:
        return [_Run(sources, block_rows) for block_rows in BLOCK_ROWS]
    busy_s = max(busy_s, 1e-3)
    portioned = [_Run({name: _in_portions(each, number) for name, each in sources.items()}) for number in PORTIONS]
    loads = [_Run({name: _at_load(each, busy_s, load) for name, each in sources.items()}, load=load) for load in LOADS]
    return [*portioned, *loads]


def _in_portions(source: Source, number: int) -> Source:
    """Generated events, of which a turn reads at most one of so many portions."""
    if not isinstance(source, Generator) or source.events is None:
        return source
    return replace(source, rows_per_epoch=min(source.rows_per_epoch, max(1, source.events // number)))


def _at_load(source: Source, busy_s: float, load: float) -> Source:
    """A stream at a rate that gives a load, ended after a while, if it took some time without a rate."""
    if not isinstance(source, Generator) or source.events is None:
        return source
    rate = max(source.events, 1) / busy_s * load
    return replace(source, rate=rate, events=min(source.events, max(1, int(rate * LONGEST_S))))


def _traced(graph: Graph, run: _Run, queues: str | None, measured: _Measured) -> float:
    """Run once and add the turns to what was measured; returns the processor time of the worker."""
    sizes, workers = Sizes(run.block_rows), 1 if queues is None else DIVIDED
    setup = LocalSetup(run.sources, MemorySink(), sizes=sizes, queues=queues, most_workers=workers)
    runtime = TracedRuntime(setup, one_thread=queues is not None)
    began = time.perf_counter()
    runtime.start(graph, round_robin(graph, workers))
    for event in runtime.events():
        if isinstance(event, RunEnded) and event.error is not None:
            raise event.error
    took_s = time.perf_counter() - began
    turns = [trace.turns for trace in runtime.traces]
    measured.nodes = runtime.nodes
    measured.turns = measured.turns or [[] for _ in turns]
    for known, new in zip(measured.turns, turns, strict=True):
        known.append(new)
    measured.choosing_s += runtime.pool.deciding_s
    measured.decisions += runtime.pool.decisions
    busy_s = sum(turn.cpu_s + (turn.loop_s or 0.0) for each in turns for turn in each)
    measured.runs.append(
        {
            "load": run.load,
            "block_rows": run.block_rows,
            "events": runtime.consumed,
            "seconds": round(took_s, 6),
            "turns": sum(len(each) for each in turns),
            "cpu_s": round(sum(turn.cpu_s for each in turns for turn in each), 6),
            "wall_s": round(sum(turn.wall_s for each in turns for turn in each), 6),
        }
    )
    return busy_s


def columns_of(turns: Sequence[TracedTurn]) -> Floats:
    """Turns as the fit takes them."""
    return turns_of(
        [turn.events for turn in turns],
        [turn.results for turn in turns],
        [turn.merged_bytes for turn in turns],
        [turn.merged_rows for turn in turns],
        [turn.merged_events for turn in turns],
        [turn.pairs for turn in turns],
    )


def _columns(full: Sequence[TracedTurn]) -> tuple[Floats, Floats]:
    """Turns as the fit takes them, and what they cost."""
    return columns_of(full), np.array([turn.cpu_s for turn in full])


def _recurs(node: Node, sources: Mapping[str, Source]) -> bool:
    """Whether a turn that costs far more than others is no exception: a lane at the end of a window, a file read."""
    if isinstance(node, SourceNode):
        return not isinstance(sources[node.stream_name], Generator)
    return isinstance(node, LaneNode)


@dataclass(frozen=True)
class _NodeTurns:
    """The turns of a node by run, without those that did nothing; `slow` are exceptions, and not in `runs`."""

    runs: Sequence[Sequence[TracedTurn]]
    empty: Sequence[TracedTurn]
    slow: Sequence[TracedTurn]
    cost: FittedCost

    @classmethod
    def of(cls, group: NodeGroup, runs: Sequence[Sequence[TracedTurn]], *, recurs: bool) -> "_NodeTurns":
        """Set exceptions aside and fit the others; there are none where a rare cost comes back again and again."""
        kind = group.kind
        full = [[turn for turn in run if not turn.empty] for run in runs]
        empty = [turn for run in runs for turn in run if turn.empty]
        if recurs:
            kept, slow = full, []
        else:
            pooled = [turn for run in full for turn in run]
            marks = iter(usual(*_columns(pooled), PARTS_OF[kind]).tolist() if pooled else [])
            marked = [[(turn, next(marks)) for turn in run] for run in full]
            kept = [[turn for turn, is_usual in run if is_usual] for run in marked]
            slow = [turn for run in marked for turn, is_usual in run if not is_usual]
        cost = fitted(*_columns([turn for run in kept for turn in run]), PARTS_OF[kind])
        return cls(kept, empty, slow, cost)

    @property
    def kept(self) -> list[TracedTurn]:
        """The turns of all runs that were fitted."""
        return [turn for run in self.runs for turn in run]

    def modelled_s(self, turns: Sequence[TracedTurn]) -> float:
        """What turns cost by the fit."""
        return float((columns_of(turns) @ self.cost.parts).sum())


def _error_of_run(number: int, nodes: Sequence[_NodeTurns]) -> float | None:
    """The relative error of the modelled cost of all turns of a run."""
    modelled_s = sum(node.modelled_s(node.runs[number]) for node in nodes)
    return relative_error(modelled_s, sum(turn.cpu_s for node in nodes for turn in node.runs[number]))


def _worker(measured: _Measured, workers: int) -> dict[str, Any]:
    """What a worker spends between turns: on a decision, and on a poll without a turn; and how long such a poll is.

    The thread chose among the nodes of all workers; a worker chooses among its own.
    """
    turns = [turn for of_node in measured.turns for run in of_node for turn in run]
    saved_s = measured.choosing_s / max(1, measured.decisions) * (1 - 1 / workers)
    between = [(turn.polls, turn.loop_s, turn.pause_s) for turn in turns if turn.loop_s is not None]
    none = [0.0] * len(between)
    polls = turns_of([number for number, _, _ in between], none, none)
    cost = fitted(polls, np.array([loop_s for _, loop_s, _ in between]), ("fixed_s", "event_s"))
    pauses = [pause_s / number for number, _, pause_s in between if number]
    cpu_s, wall_s = sum(turn.cpu_s for turn in turns), sum(turn.wall_s for turn in turns)
    return {
        "decision_s": max(0.0, cost.fixed_s - saved_s),
        "idle_poll_s": cost.event_s,
        "idle_wait_s": float(np.median(pauses)) if pauses else None,
        "wall_over_cpu": wall_s / cpu_s if cpu_s else None,
    }


def _described(group: NodeGroup, fit: _NodeTurns) -> dict[str, Any]:
    """A node as the profile has it."""
    node = group.node
    kept, empty, slow = fit.kept, fit.empty, fit.slow
    full = [*kept, *slow]
    taken, given = sum(turn.events for turn in full), sum(turn.results for turn in full)
    sizes = [turn.events for turn in full] or [0]
    found = {
        "name": group.name,
        "kind": group.kind,
        "inputs": group.inputs,
        "operators": operators_of(node),
        "events_in": taken,
        "events_out": given,
        "selectivity": given / taken if taken else 0.0,
        "turns": len(full),
        "events_per_turn": {f"p{share}": float(np.percentile(sizes, share)) for share in (10, 50, 90)},
        "cpu_s": round(sum(turn.cpu_s for turn in full), 6),
        "cost": fit.cost.data(),
        "error": fit.cost.error,
        "empty_turns": {"turns": len(empty), "cpu_s": round(sum(turn.cpu_s for turn in empty), 6)},
        "slow_turns": {"turns": len(slow), "excess_s": round(_excess_s(fit), 6)},
    }
    if isinstance(node, LaneNode):
        merged = [turn.merged_bytes for turn in full if turn.merged_bytes]
        rows = sum(turn.merged_rows for turn in full)
        found |= {"lane": node.lane.number, "merging_turns": len(merged), "merged_bytes": max(merged, default=0)}
        found |= {"merged_rows": rows}
    return found


def _excess_s(fit: _NodeTurns) -> float:
    """What slow turns cost more than the fit says."""
    return sum(turn.cpu_s for turn in fit.slow) - fit.modelled_s(fit.slow)
