"""`experiments/nexmark.yaml`: queries on all engines have DuckDB's results, and these are those of the oracle."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.experiments.coordination.flow_trial import run_flow
from shoal.experiments.coordination.nodes.dataset_rows import dataset_rows
from shoal.experiments.engines.catalog import engine_named
from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.experiments.experiment import Parameters, TrialOutcome
from shoal.experiments.language.experiment_file import load_experiments
from shoal.experiments.requirements import lacking
from shoal.session.digest import differences
from shoal.workloads.nexmark.oracle import expected

PATH = Path(__file__).parents[2] / "experiments/nexmark.yaml"
FILE = load_experiments(PATH)
ANSWERS = FILE.experiments[0]
PEERS = ("flink", "bytewax", "pathway")
SMALL_DATASET = 2
HALF_DAY_S = 43_200


def outcome(query: int, engine: str) -> TrialOutcome:
    """One set of the small dataset."""
    point: Parameters = next(each for each in ANSWERS.points if (each["query_id"], each["engine"]) == (query, engine))
    return run_flow(FILE, ANSWERS, point)


@pytest.mark.parametrize("query", range(9))
def test_results_of_duckdb_are_those_of_the_oracle(query: int) -> None:
    declared = FILE.queries[query]
    rows = dataset_rows(FILE.datasets[SMALL_DATASET], PATH.parent, FILE.streams)
    tables = {FILE.streams[number].name: table for number, table in rows.tables.items()}
    text = declared.sql.get("duckdb") or declared.sql["sql"]
    streams = {each.name: each for each in FILE.streams.values() if each.name in tables}
    found: list[pa.RecordBatch] = []
    session = engine_named("duckdb").open(
        EngineJob(streams, (EngineQuery(declared.name, "out", text),)), lambda _, rows: found.append(rows)
    )
    session.start()
    for name, table in tables.items():
        for batch in table.to_batches():
            session.receive(name, batch)
    session.end()
    session.stop()
    window_s = HALF_DAY_S if query == 8 else 10
    right = expected(query, tables["person"], tables["auction"], tables["bid"], 60, window_s, 2)[f"q{query}"]
    if query == 6:
        right = right.drop_columns(["auction"])
    assert not differences({"out": pa.Table.from_batches(found)}, {"out": right})


def same_as_duckdb(query: int, engines: Sequence[str]) -> None:
    """Engines have DuckDB's results, or say why they cannot."""
    wanted = outcome(query, "duckdb")
    assert not wanted.failure
    assert wanted.metrics["node3.received"] > 0
    for engine in engines:
        found = outcome(query, engine)
        assert not found.failure
        assert found.unsupported or found.answers == wanted.answers


@pytest.mark.parametrize("query", range(9))
def test_shoal_has_the_results_of_duckdb(query: int) -> None:
    same_as_duckdb(query, ["shoal-local", "shoal-simulated"])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_engines_on_spark_have_the_results_of_duckdb() -> None:
    for query in range(9):
        same_as_duckdb(query, ["spark-sql", "shoal-spark"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", PEERS)
def test_a_peer_has_the_results_of_duckdb(engine: str) -> None:
    if missing := engine_named(engine).missing():
        pytest.skip(missing)
    for query in range(9):
        same_as_duckdb(query, [engine])


def test_a_query_that_an_engine_cannot_run_has_a_reason_and_no_numbers() -> None:
    found = outcome(6, "spark-sql")
    assert found.unsupported.startswith("Spark has no windows over a number of rows")
    assert (found.metrics, found.answers, found.failure) == ({}, {}, "")


def test_every_query_has_a_text_for_every_engine_or_a_reason() -> None:
    assert not [each for each in lacking(FILE) if not each.startswith("engine ")]
