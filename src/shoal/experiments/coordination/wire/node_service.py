"""A node that serves a coordinator over TCP: it registers, does tasks, and takes rows from other nodes.

    python -m shoal.experiments.coordination.wire.node_service HOST PORT NODE DIRECTORY

The token is in the environment. The process ends when the coordinator is done, or gone.
"""

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.errors import MessageError, RunError, ShoalError
from shoal.experiments.coordination.node_link import report_of
from shoal.experiments.coordination.nodes.flow_node import FlowNode, NodeSetup
from shoal.experiments.coordination.nodes.node_tasks import perform
from shoal.experiments.coordination.wire.line_channel import LineChannel, refuse, welcomed
from shoal.experiments.coordination.wire.token import known_token
from shoal.experiments.coordination.wire.wire_messages import (
    Begin,
    DoTask,
    Flush,
    Flushed,
    Hello,
    NotWanted,
    Reported,
    ReportNow,
    RowsFollow,
    StreamsStopped,
    TaskDone,
)
from shoal.experiments.language.experiment_file import read_declared
from shoal.experiments.processes import end_with_parent

CONNECT_S = 5.0


class RemotePeers:
    """The other nodes, each by a connection that is opened when it is first needed."""

    def __init__(self, number: int, token: str) -> None:
        """No addresses yet."""
        self.addresses: dict[int, tuple[str, int]] = {}
        self._number, self._token = number, token
        self._channels: dict[int, LineChannel] = {}
        self._sent: set[int] = set()
        self._flushes = 0
        self._lock = threading.Lock()

    def send(self, node: int, stream: int, rows: pa.RecordBatch) -> None:
        """Send rows to a node; TCP holds back whoever is too fast."""
        with self._lock:
            channel = self._channel(node)
            channel.send_rows(stream, rows)
            self._sent.add(node)

    def tell_stopped(self, node: int, sender: int, streams: tuple[int, ...]) -> None:
        """Tell a node on the way that its rows take, so that it comes after them."""
        with self._lock:
            self._channel(node).send(StreamsStopped(sender, streams))
            self._sent.add(node)

    def flush(self) -> None:
        """Ask all nodes that got rows whether they have taken them."""
        with self._lock:
            self._flushes += 1
            for node in sorted(self._sent):
                self._flush(node, self._channels[node])
            self._sent.clear()

    def _flush(self, node: int, channel: LineChannel) -> None:
        channel.send(Flush(self._flushes))
        answer = channel.receive()
        if not isinstance(answer, Flushed):
            raise RunError(f"node {node} is gone; it was sent rows")
        if answer.failure:
            raise RunError(f"node {node} could not take rows: {answer.failure}")

    def _channel(self, node: int) -> LineChannel:
        if node not in self._channels:
            if node not in self.addresses:
                raise RunError(f"there is no node {node}; there are {', '.join(map(str, self.addresses))}")
            self._channels[node] = connected(self.addresses[node], self._token, self._number, f"node {node}")
        return self._channels[node]

    def close(self) -> None:
        """Close all connections."""
        for channel in list(self._channels.values()):
            channel.close()


def connected(address: tuple[str, int], token: str, node: int, name: str, port: int = 0) -> LineChannel:
    """A connection to somebody who knows the token, too."""
    try:
        connection = socket.create_connection(address, CONNECT_S)
    except OSError as error:
        raise RunError(f"{name} cannot be reached at {address[0]}:{address[1]}: {error.strerror or error}") from error
    connection.settimeout(None)
    channel = LineChannel(connection, name)
    channel.send(Hello(token, node, port))
    return channel


