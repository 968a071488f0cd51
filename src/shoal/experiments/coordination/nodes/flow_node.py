"""A node: queries on an engine, the rows it receives and where it sends streams; `node_tasks.py` says what tasks do."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from shoal.errors import ConfigError, RunError
from shoal.experiments.coordination.deployed import engine_job
from shoal.experiments.coordination.nodes.dataset_rows import DatasetRows, dataset_rows
from shoal.experiments.coordination.nodes.held_streams import HeldStreams
from shoal.experiments.coordination.nodes.node_trace import EMITTED, FINISHED, RECEIVED, STOPPED, Trace
from shoal.experiments.coordination.nodes.row_digest import RowDigest
from shoal.experiments.coordination.nodes.stream_file import StreamFile
from shoal.experiments.engines.catalog import installed_engine, shut_down
from shoal.experiments.engines.contract import EngineJob, EngineSession
from shoal.experiments.experiment import ExperimentFile


class Peers(Protocol):
    """The other nodes of a flow, as one of them sees them."""

    def send(self, node: int, stream: int, rows: pa.RecordBatch) -> None:
        """Give rows to a node; blocks while it has too many, and raises `RunError` if it is gone."""

    def tell_stopped(self, node: int, sender: int, streams: tuple[int, ...]) -> None:
        """Tell a node that no more rows of streams follow those that `sender` has sent, until they go on."""

    def flush(self) -> None:
        """Return when all that was sent has been taken by the nodes it was sent to."""


@dataclass(frozen=True)
class NodeSetup:
    """What a node is made of: its number, its engine, and what the file of its experiment declares."""

    number: int
    engine: str
    file: ExperimentFile
    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    traced: bool = True


class FlowNode:
    """Runs queries, takes rows and passes them on. Tasks and rows may come from several threads."""

    def __init__(self, setup: NodeSetup, peers: Peers, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing deployed, nothing received."""
        self.setup, self.peers = setup, peers
        self.trace = Trace(on=setup.traced)
        self.closing = threading.Event()
        self.hops: dict[int, list[int]] = {}
        self.queries: list[int] = []
        self.workers = setup.workers
        self.digests: dict[int, RowDigest] = {}
        self.files: dict[int, StreamFile] = {}
        self.held = HeldStreams()
        self.received = 0
        self._changed = threading.Condition()
        self._results = threading.Lock()
        self._clock = clock
        self._heard_s = clock()
        self._session: EngineSession | None = None
        self._ended = self._cut_off = False
        self._read: frozenset[int] = frozenset()
        self._datasets: dict[int, DatasetRows] = {}
        self._numbers = {stream.name: number for number, stream in setup.file.streams.items()}

    @property
    def running(self) -> bool:
        """Whether the engine takes rows."""
        return self._session is not None and not self._ended

    def dataset(self, number: int) -> DatasetRows:
        """The rows of a dataset, read once."""
        if number not in self._datasets:
            file = self.setup.file
            self._datasets[number] = dataset_rows(file.datasets[number], self.setup.directory, file.streams)
        return self._datasets[number]

    def start(self) -> None:
        """Start the engine, if it has queries; a node without any passes rows on."""
        if self._session is not None:
            raise RunError("its engine is started already; stop it first")
        with self._changed:
            self._heard_s = self._clock()
        if not self.queries:
            return
        engine = installed_engine(self.setup.engine)
        job = self._job(engine.languages)
        session = engine.open(job, self._emitted)
        self._session, self._ended = session, False
        session.start()

    def _job(self, languages: tuple[str, ...]) -> EngineJob:
        file = self.setup.file
        job = engine_job(file, self.queries, languages)
        unread = [each.name for each in job.queries if not each.text and each.graph is None]
        if unread:
            raise ConfigError(f"query {unread[0]} has no text for engine {self.setup.engine}")
        self._read = frozenset(self._numbers[name] for name in job.streams)
        return replace(job, workers=self.workers, settings=self.setup.settings, directory=str(self.setup.directory))

    def finish(self) -> None:
        """No more rows come: every result is emitted and has reached the nodes it is sent to."""
        session = self._session
        if session is None or self._ended:
            return
        self._ended = True
        session.end()
        self.trace.mark(FINISHED)
        self.peers.flush()

    def stop(self) -> None:
        """End the engine, its results first."""
        try:
            if not self.closing.is_set():
                self.finish()
        finally:
            session, self._session = self._session, None
            if session is not None:
                session.stop()

    def close(self) -> None:
        """End everything; tasks that wait return. Results that are left are lost."""
        self.closing.set()
        with self._changed:
            self._changed.notify_all()
        self.stop()
        for file in self.files.values():
            file.close()
        shut_down(installed_engine(self.setup.engine))

    def take(self, stream: int, rows: pa.RecordBatch) -> None:
        """Receive rows from another node; one that is cut off loses them."""
        if self._cut_off:
            return
        self.trace.rows(RECEIVED, self._name(stream), rows.num_rows)
        with self._changed:
            self.received += rows.num_rows
            self._heard_s = self._clock()
            self._changed.notify_all()
        self.held.pass_or_keep(stream, rows, self._process)

    def told_stopped(self, sender: int, streams: tuple[int, ...]) -> None:
        """Another node has stopped streams, and all rows that it had sent have been taken."""
        self.trace.mark(STOPPED, sender, *map(self._name, streams))

    def _process(self, stream: int, rows: pa.RecordBatch) -> None:
        """Give rows to the engine if a query reads them, and to the next nodes."""
        session = self._session
        if session is not None and stream in self._read:
            if self._ended:
                raise RunError(f"rows of stream {self._name(stream)!r} came after its engine had ended")
            session.receive(self._name(stream), rows)
            self.pass_on(stream, rows)
        else:
            self._deliver(stream, rows)

    def _emitted(self, output: str, rows: pa.RecordBatch) -> None:
        """Results of the engine."""
        self.trace.rows(EMITTED, output, rows.num_rows)
        stream = self._numbers.get(output)
        self.held.pass_or_keep(-1 if stream is None else stream, rows, self._deliver)

    def send(self, stream: int, rows: pa.RecordBatch) -> None:
        """Send rows of a dataset to the next nodes."""
        self.held.pass_or_keep(stream, rows, self.pass_on)

    def _deliver(self, stream: int, rows: pa.RecordBatch) -> None:
        """Send rows to the next nodes; where a stream goes no further, they are results."""
        if not self.pass_on(stream, rows):
            with self._results:
                self.digests.setdefault(stream, RowDigest()).add(rows)

    def pass_on(self, stream: int, rows: pa.RecordBatch) -> bool:
        """Send rows to the next nodes, if there are any, and to a file."""
        if stream in self.files:
            with self._results:
                self.files[stream].write(rows)
        hops = () if self._cut_off else self.hops.get(stream, ())
        for node in hops:
            self.peers.send(node, stream, rows)
        return bool(hops)

    def now_s(self) -> float:
        """The time of this node's clock."""
        return self._clock()

    def disconnect(self) -> None:
        """No longer receive, nor send; the engine goes on with what it has."""
        self._cut_off = True

    def await_quiet(self, quiet_s: float) -> None:
        """Wait until nothing has been received for some time."""
        with self._changed:
            while not self.closing.is_set():
                left_s = self._heard_s + quiet_s - self._clock()
                if left_s <= 0:
                    return
                self._changed.wait(left_s)

    def await_received(self, rows: int) -> None:
        """Wait until so many rows have been received, since the node began."""
        with self._changed:
            self._changed.wait_for(lambda: self.closing.is_set() or self.received >= rows)

    def _name(self, stream: int) -> str:
        return self.setup.file.streams[stream].name
