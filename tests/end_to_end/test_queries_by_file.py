"""Queries added, replaced and removed by files while the job runs: nobody else notices."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.small_city import city, digest, result_tables

from shoal.cli.asking import ask_all, polled
from shoal.connectors.sinks import ParquetSink
from shoal.errors import ConfigError
from shoal.language.yaml.graph_file import load_graph, save_graph
from shoal.model.control.messages import AddQuery, EpochCommitted, RemoveQuery, ReplaceQuery
from shoal.model.query.aggregate import count, max_
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.window import tumbling, window_from_data
from shoal.runtimes.spark.state.checkpoint import Checkpoint
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.queries import vehicles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_500
PATIENCE_S = 120
"""How long to wait for what is bound to happen, before a test fails instead of hanging."""


def fastest(limit: float, name: str = "fastest") -> Query:
    part = vehicles().filter(col("speed") >= limit).key_by("region").window(tumbling(1))
    return part.aggregate(n=count(), fastest=max_("speed")).sink(name)


class Outside(threading.Thread):
    """Another process, as far as the run can tell: it knows nothing but the checkpoint."""

    def __init__(self, steps: Callable[[], None]) -> None:
        super().__init__()
        self._steps = steps
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._steps()
        except BaseException as error:  # noqa: BLE001  (raised again where the test can see it)
            self.error = error


def after(checkpoint: str, epoch: int) -> None:
    """Wait until an epoch is committed."""

    def is_committed() -> bool | None:
        return (Checkpoint(checkpoint).last_epoch() or 0) >= epoch or None

    assert polled(is_committed, time.monotonic() + PATIENCE_S), f"epoch {epoch} was not committed in {PATIENCE_S} s"


def windows(table: pa.Table) -> list[Any]:
    return sorted(set(table["window_end"].to_pylist()))


@pytest.mark.timeout(240)
@pytest.mark.slow
def test_queries_changed_by_files_leave_all_others_as_they_were(spark: "SparkSession", tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    ready = city(events=None, rows_per_epoch=ROWS)
    run = start(ready.job, spark=spark, checkpoint=checkpoint, sink=ParquetSink(str(tmp_path / "results")))
    name = "vehicle_count[2]"

    def steps() -> None:
        try:
            after(checkpoint, 1)
            ask_all(checkpoint, [AddQuery(fastest(0.0))], 60)
            after(checkpoint, (Checkpoint(checkpoint).last_epoch() or 0) + 3)
            ask_all(checkpoint, [ReplaceQuery(fastest(40.0)), RemoveQuery(name)], 60)
            with pytest.raises(ConfigError, match="refused: query 'fastest' is declared twice"):
                ask_all(checkpoint, [AddQuery(fastest(0.0))], 60)
            after(checkpoint, (Checkpoint(checkpoint).last_epoch() or 0) + 3)
            ask_all(checkpoint, [RemoveQuery("fastest")], 60)
            after(checkpoint, (Checkpoint(checkpoint).last_epoch() or 0) + 2)
        finally:
            run.drain()

    outside = Outside(steps)
    outside.start()
    run.wait()
    outside.join()
    if outside.error is not None:
        raise outside.error
    expected = ready.expected(run.consumed)
    counts = expected["vehicle_count"].filter(pc.field("region") != 2)
    got = result_tables(run)
    added = got.pop("fastest")
    got["vehicle_count"] = got["vehicle_count"].filter(pc.field("query") != name)
    assert differences(got, {**expected, "vehicle_count": counts}) == []
    assert 0 < len(windows(added)) < len(windows(expected["vehicle_count"]))
    assert list((tmp_path / "checkpoint" / "commands").glob("*.json")) == []


def test_a_query_replaced_by_one_with_the_same_state_goes_on_with_it(spark: "SparkSession", tmp_path: Path) -> None:
    """The new query only adds a filter behind the aggregate, so not a single window is lost."""
    ready = city(rows_per_epoch=ROWS)
    name = "vehicle_count[1]"
    old = ready.job.graph.queries[name]
    again = vehicles().filter(col("region") == 1).select("ts", "region")
    flow = again.key_by("region").window(_window(old)).aggregate(vehicle_count=count())
    new = flow.filter(col("vehicle_count") >= 0).sink(name, table=old.table)
    assert {o.id for o in old.operators if o.kind == "aggregate"} <= {o.id for o in new.operators}

    def replace(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 1:
            run.replace(new)

    run = start(ready.job, spark=spark, checkpoint=str(tmp_path))
    run.wait(replace)
    assert run.refused == []
    assert differences(result_tables(run), ready.expected(run.consumed)) == []


def _window(query: Query) -> Any:
    return window_from_data(next(o.parameters for o in query.operators if o.kind == "window"))


def test_a_graph_from_a_file_gives_the_same_results(spark: "SparkSession") -> None:
    ready = city()
    graph = load_graph(save_graph(ready.job.graph), "city.yaml")
    run = start(Job("again", graph, ready.job.sources), spark=spark)
    run.wait()
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    plain = start(ready.job, spark=spark)
    plain.wait()
    assert digest(run) == digest(plain)
