"""A connection between coordinator and nodes: lines of JSON both ways, and Arrow after a line that announces it."""

import contextlib
import hmac
import socket
import threading

import pyarrow as pa

from shoal.errors import MessageError, RunError
from shoal.experiments.coordination.wire.wire_messages import CODEC, Hello, Message, NotWanted, RowsFollow

MOST_LINE_BYTES = 64 << 20
MOST_ROWS_BYTES = 1 << 30
HELLO_S = 10.0
"""How long whoever connects may take to say who it is."""
MOST_HELLO_BYTES = 4096
KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 5, "TCP_USER_TIMEOUT": 15_000}
"""A host that is gone without a word is noticed after about 15 s."""


class LineChannel:
    """One connection; any thread may send, one receives."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        """Take over a connection; `name` is that of the other side, for messages."""
        self.name = name
        self._socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE.items():
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: Message, content: bytes | pa.Buffer | None = None) -> None:
        """Write a line, and what follows it."""
        line = CODEC.encode(message) + b"\n"
        try:
            with self._lock:
                self._socket.sendall(line)
                if content is not None:
                    self._socket.sendall(memoryview(content))
        except OSError as error:
            raise RunError(f"{self.name} is gone: {error.strerror or error}") from error

    def send_rows(self, stream: int, rows: pa.RecordBatch) -> None:
        """Write rows of a stream."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        content = sink.getvalue()
        self.send(RowsFollow(stream, content.size), content)

    def receive(self, most_bytes: int = MOST_LINE_BYTES) -> Message | None:
        """The next message, or None if the other side has closed; what is no message is an error."""
        try:
            line = self._reader.readline(most_bytes)
        except (OSError, ValueError):
            return None
        if not line:
            return None
        if not line.endswith(b"\n"):
            raise MessageError(f"what {self.name} has sent is no message: a line of at most {most_bytes} bytes")
        try:
            found: Message = CODEC.decode(line)
        except MessageError as error:
            raise MessageError(f"what {self.name} has sent {error}") from error
        return found

    def rows(self, announced: RowsFollow) -> pa.RecordBatch:
        """The rows that a line has announced."""
        if not 0 < announced.bytes <= MOST_ROWS_BYTES:
            raise MessageError(f"rows of {self.name} must have 1 to {MOST_ROWS_BYTES} bytes; got {announced.bytes}")
        content = self._reader.read(announced.bytes)
        if len(content) < announced.bytes:
            raise MessageError(f"{self.name} has closed in the middle of rows")
        try:
            batches = list(pa.ipc.open_stream(content))
        except pa.ArrowInvalid as error:
            raise MessageError(f"what {self.name} has sent is not Arrow: {error}") from error
        if len(batches) != 1:
            raise MessageError(f"{self.name} must send one batch at a time; got {len(batches)}")
        return batches[0]

    def limit(self, seconds: float | None) -> None:
        """How long `receive` may take from now on."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Close the connection; whoever waits for it returns."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self._socket.close()


def welcomed(connection: socket.socket, token: str, name: str) -> tuple[LineChannel, Hello] | None:
    """Whoever has connected, if it has the token; everybody else is told why not, and cut off."""
    channel = LineChannel(connection, name)
    channel.limit(HELLO_S)
    try:
        hello = _checked(channel.receive(MOST_HELLO_BYTES), token, name)
    except MessageError as error:
        refuse(channel, str(error))
        return None
    channel.limit(None)
    return channel, hello


def _checked(first: Message | None, token: str, name: str) -> Hello:
    """The first message, if it is a hello with the token; the time of the comparison says nothing about the token."""
    if not isinstance(first, Hello):
        raise MessageError(f"the first line of {name} must be hello")
    if not hmac.compare_digest(first.token.encode(), token.encode()):
        raise MessageError(f"the token of {name} is wrong")
    return first


def refuse(channel: LineChannel, reason: str) -> None:
    """Say why somebody is not wanted, and close."""
    with contextlib.suppress(RunError):
        channel.send(NotWanted(reason))
    channel.close()
