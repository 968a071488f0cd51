"""Sources: at any rate, and however they end, all events read are processed."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from tests.runtimes.local.kinds import KINDS
from tests.small_city import EVENTS, REGIONS, VEHICLES, city, result_tables

from shoal.compiler.program import compile_graph
from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.rate import Rate
from shoal.connectors.sources.source import RawBatch, Slice
from shoal.errors import RunError
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.functions import udf
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import TRAFFIC
from shoal.workloads.workload import Amount, Ready

SOME_KINDS = ("state-based", "threads", "worker-queue")
SCHEMA = {"ts": "timestamp", "n": "int64"}


def started(ready: Ready, kind: str, workers: int = 2, **settings: Any) -> Run:
    return start(ready.job, on="local", workers=workers, local=LocalSettings(**KINDS[kind], **settings))


def assert_right(run: Run, ready: Ready) -> None:
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


@pytest.mark.parametrize(
    ("rate", "kind"),
    [
        *(pytest.param(200_000.0, kind, id=f"fixed, {kind}") for kind in KINDS),
        *(pytest.param("0,20000@0.01,400000@0.02", kind, id=f"in steps, {kind}") for kind in SOME_KINDS),
    ],
)
def test_all_events_of_a_source_with_a_rate_are_processed(rate: float | str, kind: str) -> None:
    settings = {"vehicles": str(VEHICLES), "regions": str(REGIONS)}
    ready = TRAFFIC.ready(0, Amount(EVENTS, Rate.of(rate), 1_000), settings)
    run = started(ready, kind, block_rows=512)
    run.wait()
    assert run.consumed == EVENTS
    assert_right(run, ready)


@pytest.mark.parametrize(
    ("rate", "kind"),
    [
        *(pytest.param(None, kind, id=f"as fast as it can, {kind}") for kind in KINDS),
        *(pytest.param(200_000.0, kind, id=f"at a rate, {kind}") for kind in SOME_KINDS),
    ],
)
def test_all_events_of_a_drained_source_are_processed(rate: float | None, kind: str) -> None:
    ready = city(events=None, rows_per_epoch=700, rate=rate)
    run = started(ready, kind, block_rows=64, chunk_blocks=1, active_chunks=1)
    run.wait(lambda run, event: run.drain() if run.consumed > 3_000 else None)
    assert run.consumed > 3_000
    assert_right(run, ready)


def test_a_run_may_be_stopped_before_anything_was_taken_in() -> None:
    ready = city(events=None, rate=1e-3)
    run = started(ready, "state-based")
    run.stop()
    run.wait()
    assert run.consumed == 0
    assert not any(table.num_rows for table in result_tables(run).values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_of_no_events_ends_at_once(kind: str) -> None:
    run = started(city(events=0), kind)
    run.wait()
    assert run.consumed == 0
    assert not any(table.num_rows for table in result_tables(run).values())


@dataclass(frozen=True)
class Counted:
    """Event n is the number n, every millisecond; plain arrays, of the right types or not."""

    type_: str = "int64"
    odd_at: int | None = None

    def columns(self, start: int, stop: int) -> Mapping[str, NDArray[Any]]:
        numbers = np.arange(start, stop)
        times = numbers * 1000
        if self.odd_at is not None:
            times[numbers == self.odd_at] = -(1 << 62)
        return {"ts": times, "n": numbers.astype(self.type_)}

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        columns = self.columns(start, stop)
        return pa.record_batch({"ts": pa.array(columns["ts"]).cast(pa.timestamp("us")), "n": pa.array(columns["n"])})


@dataclass(frozen=True)
class Boxed:
    """The same events, as Arrow batches only."""

    made_by: Counted

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        return self.made_by.batch(start, stop)


@dataclass(frozen=True)
class Named:
    """Events with a text, of which one may be null."""

    null: bool

    def columns(self, start: int, stop: int) -> Mapping[str, Any]:
        numbers = np.arange(start, stop)
        codes = pa.array(numbers % 2, pa.int8(), mask=(numbers == 100) & self.null)
        return {"ts": numbers * 1000, "who": pa.DictionaryArray.from_arrays(codes, ["a", "b"])}

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        columns = self.columns(start, stop)
        return pa.record_batch({"ts": pa.array(columns["ts"]).cast(pa.timestamp("us")), "who": columns["who"]})


@dataclass(frozen=True)
class Remembered(Generator):
    """A generated stream that records which events were made as Arrow batches."""

    boxed: tuple[list[int], ...] = ([],)

    def read(self, piece: Slice, columns: Sequence[str]) -> Iterator[RawBatch]:
        self.boxed[0].append(piece.data["start"])
        return super().read(piece, columns)


def passed_on(source: Generator, block_rows: int) -> tuple[Run, list[int]]:
    """A run that passes events through, and their numbers in that order."""
    query = Stream("s", SCHEMA, time="ts").select("n").sink("t")
    run = start(Job.of("j", [query], {"s": source}), on="local", local=LocalSettings(block_rows=block_rows))
    run.wait()
    return run, result_tables(run)["t"]["n"].to_pylist()


@pytest.mark.parametrize("block_rows", [1, 7, 100, 8192])
@pytest.mark.parametrize("made_by", [Counted(), Boxed(Counted()), Counted("int32")], ids=["plain", "boxed", "narrow"])
def test_every_event_comes_once_and_in_order_however_it_is_made(made_by: Any, block_rows: int) -> None:
    source = Remembered(made_by, events=500, rows_per_epoch=130, boxed=([],))
    run, numbers = passed_on(source, block_rows)
    assert numbers == list(range(500))
    assert run.consumed == 500
    assert bool(source.boxed[0]) == (made_by != Counted())  # only events of the right types need no checks


@pytest.mark.parametrize(("null", "boxed"), [(False, False), (True, True)], ids=["all known", "one null"])
def test_texts_are_plain_as_a_dictionary_without_nulls(*, null: bool, boxed: bool) -> None:
    source = Remembered(Named(null=null), events=500, rows_per_epoch=130, boxed=([],))
    query = (
        Stream("s", {"ts": "timestamp", "who": "string"}, time="ts").filter(col("who") == "b").select("who").sink("t")
    )
    run = start(Job.of("j", [query], {"s": source}), on="local")
    run.wait()
    assert result_tables(run)["t"]["who"].to_pylist() == ["b"] * 250
    assert bool(source.boxed[0]) == boxed


def test_plain_events_with_a_time_that_cannot_be_are_refused_one_by_one() -> None:
    run, numbers = passed_on(Generator(Counted(odd_at=123), events=500, rows_per_epoch=130), 50)
    assert numbers == [n for n in range(500) if n != 123]
    assert run.consumed == 500
    assert (run.tally.dead_letters, sum(run.tally.refusals.values())) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_in_an_operator_ends_the_run_with_that_mistake(kind: str) -> None:
    @udf("int64")
    def broken(n: Any) -> Any:
        if (np.asarray(n) == 1234).any():
            raise ValueError("the user's own mistake")
        return n

    query = Stream("s", SCHEMA, time="ts").select("ts", x=broken("n")).sink("t")
    job = Job.of("j", [query], {"s": Generator(Counted(), rows_per_epoch=100)})  # it would never end by itself
    run = start(job, on="local", workers=2, local=LocalSettings(**KINDS[kind], block_rows=16))
    with pytest.raises(RunError, match=r"function 'broken' raised ValueError: the user's own mistake; row: .*n=1234"):
        run.wait()
    emitted = result_tables(run)["t"]["x"].to_pylist() if result_tables(run) else []
    assert emitted == list(range(len(emitted)))
    assert len(emitted) <= 1234


@dataclass(frozen=True)
class Watched:
    """The same events as plain arrays, with a weak reference to each array of numbers."""

    made: list[weakref.ref[NDArray[Any]]]

    def columns(self, start: int, stop: int) -> Mapping[str, NDArray[Any]]:
        columns = Counted().columns(start, stop)
        self.made.append(weakref.ref(columns["n"]))
        return columns

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        return Counted().batch(start, stop)


def test_a_source_keeps_no_reference_to_a_block_that_it_has_given_away(tmp_path: Path) -> None:
    watched = Watched([])
    query = Stream("s", SCHEMA, time="ts").select("n").sink("t")
    source = Generator(watched, events=100, rows_per_epoch=50)
    program = compile_graph(Job.of("j", [query], {"s": source}).graph)
    node = SourceNode(program.inputs["s"], source, ["ts", "n"], str(tmp_path), block_rows=50)
    assert node.turn(50) == 50
    assert [each() for each in watched.made] == [None]
