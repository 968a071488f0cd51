"""The runtime protocol: what a session needs from a runtime, and how a runtime describes itself.

No code above `runtimes` asks which runtime it has. Differences between runtimes are data (`Capabilities`). A runtime is
made from one value (`Launch`) and rejects the settings that it does not support.
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
from shoal.model.control.parked import ParkedQuery
from shoal.model.control.partitioning import Partitioning
from shoal.model.control.shedding import StreamShedding
from shoal.model.control.topology import Topology
from shoal.model.query.graph import Graph
from shoal.runtimes.measured.result_path import ResultTimes

RemoteCommand = AddQuery | ReplaceQuery | RemoveQuery | Repartition
"""Commands that another process may send to a run."""
Say = Callable[[str], None]
"""Called with a short text for each phase of a start, before the first event."""
Binds = Literal["always", "with a policy", "never"]


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do, and the texts that describe it to users.

    Those of a `RuntimeKind` are known before anything runs. Those of a runtime reflect its settings, so that `binds` is
    then `always` or `never`.
    """

    name: str
    summary: str
    """What it is for, in one line."""
    starting: str
    """Shown while it starts."""
    interrupted: str = "nothing was kept"
    """What is left of an interrupted run without a checkpoint."""
    binds: Binds = "always"
    """Whether instances are bound to workers, so that a policy can move them."""
    default_policy: str = "round-robin"
    """The policy if none is given."""
    mechanisms: tuple[str, ...] = ()
    """The migration mechanisms; the first is the default."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Why it does not have the other mechanisms, by name."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Settings with their own command-line option, and their values."""
    keeps_checkpoint: bool = False
    takes_dataframes: bool = False
    changes_queries: bool = False
    """Whether queries can be added, replaced and removed while it runs."""
    shares_queues: bool = False
    """Whether it has policies without a binding, under which several workers serve one queue."""
    stops_to_divide: bool = False
    """Whether instances are split and merged only once everything that was read has been processed."""
    operator_metrics: bool = False
    knows_hosts: bool = False
    """Whether its topology has hosts, with the links between them."""
    simulates_time: bool = False
    """Whether its clock is not that of the wall: limits in seconds then go by the times of its events."""


@dataclass(frozen=True)
class Launch:
    """All that a runtime may need beside the graph; each runtime rejects the settings that it does not support.

    `most_workers` is the upper limit of scaling, 0 without scaling. `must_bind`: a runtime that cannot bind instances
    to workers under the given policy must raise. `on_query_error`: see `OnQueryError`. `conf` holds settings by name,
    `local` the settings of the local runtime as an object. `seed`: for what a runtime draws at random. `allow_pickle`:
    accept functions in the checkpoint that are not signed. `shedding`: the streams of which rows may be shed, and those
    of which they are from the beginning.
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
    on_query_error: str = "fail"
    say: Say | None = None
    allow_pickle: bool = False
    seed: int = 0
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)

    def refuse(self, runtime: str, *names: str) -> None:
        """Raise an error if one of these is given; called by a runtime that does not support them."""
        for name in names:
            if getattr(self, name):
                raise ConfigError(f"{name}= is not for the {runtime} runtime; leave it out")

    def refuse_checkpoint(self, runtime: str) -> None:
        """Raise an error if a checkpoint is given; called by a runtime that keeps none."""
        if self.checkpoint is not None:
            raise ConfigError(f"the {runtime} runtime keeps nothing for a restart; leave the checkpoint out")


def refuse_dataframes(sources: Mapping[str, Any]) -> None:
    """Raise an error if only Spark can read a source; called by a runtime without Spark."""
    for stream, source in sources.items():
        if not hasattr(source, "cursor"):
            raise GraphError(f"source of stream {stream!r} cannot be read without Spark; got {type(source).__name__}")


def refuse_endless(sources: Mapping[str, Any]) -> None:
    """Raise an error if a stream never ends; called by what runs all of it, several times."""
    for stream, source in sources.items():
        if getattr(source, "follow", False):
            raise ConfigError(
                f"stream {stream!r} must end to be measured; got files that are followed, set follow=False"
            )
        if hasattr(source, "rows_per_epoch") and getattr(source, "events", 0) is None:
            raise ConfigError(
                f"stream {stream!r} must end to be measured; got generated events without an end, set events="
            )


@dataclass(frozen=True)
class Overhead:
    """The overhead of a runtime: scheduling decisions and their time, and how long markers took to reach the sinks."""

    decisions: int
    deciding_s: float
    transit: Histogram


class Runtime(Protocol):
    """Executes one graph once; made by `RuntimeKind.make`, which starts nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """What this runtime can do; never changes."""

    @property
    def topology(self) -> Topology:
        """The current workers and their nodes; read only after `start`."""

    @property
    def consumed(self) -> int:
        """Events read since the beginning, earlier runs from the same checkpoint included."""

    def start(self, graph: Graph, binding: Binding) -> None:
        """Begin, or resume from a checkpoint; called once.

        Returns as soon as the graph runs. Errors in the graph, the sources or the checkpoint are raised here; nothing
        may then be running or left behind.
        """

    def events(self) -> Iterable[Event]:
        """The events of the run in order, each with its time by `now_s`; every iteration ends with `RunEnded`."""

    def apply(self, command: Command) -> None:
        """Request a change; called from any thread, after `start`.

        The change takes effect before one of the next epochs, or a `CommandRefused` event gives the reason. A rebinding
        must not change any result.
        """

    def stop(self) -> None:
        """End soon; any thread may call it, repeatedly. Input that was read must be processed or checkpointed."""

    def now_s(self) -> float:
        """The runtime's clock, in seconds since 1970; code above the runtimes must read no other clock."""

    def cpu_s(self) -> float:
        """Processor time of the calling thread; only differences are meaningful."""

    def metrics(self) -> list[dict[str, Any]]:
        """Metrics of every operator so far; called only if `capabilities.operator_metrics`."""

    def overhead(self) -> Overhead | None:
        """The overhead so far; None if it is not measured."""

    def machine_report(self) -> Mapping[str, Any] | None:
        """How hosts and links of the machine were used, as plain data; None if the runtime does not know."""

    def result_times(self) -> ResultTimes | None:
        """Where the time of results went; called when the run has ended. None if it was not traced."""


