"""Reports on shed input: intervals that hold the truth, results that are exact, and no silent estimate."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.runtimes.local.row_source import RowSource

from shoal.errors import ConfigError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted, ShedInput
from shoal.model.control.shedding import Shedding, ShedRule, StreamShedding
from shoal.model.query.aggregate import count, count_distinct, max_, mean, stddev, sum_, variance
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.schema import Schema
from shoal.model.query.window import hop, sessions, tumbling
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.session.shedding.bounds import bounds
from shoal.session.shedding.shed_report import ShedReport
from shoal.session.summary import Tally

COLUMNS = {"ts": "timestamp", "k": "int64", "x": "float64 not null", "y": "float64"}
CARS = Stream("cars", COLUMNS, time="ts", max_ahead_s=None)
KEYED = CARS.key_by("k").window(tumbling(10))
S = 1_000_000
KEYS, ROWS = 300, 120
Rows = Sequence[Mapping[str, Any]]


def population() -> list[dict[str, Any]]:
    """Some hundred keys with some hundred skewed values each, of which every seventh `y` is null."""
    draw = np.random.default_rng(7)
    values = draw.lognormal(1, 0.5, (ROWS, KEYS))
    return [
        {"ts": row * S * 9 // ROWS, "k": k, "x": float(values[row, k]), "y": None if row % 7 == 0 else float(-k - row)}
        for row in range(ROWS)
        for k in range(KEYS)
    ]


def ran(shed: Shedding | None, rows: Rows, query: Query, at_once: int = 100_000) -> Run:
    source = RowSource(rows, arrow_schema(Schema.of(COLUMNS)), at_once)
    run = start(Job.of("j", [query], {"cars": source}), on="reference", shed=shed)
    run.wait()
    return run


def covered(table: Any, truth: Mapping[int, float], column: str) -> float:
    rows = table.to_pylist()
    held = [row[f"{column}_low"] <= truth[row["k"]] <= row[f"{column}_high"] for row in rows]
    return sum(held) / len(held)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_intervals_hold_the_truth_about_95_times_of_100(share: float) -> None:
    """Every key is a trial; three standard deviations of the number of hits are 4 % of them."""
    rows = population()
    query = KEYED.aggregate(
        n=count(), ny=count("y"), total=sum_("x"), mean=mean("x"), sd=stddev("x"), low=sum_("y"), v=variance("y")
    ).sink("q")
    truth = {row["k"]: row for row in ran(None, rows, query).sink.table("q").to_pylist()}  # type: ignore[attr-defined]
    made = ran(Shedding("random", share, when="always", seed=3), rows, query).shed_report().estimates("q")
    for column in ("n", "ny", "total", "mean", "low"):
        share_held = covered(made, {k: row[column] for k, row in truth.items()}, column)
        assert 0.90 <= share_held <= 0.99, column
        estimates = np.array(made[f"{column}_estimate"].to_pylist())
        means = np.array([truth[k][column] for k in made["k"].to_pylist()])
        assert abs(estimates.sum() / means.sum() - 1) < 0.03, column


def test_intervals_can_be_asked_for_without_another_query() -> None:
    query = KEYED.aggregate(total=sum_("x"), mean=mean("x")).select("k", "window_end", "total", m=col("mean")).sink("q")
    plain = ran(Shedding("random", 0.3, when="always"), population(), query).shed_report()
    assert {each["bound"] for each in plain.data()["queries"][0]["columns"]} == {"none"}
    report = ran(Shedding("random", 0.3, when="always", intervals=True), population(), query).shed_report()
    truth = {row["k"]: row["m"] for row in ran(None, population(), query).sink.table("q").to_pylist()}  # type: ignore[attr-defined]
    table = report.estimates("q")
    assert {"total_low", "m_low", "total_rows", "total_variance"} <= set(table.column_names)
    assert 0.90 <= covered(table, truth, "m") <= 0.99
    assert table.select(plain.tables["q"].column_names).equals(plain.tables["q"])


def test_windows_before_and_after_shedding_are_exact_and_those_across_its_edges_have_bounds() -> None:
    rows = [{"ts": n * S // 10, "k": 0, "x": 1.0, "y": 1.0} for n in range(1000)]
    query = CARS.window(hop(10, 5)).aggregate(n=count()).sink("q")
    source = RowSource(rows, arrow_schema(Schema.of(COLUMNS)), 100)
    run = start(Job.of("j", [query], {"cars": source}), on="reference", shed=Shedding("random", 0.5, above_s=1e9))

    def switch(run: Run, event: EpochCommitted) -> None:
        run.runtime.apply(ShedInput(active=2 <= event.epoch < 6))

    run.wait(switch)
    [shed] = run.tally.shedding["cars"].ranges
    assert (shed.start_us, shed.end_us) == (29_900_001, 69_900_001)
    for row in run.shed_report().estimates("q").to_pylist():
        end_s = row["window_end"].timestamp()
        if end_s <= 25 or end_s >= 80:
            assert row["n_low"] == row["n_high"] == row["n"]
        elif 40 <= end_s <= 65:
            assert row["n_low"] < row["n_estimate"] == row["n"] / 0.5 < row["n_high"]
        else:
            assert row["n_low"] == row["n"] <= 100 <= row["n_high"]
            assert row["n_estimate"] is None
    [group] = run.shed_report().data()["queries"]
    [column] = group["columns"]
    numbers = [column[f"{kind}_results"] for kind in ("exact", "interval", "bounded", "unknown")]
    assert numbers == [11, 6, 4, 0]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param(KEYED.aggregate(v=max_("x")).sink("q"), "v = max(x): the true one may be larger", id="maximum"),
        pytest.param(KEYED.aggregate(v=count_distinct("k")).sink("q"), "it is a lower bound", id="distinct"),
        pytest.param(KEYED.aggregate(v=sum_("x")).sink("q"), "needs count(x) and variance(x)", id="sum alone"),
        pytest.param(
            KEYED.aggregate(v=sum_("y"), n=count(), s=variance("y")).sink("q"), "needs count(y) in", id="nullable sum"
        ),
        pytest.param(CARS.select("ts", "x").sink("q"), "some are missing", id="rows"),
        pytest.param(
            CARS.key_by("k").window(sessions(3)).aggregate(n=count()).sink("q"), "depend on the rows", id="session"
        ),
        pytest.param(KEYED.aggregate(n=count()).filter(col("n") > 3).sink("q"), "by values of the sample", id="having"),
        pytest.param(
            CARS.key_by("k").deduplicate(5).window(tumbling(9)).aggregate(n=count()).sink("q"),
            "behind deduplicate",
            id="deduplicate",
        ),
        pytest.param(
            KEYED.aggregate(n=count()).window(tumbling(20)).aggregate(n=sum_("n")).sink("q"),
            "behind several aggregates",
            id="two aggregates",
        ),
    ],
)
def test_a_result_without_a_bound_is_named_before_the_run(
    query: Query, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    [found] = bounds(Shedding("random", 0.2), Job.of("j", [query], {"cars": None}).graph)
    assert any(reason in each for each in found.unbounded)
    with caplog.at_level(logging.WARNING, "shoal"):
        ran(Shedding("random", 0.2), [], query)
    assert any("no bound on the error of 1 queries: q" in text and reason in text for text in caplog.messages)


def test_rows_chosen_by_utility_have_no_bound() -> None:
    job = Job.of("j", [KEYED.aggregate(n=count()).sink("q")], {"cars": None})
    [found] = bounds(Shedding("utility", 0.2, "x"), job.graph)
    assert found.unbounded == ("rows are chosen by their utility, so results are biased",)


def test_a_run_without_overload_is_exact_and_says_so() -> None:
    query = KEYED.aggregate(v=max_("x")).sink("q")
    report = ran(Shedding("random", 0.5, above_s=1e9), population()[:600], query).shed_report()
    assert report.data() == {
        "shedding": "random:0.5",
        "when": "overload",
        "above_ms": 1e12,
        "rows": 0,
        "share": 0.0,
        "streams": [{"stream": "cars", "rows": 0, "ranges": 0}],
        "times": [],
        "queries": [{"queries": ["q"], "table": "q", "exact": True}],
    }


def test_a_run_that_sheds_nothing_has_no_report() -> None:
    run = ran(None, [], KEYED.aggregate(n=count()).sink("q"))
    with pytest.raises(ConfigError, match="nothing is shed in this run; start it with shed="):
        run.shed_report()


def test_a_resumed_run_reports_what_earlier_runs_have_shed_and_no_bound_if_they_did_so_in_several_ways() -> None:
    query = KEYED.aggregate(n=count()).sink("q")
    graph, rows = Job.of("j", [query], {"cars": None}).graph, ran(None, population()[:600], query)
    table = {"q": rows.sink.table("q")}  # type: ignore[attr-defined]
    random, windows = ShedRule("random", 0.5), ShedRule("windows", 0.5, span_us=10 * S)
    before = StreamShedding().asked(random, always=True).read(3 * S)
    tally = Tally(shedding={"cars": before.asked(None, always=False)})
    report = ShedReport.of(tally, graph, None, table)
    [group] = report.data()["queries"]
    assert (report.shedding.text, group["exact"], group["columns"][0]["bounded_results"]) == ("random:0.5", False, 300)
    tally.shedding = {"cars": before.asked(windows, always=True)}
    [group] = ShedReport.of(tally, graph, None, table).data()["queries"]
    assert group["reason"] == "input was shed in several ways: random, windows"
