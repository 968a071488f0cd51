"""The conformance list of engines: what each of them must do, and the same results as DuckDB."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from tests.experiments.engines.engine_case import STREAMS, TEXTS, Kept, answered, cars, engine_of, opened, query, tolls

from shoal.errors import ConfigError, RunError
from shoal.experiments.engines.catalog import ENGINES, engine_named, installed_engine, shut_down
from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.session.digest import differences

SLOW = {"shoal-spark", "spark-sql", "flink", "bytewax", "pathway"}
"""Engines that take seconds to start."""
PEERS = [
    pytest.param(name, marks=[pytest.mark.slow, pytest.mark.timeout(300)] if name in SLOW else [])
    for name in (*ENGINES, "sqlite")
    if name != "duckdb"
]
ALL = [*PEERS, "duckdb"]
Given = Sequence[tuple[str, pa.RecordBatch]]

BATCHES: Given = [
    each for second in range(6) for each in (("cars", cars(50, second * 50)), ("tolls", tolls(5, second * 5)))
]
INPUTS: dict[str, Given] = {
    "many batches": BATCHES,
    "one row": [("cars", cars(1, 1)), ("tolls", tolls(1, 1))],
    "no rows": [],
    "empty batches": [("cars", cars(0)), ("tolls", tolls(0))],
}


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if name is not None and (missing := engine_of(name).missing()):
        pytest.skip(missing)


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    for name in ENGINES:
        shut_down(engine_of(name))


def check(name: str, cases: Sequence[str], given: Given) -> None:
    """The same results as DuckDB, but for the last digits of floats."""
    names = [f"out_{case}" for case in cases]
    found, wanted = (
        answered(engine, [query(case, engine, output) for case, output in zip(cases, names, strict=True)], given)
        for engine in (name, "duckdb")
    )
    for output in names:
        got, right = found.table(output), wanted.table(output)
        if got is None or right is None:
            assert (0 if got is None else got.num_rows) == (0 if right is None else right.num_rows)
        else:
            assert (got.schema.names, got.schema.types) == (right.schema.names, right.schema.types)
            assert not differences({output: got}, {output: right})


@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("name", PEERS)
def test_results_of_a_query_are_those_of_duckdb(name: str, case: str) -> None:
    check(name, [case], BATCHES)


@pytest.mark.parametrize("given", [pytest.param(given, id=id_) for id_, given in INPUTS.items()])
@pytest.mark.parametrize("name", PEERS)
def test_results_of_all_queries_together_are_those_of_duckdb(name: str, given: Given) -> None:
    check(name, list(TEXTS), given)


@pytest.mark.parametrize("name", ALL)
def test_a_filter_has_the_results_that_a_person_computes(name: str) -> None:
    found = answered(name, [query("filter", name)], [("cars", cars(4))])
    assert [(row["road"], row["speed"]) for row in found.rows()] == [(2, 74.0), (3, 111.0)]


@pytest.mark.parametrize("name", ALL)
def test_two_queries_may_write_one_output(name: str) -> None:
    found = answered(name, [query("filter", name), query("filter", name)], [("cars", cars(4))])
    assert len(found.rows()) == 4


@pytest.mark.parametrize("name", ALL)
def test_calls_out_of_order_are_refused(name: str) -> None:
    session = opened(name, [query("filter", name)], Kept())
    with pytest.raises(RunError, match=f"receive of {name} needs a session that is started; it is opened"):
        session.receive("cars", cars(1))
    with pytest.raises(RunError, match=f"end of {name} needs a session that is started"):
        session.end()
    session.stop()
    with pytest.raises(RunError, match=f"start of {name} needs a session that is opened; it is stopped"):
        session.start()
    session.stop()


@pytest.mark.parametrize("name", ALL)
def test_stop_in_the_middle_leaves_no_thread_and_no_process(name: str) -> None:
    threads, processes = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    session = opened(name, [query("window", name, "one"), query("join", name, "other")], Kept())
    session.start()
    session.receive("cars", cars(100))
    session.stop()
    shut_down(engine_of(name))
    assert not [each for each in threading.enumerate() if each not in threads and "shoal" in each.name]
    assert not set(psutil.Process().children(recursive=True)) - processes
    with pytest.raises(RunError, match="it is stopped"):
        session.receive("cars", cars(1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT nothing FROM cars", id="no such column"),
        pytest.param("SELECT * FROM nowhere", id="no such stream"),
        pytest.param("SELEC * FRM cars", id="no SQL"),
        pytest.param("", id="no text"),
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_a_wrong_query_is_refused_with_the_name_of_the_engine(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="'wrong'") as raised:
        opened(name, [EngineQuery("wrong", "out", text)], Kept())
    assert name in str(raised.value)


@pytest.mark.parametrize("name", ALL)
def test_rows_that_are_not_those_of_a_stream_are_refused(name: str) -> None:
    session = opened(name, [query("filter", name)], Kept())
    session.start()
    try:
        with pytest.raises(RunError, match="no input stream 'boats'; there are cars, tolls"):
            session.receive("boats", cars(1))
        with pytest.raises(RunError, match="'road' is missing"):
            session.receive("cars", cars(1).select(["ts", "kind", "speed"]))
        with pytest.raises(RunError, match="must have the types that it declares"):
            session.receive("cars", cars(1).set_column(1, "road", pa.array(["north"])))
    finally:
        session.stop()


@pytest.mark.parametrize("name", [each for each in PEERS if engine_of(str(each.values[0])).live])
def test_a_live_engine_emits_results_before_the_end(name: str) -> None:
    kept = Kept()
    session = opened(name, [query("filter", name)], kept)
    session.start()
    try:
        session.receive("cars", cars(100))
        assert kept.arrived.wait(60)
    finally:
        session.stop()


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"engine must be one of shoal-local, .*; got 'shoal-locl'; did you mean"):
        installed_engine("shoal-locl")


SHOAL_PROGRAM = """
def fast(streams):
    return streams["cars"].filter(col("speed") > 50).select("road", "speed")


def number(streams):
    return 7
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("queries.py:fast", "", id="a flow"),
        pytest.param("queries.py:number", "must return a flow of a stream; got int", id="no flow"),
        pytest.param("queries.py:slow", "has no function 'slow'; there are fast, number", id="no such function"),
        pytest.param("other.py:fast", "there is no file .*other.py", id="no such file"),
    ],
)
def test_a_query_of_shoal_may_be_a_function(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "queries.py").write_text(f"from shoal.model.query.expression import col\n{SHOAL_PROGRAM}")
    kept = Kept()
    job = EngineJob(STREAMS, (EngineQuery("named", "out", text),), directory=str(tmp_path))
    if message:
        with pytest.raises(ConfigError, match=f"shoal-local cannot run query 'named': .*{message}"):
            engine_named("shoal-local").open(job, kept)
        return
    session = engine_named("shoal-local").open(job, kept)
    session.start()
    session.receive("cars", cars(4))
    session.end()
    session.stop()
    assert [(row["road"], row["speed"]) for row in kept.rows()] == [(2, 74.0), (3, 111.0)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["bytewax", "pathway"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("programs/{name}_programs.py:nothing", ".*has no function 'nothing'", id="no such function"),
        pytest.param("programs/nowhere.py:window", "there is no file .*nowhere.py", id="no such file"),
    ],
)
def test_a_program_that_is_not_there_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot run query 'wrong': {message}"):
        opened(name, [EngineQuery("wrong", "out", text.format(name=name))], Kept())
