"""Shedding on all runtimes: the same rows are shed, counts add up, and windows that are emitted are exact."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtimes.local.row_source import RowSource
from tests.small_city import city, result_tables

from shoal.connectors.sinks import MemorySink
from shoal.errors import ConfigError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted, ShedInput
from shoal.model.control.shedding import Shedding
from shoal.model.query.aggregate import count, sum_
from shoal.model.query.graph import Query
from shoal.model.query.schema import Schema
from shoal.model.query.window import hop, sessions, tumbling
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAST = ("reference", "local", "simulated")
COLUMNS = {"ts": "timestamp", "k": "int64", "x": "float64"}
CARS = Stream("cars", COLUMNS, time="ts", lateness_s=5)
S = 1_000_000
Rows = Sequence[Mapping[str, Any]]


def rows_strategy() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows in about the order of their times, some of which are refused because event time is null."""
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(0, 4 * S) | st.none(),
            "k": st.integers(0, 3),
            "x": st.floats(-10, 10) | st.none() | st.just(float("nan")),
        }
    )
    lists = st.lists(row, max_size=60)
    return lists.map(lambda rows: [{**r, "ts": r["ts"] and r["ts"] + n * S // 4} for n, r in enumerate(rows)])


def cars(rows: Rows, at_once: int = 7) -> RowSource:
    return RowSource(rows, arrow_schema(Schema.of(COLUMNS)), at_once)


def every_row() -> Query:
    return CARS.select("ts", "k", "x").sink("seen")


def counts() -> Query:
    return CARS.key_by("k").window(tumbling(2)).aggregate(n=count(), total=sum_("x")).sink("n")


def ran(on: str, shed: Shedding | None, rows: Rows, *queries: Query, at_once: int = 7) -> Run:
    run = start(Job.of("j", queries or [every_row()], {"cars": cars(rows, at_once)}), on=on, shed=shed)
    run.wait()
    return run


def seen(run: Run) -> list[str]:
    table = result_tables(run).get("seen")
    return [] if table is None else sorted(map(str, table.to_pylist()))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows_strategy(), st.floats(0.05, 0.95), st.integers(0, 5), st.sampled_from(["random", "utility"]))
def test_rows_shed_processed_and_refused_are_the_rows_read(rows: Rows, share: float, seed: int, kind: str) -> None:
    utility = "x" if kind == "utility" else ""
    for on in FAST:
        run = ran(on, Shedding(kind, share, utility, "always", seed=seed), rows)  # type: ignore[arg-type]
        shed = sum(count.rows for count in run.tally.shed.values())
        assert shed + len(seen(run)) + run.tally.dead_letters == run.tally.events == len(rows)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows_strategy(), st.floats(0.05, 0.95), st.integers(0, 5), st.lists(st.integers(1, 30), min_size=3, max_size=3))
def test_random_sheds_the_same_rows_on_every_runtime(rows: Rows, share: float, seed: int, at_once: list[int]) -> None:
    shed = Shedding("random", share, when="always", seed=seed)
    runs = [ran(on, shed, rows, at_once=size) for on, size in zip(FAST, at_once, strict=True)]
    assert seen(runs[0]) == seen(runs[1]) == seen(runs[2])


def test_generated_events_are_shed_alike_whether_they_are_arrays_or_batches() -> None:
    shed = Shedding("random", 0.3, when="always")
    tables = []
    for on in FAST:
        run = start(city().job, on=on, shed=shed)
        run.wait()
        assert 0.25 < run.tally.shed["vehicles"].rows / run.tally.events < 0.35
        tables.append(result_tables(run))
    assert differences(tables[0], tables[1]) == differences(tables[0], tables[2]) == []


def test_another_seed_sheds_other_rows() -> None:
    rows = [{"ts": n * S, "k": 0, "x": 1.0} for n in range(50)]
    first, second = (ran("reference", Shedding("random", 0.5, when="always", seed=seed), rows) for seed in (1, 2))
    assert seen(first) != seen(second)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows_strategy(), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_window_that_is_emitted_is_exact_if_whole_windows_are_shed(rows: Rows, share: float, seed: int) -> None:
    whole = [row for row in rows if row["x"] is not None and row["x"] == row["x"]]
    expected = _plain(result_tables(ran("reference", None, whole, counts())))
    for on in FAST:
        run = ran(on, Shedding("windows", share, when="always", seed=seed), whole, counts())
        got = _plain(result_tables(run))
        missing = {start_us + 2 * S for start_us in run.shed_report().missing_times("cars")}
        assert got == {row for row in expected if _end_us(row) not in missing}


def test_windows_are_whole_although_shedding_begins_and_ends_in_the_middle_of_one() -> None:
    rows = [{"ts": n * S // 3, "k": n % 2, "x": 1.0} for n in range(300)]
    expected = _plain(result_tables(ran("reference", None, rows, counts())))
    query = Job.of("j", [counts()], {"cars": cars(rows, 10)})
    run = start(query, on="reference", shed=Shedding("windows", 0.5, above_s=1e9))

    def switch(run: Run, event: EpochCommitted) -> None:
        run.runtime.apply(ShedInput(active=event.epoch % 9 < 5))

    run.wait(switch)
    got = _plain(result_tables(run))
    missing = {start_us + 2 * S for start_us in run.shed_report().missing_times("cars")}
    assert len(run.tally.shedding["cars"].ranges) > 2
    assert missing
    assert got == {row for row in expected if _end_us(row) not in missing} != expected


def test_windows_are_whole_whenever_shedding_begins_and_ends_on_the_local_runtime() -> None:
    rows = [{"ts": n * S // 3, "k": n % 2, "x": 1.0} for n in range(3000)]
    expected = _plain(result_tables(ran("reference", None, rows, counts())))
    run = start(
        Job.of("j", [counts()], {"cars": cars(rows, 10)}), on="local", shed=Shedding("windows", 0.5, above_s=1e9)
    )
    run.runtime.apply(ShedInput(active=True))
    run.wait(lambda run, event: run.runtime.apply(ShedInput(active=event.epoch % 2 == 1)))
    missing = {start_us + 2 * S for start_us in run.shed_report().missing_times("cars")}
    assert _plain(result_tables(run)) == {row for row in expected if _end_us(row) not in missing}


def test_rows_of_the_least_utility_are_shed_and_their_utility_is_reported() -> None:
    rows = [{"ts": n * S, "k": n, "x": float(n)} for n in range(20)]
    for on in FAST:
        run = ran(on, Shedding("utility", 0.25, "x * 2", "always"), rows, at_once=20)
        assert [row["k"] for row in result_tables(run)["seen"].to_pylist()] == list(range(5, 20))
        [stream] = run.shed_report().data()["streams"]
        assert stream == {"stream": "cars", "rows": 5, "ranges": 1, "utility_kept": round(1 - 10 / 190, 6)}


def test_watermarks_do_not_depend_on_what_is_shed() -> None:
    """A row is late if it would be late without shedding, even if the rows before it are gone."""
    rows = [{"ts": 100 * S, "k": 0, "x": 1.0}, {"ts": 1 * S, "k": 0, "x": 1.0}]
    for on in FAST:
        late = []
        for seed in range(8):
            run = ran(on, Shedding("random", 0.5, when="always", seed=seed), rows, counts(), at_once=1)
            shed = sum(count.rows for count in run.tally.shed.values())
            table = result_tables(run).get("n")
            counted = 0 if table is None else sum(table["n"].to_pylist())
            late.append(run.tally.refusals["late"])
            assert shed + counted + late[-1] == 2
        assert 0 < sum(late) < 8


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows_strategy(), st.floats(0.05, 0.95), st.integers(0, 5), st.sampled_from([(4, 1), (3, 3), (2, 1)]))
def test_windows_that_overlap_are_emitted_if_they_have_all_rows(
    rows: Rows, share: float, seed: int, window: tuple[int, int]
) -> None:
    whole = [row for row in rows if row["x"] is not None and row["x"] == row["x"]]
    size, slide = window
    hops = CARS.key_by("k").window(hop(size, slide)).aggregate(n=count(), total=sum_("x")).sink("hops")
    expected = _plain(result_tables(ran("reference", None, whole, counts(), hops)))
    for on in FAST:
        run = ran(on, Shedding("windows", share, when="always", seed=seed), whole, counts(), hops)
        report = run.shed_report()
        span_us = int(report.data()["streams"][0].get("span_s", 0) * S) if run.tally.shedding else 0
        gone = [(start_us, start_us + span_us) for start_us in report.missing_times("cars")]
        assert _plain(result_tables(run)) == {row for row in expected if not _overlaps(row, size, gone)}


def test_a_stream_of_whole_windows_accepts_no_query_that_could_not_leave_any_out() -> None:
    rows = [{"ts": n * S, "k": 0, "x": 1.0} for n in range(90)]
    by_gaps = CARS.window(sessions(4)).aggregate(n=count()).sink("by_gaps")
    with pytest.raises(ConfigError, match=r"query 'by_gaps' has windows session .* use random instead"):
        ran("reference", Shedding("windows", 0.5), rows, by_gaps)

    def add(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 0:
            run.add(by_gaps)
            run.add(CARS.window(tumbling(3)).aggregate(n=count()).sink("longer"))

    job = Job.of("j", [counts()], {"cars": cars(rows, 2)})
    run = start(job, on="reference", shed=Shedding("windows", 0.2, when="always"))
    run.wait(add)
    assert ["query 'by_gaps' has windows session" in each.reason for each in run.refused] == [True]
    assert set(result_tables(run)) == {"n", "longer"}


def test_statistics_have_no_rows_to_shed() -> None:
    with pytest.raises(ConfigError, match="mode=statistical has no rows to shed"):
        start(city().job, on="simulated", conf={"mode": "statistical"}, shed=Shedding("random", 0.5))


def test_spark_sheds_the_same_rows_as_the_reference_also_after_a_restart(spark: "SparkSession", tmp_path: Path) -> None:
    shed = Shedding("random", 0.3, when="always")
    expected = start(city().job, on="reference", shed=shed)
    expected.wait()
    directory = str(tmp_path / "checkpoint")
    sink = MemorySink()
    first = start(city().job, on="spark", spark=spark, shed=shed, checkpoint=directory, sink=sink)
    first.wait(lambda run, event: run.stop())
    second = start(city().job, on="spark", spark=spark, shed=shed, checkpoint=directory, sink=sink)
    second.wait()
    rows = [run.tally.shed["vehicles"].rows for run in (first, second)]
    assert sum(rows) == expected.tally.shed["vehicles"].rows
    assert 0 < first.tally.events < second.consumed == expected.consumed
    assert differences(result_tables(second), result_tables(expected)) == []
    assert len(second.tally.shedding["vehicles"].ranges) == 1


def test_spark_cannot_shed_rows_without_positions(spark: "SparkSession") -> None:
    frame = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "value as k", "1.0D as x")
    with pytest.raises(ConfigError, match="rows of stream 'cars' cannot be shed: those of a DataFrame"):
        start(Job.of("j", [counts()], {"cars": frame}), on="spark", spark=spark, shed=Shedding("random", 0.5))


def _plain(tables: Mapping[str, pa.Table]) -> set[tuple[Any, ...]]:
    return {tuple(row.items()) for table in tables.values() for row in table.to_pylist()}


def _overlaps(row: tuple[Any, ...], hop_s: int, gone: list[tuple[int, int]]) -> bool:
    """Whether the window of a result has a part in a time that was shed."""
    end_us = _end_us(row)
    start_us = end_us - (2 if dict(row)["query"] == "n" else hop_s) * S
    return any(begin < end_us and start_us < end for begin, end in gone)


def _end_us(row: tuple[Any, ...]) -> int:
    return int(dict(row)["window_end"].timestamp() * S)
