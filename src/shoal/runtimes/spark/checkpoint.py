"""The checkpoint: what survives a crash, beside the position that Spark itself keeps.

    spark/            Spark's own offsets and commits
    sources/STREAM/   what a source must remember (e.g. the files it has seen)
    graphs/DIGEST     the queries, as plain data
    plans/EPOCH       what an epoch is going to do, written before it starts, so that a replay does the same
    epochs/EPOCH      the manifest: the epoch is committed once this file is there
    state/            segments
    commands/         changes asked for by another process, and the answers to them

Every file is JSON with a checksum in front, and is replaced as a whole.
"""

import fcntl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from shoal.errors import CheckpointError
from shoal.model.graph import Graph
from shoal.model.partitioning import DECLARED, Partitioning
from shoal.query.program import Program, compile_graph
from shoal.storage.directory import Directory
from shoal.storage.record import decode, encode

KEPT_MANIFESTS = 3
FORMAT = 3


@dataclass(frozen=True)
class StateRef:
    """A segment, the instances whose newest state it holds (None: all of it), and the workers they are bound to.

    `coming`: the workers that will have some of them in the next epoch, where that has been announced.
    """

    segment: str
    bytes: int
    instances: tuple[str, ...] | None
    workers: tuple[int, ...]
    coming: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What an epoch is going to do; a replay after a crash reads this and does it again.

    `arrived`: the places in the binding of instances that had another worker in the epoch before. `coming`: the binding
    of the next epoch, where that has been announced. `divided`: the instances whose state is divided again by keys,
    since it was written under another partitioning.
    """

    epoch: int
    graph: str
    workers: int
    binding: tuple[int, ...]
    watermarks_us: Mapping[str, int]
    states: tuple[StateRef, ...]
    now_us: int
    moves: int = 0
    declared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    offsets: str = ""
    arrived: tuple[int, ...] = ()
    coming: tuple[int, ...] = ()
    coming_workers: int = 0
    partitioning: Partitioning = DECLARED
    divided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What an epoch has done. The state it names is complete, its results are in the sinks."""

    epoch: int
    graph: str
    workers: int
    binding: tuple[int, ...]
    watermarks_us: Mapping[str, int]
    states: tuple[StateRef, ...]
    slices: Mapping[str, list[Mapping[str, Any]]]
    declared: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    final: bool = False
    totals: Mapping[str, int] = field(default_factory=dict)
    offsets: str = ""
    streams: tuple[str, ...] = ()
    coming: tuple[int, ...] = ()
    coming_workers: int = 0
    partitioning: Partitioning = DECLARED


def plain(record: Plan | Manifest) -> dict[str, Any]:
    """A record as plain data, without the deep copies of `dataclasses.asdict`."""
    partitioning = record.partitioning
    return {
        **vars(record),
        "states": [vars(ref) for ref in record.states],
        "partitioning": [partitioning.version, partitioning.entries],
    }


