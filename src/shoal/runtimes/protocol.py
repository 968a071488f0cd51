"""The runtime protocol: what a session needs of whatever executes a graph, and what a runtime says of itself.

Nothing above `runtimes` asks which runtime it has. What differs between them is data (`Capabilities`), and what a
runtime is made from is one value (`Launch`), of which it refuses what it has no use for.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shoal.connectors.sinks import Sink
from shoal.connectors.sources.source import Source
from shoal.errors import ConfigError, GraphError
from shoal.model.control.binding import Binding
from shoal.model.control.histogram import Histogram
from shoal.model.control.messages import AddQuery, Command, Event, RemoveQuery, Repartition, ReplaceQuery
from shoal.model.control.partitioning import Partitioning
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph

RemoteCommand = AddQuery | ReplaceQuery | RemoveQuery | Repartition
"""What another process may ask of a run."""
Say = Callable[[str], None]
"""Told, in a few words, what a run is busy with before its first event."""
Binds = Literal["always", "with a policy", "never"]


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do, and the sentences in which it says so.

    Those of a kind of runtime are known before anything runs; those of a runtime that has been made say how it was
    made, so that `binds` is then `always` or `never`.
    """

    name: str
    summary: str
    """What it is for, in one line."""
    starting: str
    """What a user waits for when it starts."""
    interrupted: str = "nothing was kept"
    """What an interrupted run without a checkpoint leaves behind."""
    binds: Binds = "always"
    """Whether instances are bound to workers, so that a policy can move them."""
    default_policy: str = "round-robin"
    """What decides where and when operators run, where no policy is given."""
    mechanisms: tuple[str, ...] = ()
    """How state can move; the first is the default."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Settings that have an option of their own on the command line, with their values."""
    keeps_checkpoint: bool = False
    takes_dataframes: bool = False
    changes_queries: bool = False
    """Whether queries can be added, replaced and removed while it runs."""
    shares_queues: bool = False
    """Whether there are policies without a binding, in which several workers serve one queue."""
    operator_metrics: bool = False


@dataclass(frozen=True)
class Launch:
    """All that a runtime may need to be made, beside the graph; each refuses what it has no use for.

    `most_workers` is the most that scaling may ask for, 0 where nothing scales. `must_bind` asks a runtime that binds
    instances only with a policy to refuse rather than not to bind. `conf` holds settings by name, `local` the
    settings of the local runtime as an object.
    """

    sources: Mapping[str, Any]
    sink: Sink
    checkpoint: str | None = None
    policy: str | None = None
    most_workers: int = 0
    must_bind: bool = False
    mechanism: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    local: object | None = None
    spark: Any = None
    interval_s: float = 0.0
    say: Say | None = None

    def refuse(self, runtime: str, *names: str) -> None:
        """Raise an error if one of these is given; called by a runtime that has no use for them."""
        for name in names:
            if getattr(self, name):
                raise ConfigError(f"{name}= is not for the {runtime} runtime; leave it out")

    def refuse_checkpoint(self, runtime: str) -> None:
        """Raise an error if a checkpoint is given; called by a runtime that keeps none."""
        if self.checkpoint is not None:
            raise ConfigError(f"the {runtime} runtime keeps nothing for a restart; leave the checkpoint out")


def refuse_dataframes(sources: Mapping[str, Any]) -> None:
    """Raise an error if a source can only be read by Spark; called by a runtime without Spark."""
    for stream, source in sources.items():
        if not hasattr(source, "cursor"):
            raise GraphError(f"source of stream {stream!r} cannot be read without Spark; got {type(source).__name__}")


@dataclass(frozen=True)
class Overhead:
    """What a runtime has spent on itself: decisions on what runs next, and how long markers took to the sinks."""

    decisions: int
    deciding_s: float
    transit: Histogram


class Runtime(Protocol):
    """Executes one graph once; made by `RuntimeKind.make`, which starts nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """What this runtime can do; the same from when it is made until it has ended."""

    @property
    def topology(self) -> Topology:
        """The workers there are now, and the nodes they live on; asked for after `start`."""

    @property
    def consumed(self) -> int:
        """Events taken in since the beginning, earlier runs from the same checkpoint included."""

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin, or go on from a checkpoint; called once.

        Returns as soon as the graph runs. What is wrong with the graph, the sources or the checkpoint is raised here,
        and then nothing runs and nothing is left behind.
        """

    def events(self) -> Iterable[Event]:
        """What happens, in order, each with its time by `now_s`; ends with `RunEnded`, for everyone who asks."""

    def apply(self, command: Command) -> None:
        """Ask for a change; any thread may, after `start`.

        It takes effect before one of the next epochs, or a `CommandRefused` says why it does not. No result changes
        by a rebinding.
        """

    def stop(self) -> None:
        """End soon; any thread may ask, more than once. What has been taken in is processed and emitted or kept."""

    def now_s(self) -> float:
        """The time by the runtime's own clock, in seconds since 1970; never read from elsewhere above the runtimes."""

    def cpu_s(self) -> float:
        """Processor time of the calling thread, as the runtime counts it; only differences mean something."""

    def metrics(self) -> list[dict[str, Any]]:
        """What every operator has done so far; asked for only where `capabilities.operator_metrics`."""

    def overhead(self) -> Overhead | None:
        """What the runtime has spent on itself; None where it does not measure that."""


class Unmeasured:
    """The part of the protocol that a runtime without measurements of its own need not write."""

    def metrics(self) -> list[dict[str, Any]]:
        """None are kept."""
        return []

    def overhead(self) -> None:
        """Nothing is known of it."""


class Reply(Protocol):
    """What became of a command by file: the epoch that carried it out, or the reason why none did."""

    @property
    def epoch(self) -> int | None:
        """The epoch from which on it holds; None if it was refused."""

    @property
    def reason(self) -> str:
        """Why it was refused."""


class KeptRun(Protocol):
    """A run by its checkpoint directory, seen from another process."""

    def last_epoch(self) -> int | None:
        """The last epoch that was committed; None before the first."""

    def graph(self, epoch: int) -> Graph:
        """The queries of a committed epoch."""

    def bound(self, epoch: int) -> tuple[Partitioning, Binding]:
        """The instances of a committed epoch, and the workers that they were bound to."""

    def is_running(self) -> bool:
        """Whether some process runs it now; where nobody can know, it is taken to be so."""

    def ask(self, command: RemoteCommand) -> str:
        """Leave a command for the run; returns its number."""

    def reply(self, number: str) -> Reply | None:
        """What became of a command; None as long as nothing has."""

    def is_open(self, number: str) -> bool:
        """Whether a command still waits or is being carried out."""

    def withdraw(self, number: str) -> bool:
        """Take a command back; False if the run has taken it up already."""


@dataclass(frozen=True)
class RuntimeKind:
    """A runtime as the registry knows it: what it can do, how one is made, and what else it offers.

    `clock` is the one that its runtimes go by. `profile` measures every operator of a graph apart; `kept` opens the
    checkpoint directory of a run.
    """

    capabilities: Capabilities
    make: Callable[[Launch], Runtime]
    clock: Callable[[], float] = time.time
    profile: Callable[[Graph, Mapping[str, Source]], dict[str, Any]] | None = None
    kept: Callable[[str], KeptRun] | None = None
