"""What an engine promises: queries in its language, rows in, results out, and no process left behind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from shoal.language.yaml.definitions import StreamDefinition
from shoal.model.query.graph import Query

Emit = Callable[[str, pa.RecordBatch], None]
"""Takes results: the name of the output stream, and rows. Called from any thread of the engine."""


@dataclass(frozen=True)
class EngineQuery:
    """A query as the engine reads it: a text in its own language, or a graph of operators for Shoal."""

    name: str
    output: str
    text: str = ""
    graph: Query | None = None


@dataclass(frozen=True)
class EngineJob:
    """What an engine is opened with: input streams by name, queries over them, and how many workers run them."""

    streams: Mapping[str, StreamDefinition]
    queries: tuple[EngineQuery, ...]
    workers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    """Where files that queries name are, for engines whose queries are programs."""


class EngineSession(Protocol):
    """Queries that run. Calls come in this order: `start`, any number of `receive`, `end`, `stop`."""

    def start(self) -> None:
        """Begin to run the queries; returns when rows can be received."""

    def receive(self, stream: str, rows: pa.RecordBatch) -> None:
        """Take rows of an input stream, columns as declared; blocks while the engine has too many."""

    def end(self) -> None:
        """No more rows will come: returns when every result, also of open windows, has been emitted."""

    def stop(self) -> None:
        """End it, wherever it is; called once more it does nothing. Afterwards no thread or process of it is left, but
        for what a `SharingEngine` keeps for its next session.
        """


class Engine(Protocol):
    """A stream processor, or a database that answers in one batch."""

    name: str
    languages: tuple[str, ...]
    """The keys under `sql-query` whose texts it can run, the best one first."""
    live: bool
    """Whether results come while rows still arrive; other engines answer at the end."""

    def missing(self) -> str:
        """What must be installed before it can run, and how; empty if nothing."""

    def open(self, job: EngineJob, emit: Emit) -> EngineSession:
        """Prepare queries; one it cannot run is a `ConfigError` that says which and why."""


@runtime_checkable
class SharingEngine(Engine, Protocol):
    """An engine whose sessions share what is slow to start and gets faster as it runs, such as a JVM."""

    def shutdown(self) -> None:
        """End what is shared; called when no session is left, perhaps more than once. Sessions may be opened again."""
