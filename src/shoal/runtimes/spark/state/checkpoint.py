"""The checkpoint: what survives a crash, beside Spark's own offsets.

    spark/            Spark's own offsets and commits
    sources/STREAM/   what a source must remember (e.g. the files it has read)
    graphs/DIGEST     the queries, as plain data
    plans/EPOCH       what an epoch will do, written before it starts, so that a replay does the same
    epochs/EPOCH      the manifest; an epoch is committed once this file exists
    state/            segments
    commands/         commands of other processes, and the replies to them

Every file is JSON behind a checksum and is replaced atomically.
"""

import fcntl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import IO, ClassVar, TypeVar

from shoal.compiler.program import Program, compile_graph
from shoal.errors import CheckpointError, ConfigError, GraphError, SignatureError, reason_of
from shoal.model.control.parked import ParkedQuery
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.model.control.shedding import StreamShedding
from shoal.model.query.code import trust
from shoal.model.query.graph import Graph, InstanceId, Operator, OperatorId
from shoal.runtimes.spark.state.postponed import Dropped, Loss, Postponed, Rest
from shoal.runtimes.spark.state.signed_code import codes_of, signature_of, trust_signed
from shoal.runtimes.spark.tasks.reports import SliceRead
from shoal.storage.codec import Codec
from shoal.storage.directory import Directory, local_path
from shoal.storage.private import check_private, private_place
from shoal.storage.record import Record
from shoal.storage.writable import check_writable

KEPT_MANIFESTS = 3
FORMAT = 4
OWN = frozenset(
    {"spark", "sources", "graphs", "plans", "epochs", "state", "commands", "lock", "journal.jsonl", "control"}
)
"""What a checkpoint may hold; at least one of them if it holds anything."""
T = TypeVar("T")


@dataclass(frozen=True)
class StateRef:
    """A segment, the instances whose newest state it holds (None: all of it), and the workers they are bound to.

    `coming`: the workers that will have some of them in the next epoch, if announced.
    """

    segment: str
    bytes: int
    instances: tuple[str, ...] | None
    workers: tuple[int, ...]
    coming: tuple[int, ...] = ()


