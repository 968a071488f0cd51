"""The reference runtime: every workload right, in one thread, whatever is changed between two epochs."""

import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.test_layers import PACKAGE
from tests.end_to_end.test_several_streams import expected_results
from tests.end_to_end.test_several_streams import job as two_streams
from tests.end_to_end.test_workloads import SMALL, assert_right
from tests.runtimes.local.row_source import RowSource
from tests.small_city import city, result_tables

from shoal.errors import ConfigError, GraphError, RunError
from shoal.kernels.columns.block import arrow_schema
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import DECLARED
from shoal.model.query.aggregate import count
from shoal.model.query.functions import udf
from shoal.model.query.schema import Schema
from shoal.model.query.window import tumbling
from shoal.policies.binding.static import shuffled
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.partitions import random_changes
from shoal.session.run import Run, start

PLAIN = {"ts": "timestamp", "k": "int64"}
CARS = Stream("cars", PLAIN, time="ts")


def cars(*rows: dict[str, Any], at_once: int = 2) -> RowSource:
    return RowSource(rows, arrow_schema(Schema.of(PLAIN)), at_once)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_workload_has_the_results_of_its_oracle(name: str) -> None:
    ready = SMALL[name].ready(seed=1)
    run = start(ready.job, on="reference")
    run.wait()
    assert_right(run, ready)


def test_streams_that_end_at_other_times_have_the_results_they_would_have_alone() -> None:
    run = start(two_streams(), on="reference")
    run.wait()
    assert differences(result_tables(run), expected_results()) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["traffic", "nexmark", "skew"])
def test_no_binding_and_no_partitioning_changes_a_result(name: str, seed: int) -> None:
    ready, draw = SMALL[name].ready(seed), random.Random(seed)

    def disturb(run: Run, event: EpochCommitted) -> None:
        run.rebind(shuffled(run.graph, draw.randint(1, 5), seed=event.epoch))
        run.runtime.apply(Repartition(tuple(random_changes(run.graph, event.snapshot.partitioning, draw))))

    run = start(ready.job, on="reference", workers=3)
    tally = run.wait(disturb)
    assert tally.moves > 0
    assert run.partitioning != DECLARED
    assert_right(run, ready)


def test_a_rebinding_is_finished_with_the_epoch_that_it_takes_effect_in() -> None:
    def move(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 1:
            run.rebind(shuffled(run.graph, 2, seed=1))
            run.rebind(shuffled(run.graph, 2, seed=2), mechanism="rhino")

    run = start(city(rows_per_epoch=1_500).job, on="reference")
    tally = run.wait(move)
    [finished] = run.finished
    assert len(finished.moves) == tally.moves > 0
    assert sum(each.state_bytes for each in finished.moves) == tally.state_bytes_moved > 0
    assert [refused.reason for refused in run.refused] == [
        "mechanism rhino does not run on runtime reference; there are all-at-once"
    ]


def test_everything_runs_in_the_thread_that_follows_the_run() -> None:
    @udf("int64")
    def thread(k: Any) -> Any:
        return k * 0 + threading.get_ident()

    query = CARS.select("ts", thread=thread("k")).sink("seen")
    run = start(Job.of("j", [query], {"cars": cars({"ts": 0, "k": 1})}), on="reference")
    run.wait()
    assert result_tables(run)["seen"]["thread"].to_pylist() == [threading.get_ident()]


def test_rows_that_are_refused_or_late_are_dead_letters_with_a_count() -> None:
    query = CARS.window(tumbling(1)).aggregate(n=count()).sink("n")
    s = 1_000_000
    source = cars({"ts": 5 * s, "k": 1}, {"ts": None, "k": 2}, {"ts": 9 * s, "k": 3}, {"ts": 0, "k": 4})
    run = start(Job.of("j", [query], {"cars": source}), on="reference")
    tally = run.wait()
    assert dict(tally.refusals) == {"null": 1, "late": 1}
    assert run.sink.table("dead_letters")["reason"].to_pylist() == ["null", "late"]  # type: ignore[attr-defined]
    assert result_tables(run)["n"]["n"].to_pylist() == [1, 1]


def test_a_run_that_fails_says_why_to_everyone_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @udf("int64")
    def broken(k: Any) -> Any:
        raise ValueError("the user's own mistake")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    query = CARS.select("ts", k=broken("k")).sink("t")
    run = start(Job.of("j", [query], {"cars": cars({"ts": 0, "k": 1})}), on="reference")
    for _ in range(2):
        with pytest.raises(RunError, match="query 't' failed: function 'broken' raised ValueError: the user's own"):
            run.wait()
    assert list(tmp_path.iterdir()) == []


def test_sources_that_only_spark_can_read_are_refused() -> None:
    with pytest.raises(GraphError, match="source of stream 'cars' cannot be read without Spark; got object"):
        start(Job.of("j", [CARS.sink("t")], {"cars": object()}), on="reference")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"checkpoint": "x"}, "the reference runtime keeps nothing for a restart", id="checkpoint"),
        pytest.param({"conf": {"a": "b"}}, "conf= is not for the reference runtime", id="conf"),
        pytest.param({"local": LocalSettings()}, "local= is not for the reference runtime", id="local"),
        pytest.param({"interval_s": 1.0}, "interval_s= is not for the reference runtime", id="interval"),
        pytest.param({"mechanism": "rhino"}, "mechanism rhino does not run on runtime reference", id="mechanism"),
        pytest.param({"policy": "node-queue"}, "workers of runtime reference share no queue", id="queues"),
    ],
)
def test_what_it_has_no_use_for_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(city().job, on="reference", **options)


def test_it_is_short() -> None:
    assert len((PACKAGE / "runtimes" / "reference.py").read_text().splitlines()) <= 200