class NodeService:
    """One registration of a node: from its connection to a coordinator to the end of the flow."""

    def __init__(self, coordinator: tuple[str, int], number: int, directory: Path, token: str, host: str) -> None:
        """Listen for rows at `host`, and register; raises `RunError` if there is no coordinator."""
        self._number, self._directory, self._token = number, directory, token
        self._peers = RemotePeers(number, token)
        self._node: FlowNode | None = None
        self._listener = socket.create_server((host, 0))
        try:
            port = self._listener.getsockname()[1]
            self._coordinator = connected(coordinator, token, number, "the coordinator", port)
        except BaseException:
            self._listener.close()
            raise
        self._inlets: list[LineChannel] = []
        threading.Thread(target=self._accept, name="shoal-node-rows", daemon=True).start()

    def serve(self) -> None:
        """Do tasks until the coordinator closes the connection."""
        try:
            while (message := self._coordinator.receive()) is not None:
                self._answer(message)
        finally:
            self.close()

    def close(self) -> None:
        """End the engine and all connections."""
        self._listener.close()
        if self._node is not None:
            self._node.closing.set()
        self._peers.close()
        for channel in self._inlets:
            channel.close()
        if self._node is not None:
            self._node.close()
        self._coordinator.close()

    def _answer(self, message: object) -> None:
        if isinstance(message, NotWanted):
            raise RunError(f"the coordinator has refused node {self._number}: {message.reason}")
        if isinstance(message, Begin):
            self._begin(message)
        elif isinstance(message, DoTask):
            threading.Thread(target=self._perform, args=(message,), name="shoal-task", daemon=True).start()
        elif isinstance(message, ReportNow) and self._node is not None:
            self._coordinator.send(Reported(report_of(self._node)))
        else:
            raise MessageError(f"the coordinator must not send {type(message).__name__} to a node")

    def _begin(self, begin: Begin) -> None:
        file = read_declared(begin.text, begin.file)
        self._peers.addresses = dict(begin.addresses)
        self._node = FlowNode(
            NodeSetup(self._number, begin.engine, file, self._directory, begin.settings, begin.workers, begin.traced),
            self._peers,
        )

    def _perform(self, task: DoTask) -> None:
        failure = ""
        try:
            perform(self._made(), task.name, tuple(_frozen(each) for each in task.arguments))
        except ShoalError as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001  (the coordinator must learn of every failure)
            failure = f"{type(error).__name__}: {error}"
        try:
            self._coordinator.send(TaskDone(task.number, failure or ""))
        except RunError:
            return  # nobody is left to be told

    def _made(self) -> FlowNode:
        if self._node is None:
            raise RunError("it was given a task before it was told what it is")
        return self._node

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._listener.accept()
            except OSError:
                return
            threading.Thread(
                target=self._take, args=(connection, f"{address[0]}:{address[1]}"), name="shoal-rows", daemon=True
            ).start()

    def _take(self, connection: socket.socket, name: str) -> None:
        """Take rows from another node until it has no more."""
        found = welcomed(connection, self._token, name)
        if found is None:
            return
        channel, hello = found
        self._inlets.append(channel)
        failure = ""
        try:
            while (message := channel.receive()) is not None:
                if isinstance(message, Flush):
                    channel.send(Flushed(message.number, failure))
                    continue
                if isinstance(message, StreamsStopped):
                    if self._node is not None:
                        self._node.told_stopped(message.node, message.streams)
                    continue
                if not isinstance(message, RowsFollow):
                    refuse(channel, f"node {hello.node} must send rows; got {type(message).__name__}")
                    return
                rows = channel.rows(message)
                if self._node is not None and not failure:
                    try:
                        self._node.take(message.stream, rows)
                    except ShoalError as error:
                        failure = str(error)
        except (MessageError, RunError) as error:
            refuse(channel, str(error))


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list | tuple) else value


def main() -> None:
    """Serve one flow in a process that a coordinator has started."""
    end_with_parent()
    host, port, number, directory = sys.argv[1:]
    try:
        NodeService((host, int(port)), int(number), Path(directory), known_token(), "127.0.0.1").serve()
    except ShoalError as error:
        sys.exit(str(error))
    finally:
        sys.stdout.flush()
    os._exit(0)  # threads of an engine that was cut off must not keep the process


if __name__ == "__main__":
    main()
