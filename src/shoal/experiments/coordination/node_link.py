"""Nodes as the coordinator sees them, and those that live in its own process."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from shoal.errors import RunError, ShoalError
from shoal.experiments.coordination.nodes.flow_node import FlowNode, NodeSetup
from shoal.experiments.coordination.nodes.node_tasks import perform
from shoal.experiments.coordination.nodes.node_trace import TraceRecord


@dataclass(frozen=True)
class NodeReport:
    """What a node has to say at the end: its trace, the digest of each stream that ended there, and rows received."""

    trace: tuple[TraceRecord, ...]
    digests: Mapping[str, str] = field(default_factory=dict)
    received: int = 0


class NodeLink(Protocol):
    """A node, wherever it is."""

    number: int

    def begin(self, name: str, arguments: tuple[Any, ...]) -> "Future[None]":
        """Let the node do a task; the future has a `RunError` if it fails, or if the node is gone."""

    def report(self) -> NodeReport:
        """What the node has to say; called once, when all tasks are done."""

    def close(self) -> None:
        """End the node wherever it is, with all it has started; called once more it does nothing."""


def report_of(node: FlowNode) -> NodeReport:
    """What a node has to say."""
    streams = node.setup.file.streams
    digests = {
        streams[stream].name if stream in streams else "results": digest.text for stream, digest in node.digests.items()
    }
    return NodeReport(tuple(node.trace.taken()), digests, node.received)


class NeighbourNodes:
    """Nodes of one process: rows are handed over by a call, on the thread of whoever sends them."""

    def __init__(self) -> None:
        """None yet."""
        self.nodes: dict[int, FlowNode] = {}

    def send(self, node: int, stream: int, rows: pa.RecordBatch) -> None:
        """Let the node take rows."""
        self.nodes[node].take(stream, rows)

    def tell_stopped(self, node: int, sender: int, streams: tuple[int, ...]) -> None:
        """Tell the node."""
        self.nodes[node].told_stopped(sender, streams)

    def flush(self) -> None:
        """Rows have been taken when `send` returns."""


class ThreadNode:
    """A node of this process; each of its tasks has a thread."""

    def __init__(self, setup: NodeSetup, neighbours: NeighbourNodes) -> None:
        """Make the node."""
        self.number = setup.number
        self._node = neighbours.nodes[setup.number] = FlowNode(setup, neighbours)

    def begin(self, name: str, arguments: tuple[Any, ...]) -> "Future[None]":
        """Do a task on a thread of its own."""
        future: Future[None] = Future()
        threading.Thread(
            target=_resolve, args=(future, self._node, name, arguments), name=f"shoal-task-{name}", daemon=True
        ).start()
        return future

    def report(self) -> NodeReport:
        """What the node has to say."""
        return report_of(self._node)

    def close(self) -> None:
        """End the engine."""
        self._node.close()


def _resolve(future: "Future[None]", node: FlowNode, name: str, arguments: tuple[Any, ...]) -> None:
    try:
        perform(node, name, arguments)
    except ShoalError as error:
        future.set_exception(error)
    except Exception as error:  # noqa: BLE001  (whoever waits must learn of every failure)
        future.set_exception(RunError(f"{type(error).__name__}: {error}"))
    else:
        future.set_result(None)
