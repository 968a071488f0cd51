"""The coordinator's side: nodes register, get tasks and answer; one that dies fails all it was asked for."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from shoal.errors import MessageError, RunError
from shoal.experiments.coordination.node_link import NodeReport
from shoal.experiments.coordination.wire.line_channel import LineChannel, refuse, welcomed
from shoal.experiments.coordination.wire.token import TOKEN, TOKEN_FILE
from shoal.experiments.coordination.wire.wire_messages import Begin, DoTask, Message, Reported, ReportNow, TaskDone

REGISTER_S = 60.0
"""How long nodes may take to register."""
END_S = 5.0
SERVICE = "shoal.experiments.coordination.wire.node_service"


class RemoteNode:
    """A node that has registered; `process` if it is a child of this one."""

    def __init__(self, channel: LineChannel, number: int, address: tuple[str, int]) -> None:
        """Take over the connection."""
        self.number, self.address = number, address
        self.process: subprocess.Popen[bytes] | None = None
        self._channel = channel
        self._futures: dict[int, Future[None]] = {}
        self._reported: Future[NodeReport] = Future()
        self._next = 0
        self._gone = ""
        self._lock = threading.Lock()

    def listen(self, gone: Callable[[str], None]) -> None:
        """Take answers on a thread; `gone` is called with the reason if the node dies."""
        threading.Thread(target=self._listen, args=(gone,), name=f"shoal-node-{self.number}", daemon=True).start()

    def tell(self, begin: Begin) -> None:
        """Say what the node is made of."""
        self._channel.send(begin)

    def begin(self, name: str, arguments: tuple[Any, ...]) -> "Future[None]":
        """Give the node a task."""
        future: Future[None] = Future()
        with self._lock:
            if self._gone:
                future.set_exception(RunError(self._gone))
                return future
            self._next += 1
            number = self._next
            self._futures[number] = future
        try:
            self._channel.send(DoTask(number, name, arguments))
        except RunError as error:
            self._lost(str(error))
        return future

    def report(self) -> NodeReport:
        """Ask for the report."""
        self._channel.send(ReportNow())
        return self._reported.result(REGISTER_S)

    def close(self) -> None:
        """Close the connection, and wait for the process if it is ours; one that does not end is killed."""
        with self._lock:
            self._gone = self._gone or "it was closed"
        self._channel.close()
        if self.process is not None:
            ended(self.process)

    def _listen(self, gone: Callable[[str], None]) -> None:
        reason = ""
        try:
            while (message := self._channel.receive()) is not None:
                self._take(message)
        except MessageError as error:
            reason = f": {error}"
        if not self._gone:
            self._lost(f"it is gone{reason or self._how()}")
            gone(f"node {self.number} is gone{reason or self._how()}")

    def _take(self, message: Message) -> None:
        if isinstance(message, TaskDone):
            self._done(message)
        elif isinstance(message, Reported):
            self._reported.set_result(message.report)
        else:
            raise MessageError(f"node {self.number} must not send {type(message).__name__}")

    def _how(self) -> str:
        """How the process has ended, if it is ours."""
        if self.process is None:
            return ": its connection was closed"
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return ": its connection was closed"
        return f": its process was ended by {signal.Signals(-code).name}" if code < 0 else f": exit code {code}"

    def _done(self, message: TaskDone) -> None:
        with self._lock:
            future = self._futures.pop(message.number, None)
        if future is None:
            raise MessageError(f"node {self.number} has done task number {message.number}, which it was not given")
        if message.failure:
            future.set_exception(RunError(message.failure))
        else:
            future.set_result(None)

    def _lost(self, reason: str) -> None:
        with self._lock:
            self._gone = self._gone or reason
            futures, self._futures = list(self._futures.values()), {}
        for future in futures:
            future.set_exception(RunError(reason))
        if not self._reported.done():
            self._reported.set_exception(RunError(f"node {self.number}: {reason}"))


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that should end by itself; then end it."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
            return


class Registration:
    """Listens for nodes until all have registered."""

    def __init__(self, host: str, port: int, token: str) -> None:
        """Listen at an address; port 0 is any that is free."""
        self._token = token
        try:
            self._listener = socket.create_server((host, port))
        except OSError as error:
            raise RunError(f"the coordinator cannot listen at {host}:{port}: {error.strerror or error}") from error
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.nodes: dict[int, RemoteNode] = {}
        self.refusals: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int, directory: str, environment: Mapping[str, str]) -> None:
        """Start a node as a process of this host."""
        known = {name: value for name, value in environment.items() if name != TOKEN_FILE}
        command = [sys.executable, "-m", SERVICE, *map(str, self.address), str(number), directory]
        self._processes.append(subprocess.Popen(command, env={**known, TOKEN: self._token}, stdin=subprocess.DEVNULL))

    def await_nodes(self, numbers: Sequence[int], deadline_s: float) -> dict[int, RemoteNode]:
        """All nodes, once each of them has registered; an error says which have not."""
        while missing := [number for number in numbers if number not in self.nodes]:
            left_s = deadline_s - time.monotonic()
            died = next((each for each in self._processes if each.poll() is not None), None)
            if left_s <= 0 or died is not None:
                listed = ", ".join(map(str, missing))
                why = f"a process ended with exit code {died.returncode}" if died else "their time is up"
                hint = f" (refused: {'; '.join(self.refusals)})" if self.refusals else ""
                raise RunError(f"nodes {listed} have not registered at {_shown(self.address)}: {why}{hint}")
            self._listener.settimeout(min(left_s, 0.5))
            with contextlib.suppress(TimeoutError):
                self._admit(*self._listener.accept(), numbers)
        for process, number in zip(self._processes, numbers, strict=False):
            self.nodes[number].process = process
        return self.nodes

    def _admit(self, connection: socket.socket, address: tuple[str, int], numbers: Sequence[int]) -> None:
        found = welcomed(connection, self._token, _shown(address))
        if found is None:
            self.refusals.append(f"{_shown(address)} did not have the token")
            return
        channel, hello = found
        channel.name = f"node {hello.node}"
        if hello.node not in numbers or hello.node in self.nodes:
            listed = ", ".join(str(each) for each in numbers if each not in self.nodes)
            problem = f"the flow waits for nodes {listed}; got {hello.node}"
            self.refusals.append(problem)
            refuse(channel, problem)
            return
        self.nodes[hello.node] = RemoteNode(channel, hello.node, (address[0], hello.port))

    def close(self) -> None:
        """Stop listening, and end all nodes that were started."""
        self._listener.close()
        for node in self.nodes.values():
            node.close()
        for process in self._processes:
            ended(process)


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