@dataclass(frozen=True)
class Goal:
    """A rebinding in progress: its id, its mechanism, and the target worker of each instance."""

    rebind: str
    mechanism: str
    workers: int
    binding: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The common part of a plan and a manifest: queries, binding, watermarks, and the segments of state.

    `binding`: the worker of each instance, in the program's order of instances. `coming`: the binding of the next
    epoch, if announced. `goal`: the rebinding in progress; in a plan also in the epoch of its last move. `declared`,
    `added`, `removed` and `parked`: see `Position`. `offsets`: the checksum of Spark's offsets of the epoch.
    `shedding`: which rows are shed, by stream; that of a manifest is for the next epoch.
    `postponed`: state that the workers of its instances have not read yet. `on_demand`: whether the announced binding
    takes effect without the state of the instances that move, which is then postponed.
    """

    epoch: int
    graph: str
    workers: int
    binding: tuple[int, ...]
    watermarks_us: Mapping[str, int]
    states: tuple[StateRef, ...]
    declared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    parked: tuple[ParkedQuery, ...] = ()
    ended: tuple[str, ...] = ()
    offsets: str = ""
    coming: tuple[int, ...] = ()
    coming_workers: int = 0
    partitioning: Partitioning = DECLARED
    goal: Goal | None = None
    shedding: Mapping[str, StreamShedding] = field(default_factory=dict)
    postponed: tuple[Postponed, ...] = ()
    on_demand: bool = False


@dataclass(frozen=True, kw_only=True)
class EpochPlan(Standing):
    """What an epoch will do; a replay after a crash reads this and does the same.

    `arrived`: the positions in the binding of instances that had another worker in the epoch before. `divided`: the
    instances whose state is partitioned again by key, since it was written under another partitioning. `attempt`: how
    often the epoch was planned before, for other queries. `dropped`: state that is discarded.
    """

    KIND: ClassVar[str] = "plan"
    now_us: int
    moves: int = 0
    arrived: tuple[int, ...] = ()
    divided: tuple[str, ...] = ()
    attempt: int = 0
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Manifest(Standing):
    """What an epoch has done. Its state is complete, and its results are in the sinks.

    `rests`: how long the state of instances that move on demand with the next epoch can be left alone. `losses`: the
    state that was discarded.
    """

    slices: Mapping[str, tuple[SliceRead, ...]] = field(default_factory=dict)
    final: bool = False
    totals: Mapping[str, int] = field(default_factory=dict)
    streams: tuple[str, ...] = ()
    rests: Mapping[InstanceId, Rest] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()

    @classmethod
    def of(
        cls,
        plan: EpochPlan,
        *,
        watermarks_us: Mapping[str, int],
        states: tuple[StateRef, ...],
        ended: tuple[str, ...],
        goal: Goal | None,
        shedding: Mapping[str, StreamShedding],
        slices: Mapping[str, tuple[SliceRead, ...]],
        totals: Mapping[str, int],
        streams: tuple[str, ...],
        final: bool,
    ) -> "Manifest":
        """The manifest of a planned epoch: its plan, with what the epoch has changed."""
        planned = {each.name: getattr(plan, each.name) for each in fields(Standing)}
        done = {"watermarks_us": watermarks_us, "states": states, "ended": ended, "goal": goal, "shedding": shedding}
        return cls(**{**planned, **done}, slices=slices, totals=totals, streams=streams, final=final)


@dataclass(frozen=True)
class StoredGraph:
    """A graph as its operators, each once, and the operators of each query; `signature`: that of its code, if any."""

    operators: Mapping[OperatorId, Operator]
    queries: Mapping[str, tuple[OperatorId, ...]]
    signature: str = ""

    @classmethod
    def of(cls, graph: Graph) -> "StoredGraph":
        """The stored form of a graph; its code is signed with the user's key."""
        named = {name: tuple(operator.id for operator in query.operators) for name, query in graph.queries.items()}
        return cls(dict(graph.operators), named, signature_of(graph.operators.values()))

    def graph(self, told: str = "") -> Graph:
        """The graph, whose code may then be loaded; `GraphError` if the parts are inconsistent.

        Raises `SignatureError` if its code is not signed. `told`: the digest of the code, as the driver has said.
        """
        graph = self.unverified()
        trust_signed(self.operators.values(), self.signature, told)
        return graph

    def unverified(self) -> Graph:
        """The graph for a process that only looks at it: its code cannot be loaded."""
        return Graph.from_parts(self.operators, self.queries)


GRAPHS = Record(Codec([StoredGraph], format=FORMAT))
PLANS = Record(Codec([EpochPlan], format=FORMAT))
MANIFESTS = Record(Codec([Manifest], format=FORMAT))


