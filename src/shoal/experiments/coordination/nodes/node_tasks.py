"""What the tasks of flows do at a node. Arguments are those of the task table, in their one form."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shoal.errors import ConfigError
from shoal.experiments.coordination.nodes.dataset_rows import DatasetRows
from shoal.experiments.coordination.nodes.flow_node import FlowNode
from shoal.experiments.coordination.nodes.node_trace import DEPLOYED
from shoal.experiments.coordination.nodes.pacing import MILLISECONDS, SENDS, Block, paced_rows
from shoal.experiments.coordination.nodes.stream_file import StreamFile
from shoal.experiments.experiment import Dialect

UNITS: Mapping[Dialect, float] = {"expose": 1e3, "dcep-sim": 1e6}
"""What `wait` counts, as parts of a second."""
FINISH = "finish"
"""The task by which the coordinator says that no more rows come; files do not have it."""


def perform(node: FlowNode, name: str, arguments: tuple[Any, ...]) -> None:
    """Carry out a task at a node; returns when it is done."""
    if name not in NODE_TASKS:
        raise ConfigError(f"a node cannot do {name}; it can do {', '.join(NODE_TASKS)}")
    NODE_TASKS[name](node, *arguments)


def _add_hops(node: FlowNode, streams: tuple[int, ...], nodes: tuple[int, ...]) -> None:
    for stream in streams:
        hops = node.hops.get(stream, [])
        node.hops[stream] = [*hops, *(each for each in nodes if each not in hops)]


def _remove_hops(node: FlowNode, streams: tuple[int, ...], nodes: tuple[int, ...]) -> None:
    for stream in streams:
        node.hops[stream] = [each for each in node.hops.get(stream, ()) if each not in nodes]


def _relay(node: FlowNode, streams: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> None:
    _remove_hops(node, streams, old)
    _add_hops(node, streams, new)


def _deploy(node: FlowNode, query: int, times: int) -> None:
    node.queries += [query] * times
    node.trace.mark(DEPLOYED, node.setup.file.queries[query].name, times)


def _set_workers(node: FlowNode, workers: int) -> None:
    node.workers = workers


def _sender(name: str) -> Callable[..., None]:
    """What a task that sends a dataset does."""

    def send(node: FlowNode, *arguments: Any) -> None:
        for rows, blocks in paced_rows(node.dataset, name, arguments):
            _stream(node, rows, blocks)

    return send


def _stream(node: FlowNode, rows: DatasetRows, sent: Iterable[Block]) -> None:
    """Send blocks when they are due, to those who get each stream; returns when they have been taken."""
    began_s = node.now_s()
    for first, stop, due_s in sent:
        wait_s = began_s + due_s - node.now_s()
        if node.closing.wait(wait_s) if wait_s > 0 else node.closing.is_set():
            return
        for stream, batch in rows.part(first, stop):
            node.send(stream, batch)
    node.peers.flush()


def _hold(node: FlowNode, streams: tuple[int, ...]) -> None:
    node.held.hold(streams)


def _stop(node: FlowNode, streams: tuple[int, ...], told: int) -> None:
    """Stop streams; a node that is told so has taken all rows before when this returns."""
    node.held.hold(streams)
    if told:
        node.peers.tell_stopped(told, node.setup.number, streams)
    node.peers.flush()


def _resume(node: FlowNode, streams: tuple[int, ...]) -> None:
    node.held.resume(streams)
    node.peers.flush()


def _write_csv(node: FlowNode, stream: int, file: str) -> None:
    node.files[stream] = StreamFile(node.setup.directory / file)


def _trace(node: FlowNode, point: int, arguments: tuple[str, ...]) -> None:
    node.trace.mark(point, *arguments)


def _disconnect(node: FlowNode, after_ms: float) -> None:
    node.closing.wait(after_ms / MILLISECONDS)
    node.disconnect()


def _wait(node: FlowNode, amount: float) -> None:
    node.closing.wait(amount / UNITS[node.setup.file.dialect])


def _nothing(node: FlowNode, *_: Any) -> None:
    """Tasks that the coordinator has done by itself when nodes registered."""


NODE_TASKS: Mapping[str, Callable[..., None]] = {
    "addNextHop": _add_hops,
    "removeNextHop": _remove_hops,
    "relayStream": _relay,
    "deployQueries": _deploy,
    "clearQueries": lambda node: node.queries.clear(),
    "setParallelism": _set_workers,
    "startRuntimeEnv": FlowNode.start,
    "stopRuntimeEnv": FlowNode.stop,
    FINISH: FlowNode.finish,
    **{name: _sender(name) for name in SENDS},
    "writeStreamToCsv": _write_csv,
    "retEndOfStream": lambda node, quiet_ms: node.await_quiet(quiet_ms / MILLISECONDS),
    "retWhenReceived": FlowNode.await_received,
    "retReceivedXTuples": FlowNode.await_received,
    "traceTuple": _trace,
    "enableTrace": lambda node: node.trace.switch(on=True),
    "disableTrace": lambda node: node.trace.switch(on=False),
    "addTpIds": lambda node, *points: node.trace.activate(points),
    "bufferStream": _hold,
    "stopStream": _stop,
    "resumeStream": _resume,
    "disconnectNode": _disconnect,
    "wait": _wait,
    "addSchemas": _nothing,
    "setNidToAddress": _nothing,
    "startExperiment": _nothing,
    "endExperiment": _nothing,
}
GIVES_ROWS = frozenset((*SENDS, "resumeStream"))
"""Tasks by which rows come to engines."""