class Checkpoint:
    """The files of one run."""

    def __init__(self, uri: str) -> None:
        """Open or begin a checkpoint."""
        self.uri = uri.rstrip("/")
        self._directory = Directory(self.uri)
        self._held: IO[str] | None = None

    def lock(self) -> None:
        """Refuse a second run on the same checkpoint; only known on local disks."""
        if "://" in self.uri:
            return
        path = Path(self.uri) / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.open("a")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held.close()
            raise CheckpointError(f"checkpoint {self.uri} is in use by another run") from error
        self._held = held

    def unlock(self) -> None:
        """Let another run have the checkpoint."""
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
        """Keep a graph under its digest."""
        self._write(f"graphs/{graph.digest}", graph.data())

    def graph(self, digest: str) -> Graph:
        """A graph by its digest."""
        return Graph.from_data(self._read(f"graphs/{digest}"))

    def write_plan(self, plan: Plan) -> None:
        """Fix what an epoch is going to do."""
        self._write(f"plans/{plan.epoch:010d}", plain(plan))

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch."""
        data = self._read(f"plans/{epoch:010d}")
        return Plan(**_typed(data, Plan))

    def has_plan(self, epoch: int) -> bool:
        """Whether an epoch was planned by a run that may have died in it."""
        return self._directory.exists(f"plans/{epoch:010d}")

    def write_manifest(self, manifest: Manifest) -> None:
        """Commit an epoch."""
        self._write(f"epochs/{manifest.epoch:010d}", plain(manifest))

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch."""
        data = self._read(f"epochs/{epoch:010d}")
        return Manifest(**_typed(data, Manifest))

    def last_epoch(self) -> int | None:
        """The last committed epoch."""
        names = self._directory.names("epochs")
        return int(names[-1]) if names else None

    def offsets(self, epoch: int) -> str:
        """Checksum of what Spark has noted of an epoch's input; nothing where Spark knows no such epoch."""
        name = f"spark/offsets/{epoch}"
        return f"{zlib.crc32(self._directory.read(name)):08x}" if self._directory.exists(name) else ""

    def check_offsets(self, record: "Plan | Manifest") -> None:
        """Refuse to go on where Spark would read other input than an epoch was planned or done with."""
        found = self.offsets(record.epoch)
        if found != record.offsets:
            fault = "damaged" if found else "missing"
            raise CheckpointError(f"file {self.uri}/spark/offsets/{record.epoch} is {fault}; restore it from a copy")

    def spark_epoch(self) -> int:
        """The last epoch that Spark has noted as done, or -1."""
        return max((int(name) for name in self._directory.names("spark/commits") if name.isdigit()), default=-1)

    def forget_before(self, epoch: int) -> None:
        """Remove plans and manifests that no restart can need."""
        old = epoch - KEPT_MANIFESTS
        for kind in ("plans", "epochs"):
            self._directory.delete(f"{kind}/{name}" for name in self._directory.names(kind) if int(name) <= old)

    def _write(self, name: str, data: Any) -> None:
        self._directory.write(name, encode({"format": FORMAT, "data": data}))

    def _read(self, name: str) -> Any:
        try:
            document = decode(self._directory.require(name))
        except ValueError as error:
            raise CheckpointError(
                f"checkpoint file {self.uri}/{name} is damaged: {error}; "
                "restore it from a copy, or start anew with another checkpoint directory"
            ) from error
        if document["format"] != FORMAT:
            raise CheckpointError(
                f"checkpoint file {self.uri}/{name} has format {document['format']}; this version reads format {FORMAT}"
            )
        return document["data"]


def _typed(data: Mapping[str, Any], record: type[Plan] | type[Manifest]) -> dict[str, Any]:
    """The fields of a record in their own types."""
    version, entries = data["partitioning"]
    partitioning = Partitioning(version, tuple((group, tuple(numbers)) for group, numbers in entries))
    states = _states(data["states"])
    return {**data, **_tuples(data, record), "states": states, "partitioning": partitioning}


def _tuples(data: Mapping[str, Any], record: type[Plan] | type[Manifest]) -> dict[str, tuple[Any, ...]]:
    """The fields that JSON has turned from tuples into lists; an older version may not have written all of them."""
    names = (each.name for each in fields(record) if str(each.type).startswith("tuple") and each.name != "states")
    return {name: tuple(data[name]) for name in names if name in data}


def _states(data: list[Mapping[str, Any]]) -> tuple[StateRef, ...]:
    return tuple(
        StateRef(
            ref["segment"],
            ref["bytes"],
            None if ref["instances"] is None else tuple(ref["instances"]),
            tuple(ref["workers"]),
            tuple(ref.get("coming", ())),
        )
        for ref in data
    )


@lru_cache(maxsize=8)
def program(uri: str, digest: str, partitioning: Partitioning = DECLARED) -> Program:
    """The compiled program of a checkpoint's graph, kept for the process."""
    return compile_graph(Checkpoint(uri).graph(digest), partitioning)
