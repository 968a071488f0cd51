"""Profiles: measured cost, selectivity and state of every operator and node, from local runs on one worker."""

from collections.abc import Mapping
from typing import Any

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.source import Source
from shoal.model.control.messages import EpochCommitted, RunEnded
from shoal.model.query.graph import Graph
from shoal.policies.binding.static import round_robin
from shoal.runtimes.local.contention import contention
from shoal.runtimes.local.dataflow.node import Node, OutletNode
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.node_costs import node_costs
from shoal.runtimes.local.node_groups import operators_of
from shoal.runtimes.local.runtime import LocalRuntime, LocalSetup
from shoal.runtimes.protocol import Say, refuse_dataframes, refuse_endless


def profiled(graph: Graph, sources: Mapping[str, Source], say: Say | None = None) -> dict[str, Any]:
    """Run a graph with every operator as a separate node, and measure each; then as it usually runs, for the simulator.

    Of `operators`, `cost_s` is processor time per input event, `selectivity` output events per input event,
    `state_bytes` the largest state observed. `simulator` has the nodes as they usually run, `divided` the same if
    instances are bound to workers, so that every lane is divided by worker. `contention` says how much slower workers
    are that are busy at the same time.
    """
    refuse_dataframes(sources)
    refuse_endless(sources)
    tell: Say = say if say is not None else lambda _text: None
    tell("measuring every operator on one worker ...")
    found = _separate(graph, sources)
    tell("measuring the nodes of a usual run, at several rates ...")
    whole = node_costs(graph, sources, found["cpu_s"])
    tell("measuring the nodes of a run that binds instances ...")
    divided = node_costs(graph, sources, found["cpu_s"], queues="worker-queue")
    tell("measuring how workers slow each other down ...")
    slower = contention(graph, sources, found["cpu_s"] / max(1, found["events"]), divided["nodes"])
    return {**found, "on": "local", "simulator": whole, "divided": divided, "contention": slower}


def _separate(graph: Graph, sources: Mapping[str, Source]) -> dict[str, Any]:
    """The cost of every operator as a separate node."""
    runtime = LocalRuntime(LocalSetup(sources, MemorySink(), chained=False))
    runtime.start(graph, round_robin(graph, 1))
    largest = [0] * len(runtime.nodes)
    for event in runtime.events():
        if isinstance(event, EpochCommitted):
            largest = [max(size, node.state_bytes) for size, node in zip(largest, runtime.nodes, strict=True)]
        elif isinstance(event, RunEnded) and event.error is not None:
            raise event.error
    total_s = sum(runtime.pool.cpu_s) or 1.0
    operators = [
        _operator(node, runtime.pool.cpu_s[index], total_s, largest[index]) for index, node in enumerate(runtime.nodes)
    ]
    return {"events": runtime.consumed, "cpu_s": round(total_s, 6), "operators": operators}


def _operator(node: Node, cpu_s: float, total_s: float, state_bytes: int) -> dict[str, Any]:
    taken = node.produced if isinstance(node, SourceNode) else node.consumed
    given = node.emitted if isinstance(node, OutletNode) else node.produced
    return {
        "name": node.name,
        "operators": operators_of(node),
        "events_in": taken,
        "events_out": given,
        "selectivity": given / taken if taken else 0.0,
        "cost_s": cpu_s / taken if taken else 0.0,
        "cpu_s": round(cpu_s, 6),
        "share": round(cpu_s / total_s, 6),
        "state_bytes": state_bytes,
    }