class Checkpoint:
    """The files of one run."""

    def __init__(self, uri: str, *, allow_pickle: bool = False) -> None:
        """Open or begin a checkpoint; `allow_pickle`: accept code in it that is not signed."""
        self.uri = uri.rstrip("/")
        self._allow_pickle = allow_pickle
        self._directory = Directory(self.uri)
        self._held: IO[str] | None = None

    def check_usable(self) -> None:
        """Raise if the directory cannot be written, or holds others' files, or others can write it; needs no Spark."""
        check_writable(self.uri, "checkpoint")
        check_private(self.uri, "checkpoint")
        path = local_path(self.uri)
        if path is not None and Path(path).exists():
            _check_content(Path(path))

    def lock(self) -> None:
        """Raise if another run uses the checkpoint, or another user could change it; works on local disks only."""
        private_place(self.uri, "checkpoint")
        if "://" in self.uri:
            return
        held = (Path(self.uri) / "lock").open("a")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held.close()
            raise CheckpointError(f"checkpoint {self.uri} is in use by another run") from error
        self._held = held

    def unlock(self) -> None:
        """Release the checkpoint for other runs."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def spark_location(self) -> str:
        """Where Spark keeps its own part."""
        return f"{self.uri}/spark"

    def source_location(self, stream: str) -> str:
        """Where a source keeps what it must remember."""
        return f"{self.uri}/sources/{stream}"

    def write_graph(self, graph: Graph) -> None:
        """Write a graph under its digest."""
        self._write(GRAPHS, f"graphs/{graph.digest}", StoredGraph.of(graph))

    def graph(self, digest: str, told: str = "") -> Graph:
        """A graph by its digest; its code is verified, see `StoredGraph.graph`."""
        return self._graph(digest, lambda stored: stored.graph(told))

    def unverified_graph(self, digest: str) -> Graph:
        """A graph by its digest, for a process that runs none of its code."""
        return self._graph(digest, StoredGraph.unverified)

    def _graph(self, digest: str, made: Callable[[StoredGraph], Graph]) -> Graph:
        name = f"graphs/{digest}"
        stored = self._read(GRAPHS, name)
        if self._allow_pickle:
            trust(codes_of(stored.operators.values()))
        try:
            return made(stored)
        except SignatureError as error:
            raise SignatureError(f"{GRAPHS.subject} {self.uri}/{name}: {error}") from error
        except GraphError as error:
            raise CheckpointError(f"{GRAPHS.subject} {self.uri}/{name} is damaged: {error}; {GRAPHS.hint}") from error

    def write_plan(self, plan: EpochPlan) -> None:
        """Write the plan of an epoch."""
        self._write(PLANS, f"plans/{plan.epoch:010d}", plan)

    def plan(self, epoch: int) -> EpochPlan:
        """The plan of an epoch."""
        return self._read(PLANS, f"plans/{epoch:010d}")

    def has_plan(self, epoch: int) -> bool:
        """Whether an epoch was planned by a run that may have died in it."""
        return self._directory.exists(f"plans/{epoch:010d}")

    def write_manifest(self, manifest: Manifest) -> None:
        """Commit an epoch."""
        self._write(MANIFESTS, f"epochs/{manifest.epoch:010d}", manifest)

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch."""
        return self._read(MANIFESTS, f"epochs/{epoch:010d}")

    def last_epoch(self) -> int | None:
        """The last committed epoch."""
        return max(self._numbers("epochs"), default=None)

    def _numbers(self, kind: str) -> list[int]:
        """The epochs that have a file of some kind; files of other names are not ours."""
        return [int(name) for name in self._directory.names(kind) if name.isdecimal()]

    def offsets(self, epoch: int) -> str:
        """Checksum of Spark's offsets of an epoch; empty if Spark has none."""
        name = f"spark/offsets/{epoch}"
        return f"{zlib.crc32(self._directory.read(name)):08x}" if self._directory.exists(name) else ""

    def check_offsets(self, record: Standing) -> None:
        """Raise if Spark's offsets of an epoch differ from those it was planned or committed with."""
        found = self.offsets(record.epoch)
        if found != record.offsets:
            fault = "damaged" if found else "missing"
            raise CheckpointError(f"file {self.uri}/spark/offsets/{record.epoch} is {fault}; restore it from a copy")

    def spark_epoch(self) -> int:
        """The last epoch that Spark has committed, or -1."""
        return max((int(name) for name in self._directory.names("spark/commits") if name.isdigit()), default=-1)

    def forget_before(self, epoch: int) -> None:
        """Delete plans and manifests that no restart needs."""
        old = epoch - KEPT_MANIFESTS
        for kind in ("plans", "epochs"):
            self._directory.delete(f"{kind}/{number:010d}" for number in self._numbers(kind) if number <= old)

    def _write(self, record: Record[T], name: str, value: T) -> None:
        self._directory.write(name, record.encode(value))

    def _read(self, record: Record[T], name: str) -> T:
        return record.decode(self._directory.require(name), f"{self.uri}/{name}")


def _check_content(path: Path) -> None:
    """Reject a directory that has files but nothing of a checkpoint."""
    try:
        names = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    except OSError as error:
        raise ConfigError(f"checkpoint {path} cannot be read: {reason_of(error)}") from error
    if names and not OWN.intersection(names):
        raise ConfigError(
            f"checkpoint {path} holds files of something else, for example {names[0]}; name a new or empty directory"
        )


def program(uri: str, digest: str, partitioning: Partitioning = DECLARED, told: str = "") -> Program:
    """The compiled program of a checkpoint's graph, cached in this process; `told`: see `StoredGraph.graph`."""
    return compiled(uri, digest, partitioning, told)


@lru_cache(maxsize=8)
def compiled(uri: str, digest: str, partitioning: Partitioning, told: str) -> Program:
    """What `program` caches; a cache of `program` itself would compile again for a call that leaves out defaults."""
    return compile_graph(Checkpoint(uri).graph(digest, told), partitioning)
