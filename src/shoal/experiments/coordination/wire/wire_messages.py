"""What coordinator and nodes say to each other: frozen values, each one line of JSON by one codec.

>>> CODEC.encode(DoTask(3, "wait", (5,)))
b'{"format":1,"kind":"do-task","number":3,"name":"wait","arguments":[5]}'
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.experiments.coordination.node_link import NodeReport
from shoal.storage.codec import Codec

FORMAT = 1


@dataclass(frozen=True)
class Hello:
    """The first line of whoever connects: the token, and which node it is. `port` is where it takes rows."""

    token: str
    node: int
    port: int = 0


@dataclass(frozen=True)
class NotWanted:
    """The answer to a connection that is not wanted."""

    reason: str


@dataclass(frozen=True)
class Begin:
    """What a node is made of: the text of the experiment file, its engine, settings and where the other nodes are."""

    file: str
    text: str
    engine: str
    settings: Mapping[str, str]
    workers: int
    traced: bool
    addresses: Mapping[int, tuple[str, int]]


@dataclass(frozen=True)
class DoTask:
    """A task for a node."""

    number: int
    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TaskDone:
    """A task is done, or has failed for a reason."""

    number: int
    failure: str = ""


@dataclass(frozen=True)
class ReportNow:
    """Asks a node for its report."""


@dataclass(frozen=True)
class Reported:
    """The report of a node."""

    report: NodeReport


@dataclass(frozen=True)
class RowsFollow:
    """Rows of a stream for a node: so many bytes of Arrow follow the line."""

    stream: int
    bytes: int


@dataclass(frozen=True)
class StreamsStopped:
    """No more rows of these streams follow from a node, until they go on."""

    node: int
    streams: tuple[int, ...]


@dataclass(frozen=True)
class Flush:
    """Asks whether all rows before it have been taken."""

    number: int


@dataclass(frozen=True)
class Flushed:
    """All rows before a `Flush` have been taken; or why not."""

    number: int
    failure: str = ""


Message = (
    Hello | NotWanted | Begin | DoTask | TaskDone | ReportNow | Reported | RowsFollow | StreamsStopped | Flush | Flushed
)
KINDS = (
    Hello,
    NotWanted,
    Begin,
    DoTask,
    TaskDone,
    ReportNow,
    Reported,
    RowsFollow,
    StreamsStopped,
    Flush,
    Flushed,
)
CODEC: Codec[Any] = Codec(KINDS, format=FORMAT)
