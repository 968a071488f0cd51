"""Bytewax for `child.py`: rows of Parquet files as dictionaries, queries as functions of streams and a clock.

A query is a function `query(streams, clock)` of a Python file. `streams[NAME]` is a stream of Bytewax: the rows of an
input stream, or of the output of an earlier query, as dictionaries whose times are in UTC. It returns such a stream:
the results. `clock(COLUMN, wait_s)` is an event clock over a column; the rows of one input stream come in order of time
and need no wait.

Bytewax moves event time on with the clock of the system, so that windows over events of the past would close at any
time. The system time of this clock stands still; the end of the input closes all windows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

STILL = datetime(2000, 1, 1, tzinfo=UTC)
BATCH_ROWS = 1000
FLOW = "queries"


def prepare(job: dict[str, Any]) -> Callable[[], list[tuple[str, Any]]]:
    """Build the dataflow of all queries, which finds most mistakes."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, cluster_main

    flow = Dataflow(FLOW)
    streams = Streams(flow, job["streams"])
    outputs: list[tuple[str, list[dict[str, Any]]]] = []
    for at, query in enumerate(job["queries"]):
        if "program" not in query:
            raise ValueError(f"query {query['name']!r}: it must be a function of a Python file, as in queries.py:bids")
        try:
            made = query["program"](streams.scope(f"query_{at}"), clock)
            rows: list[dict[str, Any]] = []
            op.output(f"output_{at}", made, TestingSink(rows))
        except Exception as error:
            raise ValueError(f"query {query['name']!r}: {type(error).__name__}: {error}") from error
        streams.made[query["output"]] = made
        outputs.append((query["output"], rows))

    def run() -> list[tuple[str, Any]]:
        cluster_main(flow, [], 0, worker_count_per_proc=job["workers"])
        return [(output, _table(rows)) for output, rows in outputs]

    return run


def clock(column: str, wait_s: float = 0.0) -> Any:
    """An event clock that only rows move on."""
    from bytewax.operators.windowing import EventClock

    return EventClock(
        ts_getter=lambda row: row[column],
        wait_for_system_duration=timedelta(seconds=wait_s),
        now_getter=lambda: STILL,
        to_system_utc=lambda _: None,
    )


class Streams:
    """Input streams, each read if a query asks for it, and the outputs of earlier queries."""

    def __init__(self, flow: Any, described: Mapping[str, Any]) -> None:
        """Nothing is read yet."""
        self.made: dict[str, Any] = {}
        self._flow, self._described = flow, described

    def scope(self, name: str) -> "QueryStreams":
        """The streams as one query sees them, whose steps have names of its own."""
        return QueryStreams(self, name)

    def named(self, name: str) -> Any:
        """A stream by its name."""
        import bytewax.operators as op

        if name not in self.made:
            if name not in self._described:
                raise KeyError(f"there is no stream {name!r}; there are {', '.join({**self._described, **self.made})}")
            self.made[name] = op.input(f"input_{name}", self._flow, _source(self._described[name]["path"]))
        return self.made[name]


class QueryStreams:
    """The streams of one query: its steps cannot have the same names as those of another."""

    def __init__(self, streams: Streams, name: str) -> None:
        """Of a query."""
        self._streams, self._name = streams, name

    def __getitem__(self, stream: str) -> Any:
        """A stream of rows, as dictionaries."""
        return _renamed(self._streams.named(stream), self._name)


def _renamed(stream: Any, scope: str) -> Any:
    """The stream in a scope, so that two queries may use the same names for their steps."""
    inner = stream._scope  # noqa: SLF001  (as Bytewax's own operators do to have steps inside)
    return replace(stream, _scope=replace(inner, parent_id=f"{FLOW}.{scope}"))


def _source(directory: str) -> Any:
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

    class Rows(StatefulSourcePartition):  # type: ignore[misc]
        """All rows of a directory of Parquet files."""

        def __init__(self) -> None:
            self._batches = _batches(Path(directory))

        def next_batch(self) -> list[dict[str, Any]]:
            return next(self._batches)

        def snapshot(self) -> None:
            return None

    class Files(FixedPartitionedSource):  # type: ignore[misc]
        """One partition: rows stay in order."""

        def list_parts(self) -> list[str]:
            return ["all"]

        def build_part(self, step_id: str, for_part: str, resume_state: None) -> Rows:  # noqa: ARG002
            return Rows()

    return Files()


def _batches(directory: Path) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(directory.glob("*.parquet")):
        file = pq.ParquetFile(path)
        aware = pa.schema(
            [
                pa.field(each.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(each.type) else each.type)
                for each in file.schema_arrow
            ]
        )
        for batch in file.iter_batches(BATCH_ROWS):
            yield batch.cast(aware).to_pylist()


def _table(rows: list[dict[str, Any]]) -> Any:
    """Rows as an Arrow table; without rows it has no columns."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows)
