"""What every sink must do; a new sink is one more line in `SINKS`."""

import datetime as dt
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.connectors.sinks import ConsoleSink, MemorySink, ParquetSink, Sink

Write = tuple[str, int, pa.Table]


@dataclass(frozen=True)
class Case:
    """A sink, and all that someone who looks at it can see."""

    sink: Sink
    written: Callable[[], Any]


def stored(sink: MemorySink | ParquetSink) -> Case:
    return Case(sink, lambda: {name: sink.table(name).to_pylist() for name in sink.names()})


def printed() -> Case:
    stream = io.StringIO()
    return Case(ConsoleSink(stream=stream), stream.getvalue)


SINKS: dict[str, Callable[[Path], Case]] = {
    "memory": lambda _: stored(MemorySink()),
    "parquet": lambda directory: stored(ParquetSink(str(directory / "out"))),
    "console": lambda _: printed(),
}
STORES = ["memory", "parquet"]
NAMES = ["avg_speed", "a/b", "../up", "..", ".hidden", "_private", "top[3]", "temps passé", "a%2Fb", "a b\n", "*?{}"]


@pytest.fixture(scope="module", params=SINKS)
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Case]:
    """Makes a sink that nothing was written to."""
    return lambda: SINKS[request.param](tmp_path_factory.mktemp("sink"))


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A sink that keeps its tables."""
    return SINKS[request.param](tmp_path)


def rows(table: str, epoch: int, count: int = 3) -> Write:
    return table, epoch, pa.table({"window_end": [epoch] * count, "n": list(range(count))})


def after(case: Case, writes: Sequence[Write]) -> Any:
    for write in writes:
        case.sink.write(*write)
    return case.written()


@settings(max_examples=20, deadline=None)
@given(
    epochs=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), max_size=6, unique=True),
    data=st.data(),
)
def test_writing_an_epoch_again_is_the_same_as_writing_it_once(
    fresh: Callable[[], Case], epochs: list[tuple[str, int]], data: st.DataObject
) -> None:
    once = [rows(*epoch) for epoch in epochs]
    repeats = data.draw(st.lists(st.integers(1, 3), min_size=len(once), max_size=len(once)))
    several = [write for write, times in zip(once, repeats, strict=True) for _ in range(times)]
    assert after(fresh(), several) == after(fresh(), once)


def test_a_table_without_rows_is_taken(fresh: Callable[[], Case]) -> None:
    case = fresh()
    case.sink.write("empty", 0, pa.table({"n": pa.array([], pa.int64())}))
    assert "empty" in case.written()


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_table_is_taken_and_harms_no_other(fresh: Callable[[], Case], name: str) -> None:
    case = fresh()
    case.sink.write(*rows("other", 0))
    case.sink.write(*rows(name, 0))
    assert name in case.written()
    assert "other" in case.written()


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_table_is_found_under_its_own_name(store: Case, name: str) -> None:
    written = after(store, [rows("other", 0, 1), rows(name, 0, 2)])
    assert {table: len(found) for table, found in written.items()} == {"other": 1, name: 2}


def test_a_stored_table_is_read_epoch_by_epoch(store: Case) -> None:
    written = after(store, [rows("t", 10), rows("t", 2), rows("t", 1)])
    assert [row["window_end"] for row in written["t"]] == [1] * 3 + [2] * 3 + [10] * 3


def test_every_type_of_result_comes_back_as_it_was(store: Case) -> None:
    row = {
        "i": 1,
        "f": 0.5,
        "s": "é",
        "b": True,
        "t": dt.datetime(2024, 2, 29, 12, 0, 0, 1),  # noqa: DTZ001  (Shoal's times have no zone)
        "li": [1, 2],
        "lf": [0.5],
        "none": None,
    }
    assert after(store, [("t", 0, pa.Table.from_pylist([row]))]) == {"t": [row]}


def test_a_table_that_was_never_written_is_named_in_the_error(store: Case) -> None:
    store.sink.write(*rows("known", 0))
    assert isinstance(store.sink, MemorySink | ParquetSink)
    with pytest.raises(KeyError, match=r"no rows for table 'unknown'.* there are known"):
        store.sink.table("unknown")