class Unmeasured:
    """Default methods for a runtime without measurements of its own."""

    def metrics(self) -> list[dict[str, Any]]:
        """No metrics."""
        return []

    def overhead(self) -> None:
        """Not measured."""

    def machine_report(self) -> Mapping[str, Any] | None:
        """Not known."""
        return None

    def result_times(self) -> ResultTimes | None:
        """Not traced."""
        return None


class Reply(Protocol):
    """The reply to a command of another process: the epoch that applied it, or the reason why none did."""

    @property
    def epoch(self) -> int | None:
        """The first epoch with the change; None if the command was refused."""

    @property
    def reason(self) -> str:
        """Why the command was refused."""


class KeptRun(Protocol):
    """A run as another process sees it, through its checkpoint directory."""

    def last_epoch(self) -> int | None:
        """The last committed epoch; None before the first."""

    def graph(self, epoch: int) -> Graph:
        """The queries of a committed epoch."""

    def parked(self, epoch: int) -> tuple[ParkedQuery, ...]:
        """The queries that had failed and were parked in a committed epoch."""

    def bound(self, epoch: int) -> tuple[Partitioning, Binding]:
        """The partitioning and the binding of a committed epoch."""

    def is_running(self) -> bool:
        """Whether a process is running it now; True if that cannot be determined."""

    def ask(self, command: RemoteCommand) -> str:
        """Leave a command for the run; returns its number."""

    def reply(self, number: str) -> Reply | None:
        """The reply to a command; None until there is one."""

    def is_open(self, number: str) -> bool:
        """Whether the run has taken the command up and not replied yet."""

    def withdraw(self, number: str) -> bool:
        """Withdraw a command; False if the run has already taken it up."""


def two_workers(_: Mapping[str, str]) -> int:
    """The number of workers of most runtimes."""
    return 2


@dataclass(frozen=True)
class RuntimeKind:
    """A registered runtime: what it can do, how to make one, and what else it offers.

    `clock` is the clock of its runtimes. `workers` is the number of workers if none is given, by the settings.
    `settings` are the names of those that `--set` may give, too. `profile` measures what a graph costs. `kept` opens
    the checkpoint directory of a run. `counts_only`: whether runs with these settings count results and write none.
    """

    capabilities: Capabilities
    make: Callable[[Launch], Runtime]
    clock: Callable[[], float] = time.time
    workers: Callable[[Mapping[str, str]], int] = two_workers
    settings: tuple[str, ...] = ()
    profile: Callable[[Graph, Mapping[str, Source], Say | None], dict[str, Any]] | None = None
    kept: Callable[[str], KeptRun] | None = None
    counts_only: Callable[[Mapping[str, str]], bool] = lambda _: False
