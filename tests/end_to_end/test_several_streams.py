"""Several streams in one job, each with its own rate, watermark and end."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.small_city import REGIONS, city_events, result_tables

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.errors import CheckpointError
from shoal.language.python.stream import Stream
from shoal.model.control.messages import EpochCommitted
from shoal.model.query.aggregate import count, max_
from shoal.model.query.window import hop
from shoal.session.digest import differences
from shoal.session.job import Job
from shoal.session.run import Run, start
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import SCHEMA, STREAM, queries

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HERE, THERE = city_events("W1", 0), city_events("W3", 7)


def far_away() -> Stream:
    """A stream with the same columns, at another time, that other queries read."""
    return Stream("boats", SCHEMA, time="ts")


def job(events_here: int = 6_000, events_there: int = 2_000) -> Job:
    boats = far_away().key_by("region").window(hop(10, 1)).aggregate(vehicle_count=count()).sink("boats")
    fastest = far_away().key_by("vehicle_type").window(hop(4, 2)).aggregate(best=max_("speed")).sink("fastest_boat")
    sources = {
        STREAM: Generator(HERE, events_here, rows_per_epoch=1_500),
        "boats": Generator(THERE, events_there, rows_per_epoch=900),
    }
    return Job.of("two", [boats, *queries(REGIONS), fastest], sources)


def expected_results(events_here: int = 6_000, events_there: int = 2_000) -> dict[str, pa.Table]:
    here, there = (pa.table(events.batch(0, n)) for events, n in ((HERE, events_here), (THERE, events_there)))
    return {**expected(here), "boats": expected(there)["vehicle_count"]}


def test_every_stream_has_the_results_it_would_have_alone(spark: "SparkSession") -> None:
    run = start(job(), spark=spark)
    tally = run.wait()
    assert tally.events == 8_000
    assert tally.dead_letters == 0
    assert differences(result_tables(run), expected_results()) == []


def test_a_stream_that_no_query_reads_any_more_still_comes_to_its_end(spark: "SparkSession") -> None:
    def forget_the_boats(run: Run, event: EpochCommitted) -> None:
        if event.epoch == 0:
            run.remove("boats")
            run.remove("fastest_boat")

    run = start(job(), spark=spark)
    run.wait(forget_the_boats)
    assert run.refused == []
    here = expected_results()
    del here["boats"]
    assert differences(result_tables(run), here) == []


@pytest.mark.slow
def test_the_order_of_the_sources_may_change_between_two_runs(spark: "SparkSession", tmp_path: "Path") -> None:
    kept: dict[str, Any] = {"checkpoint": str(tmp_path), "sink": MemorySink()}
    start(job(), spark=spark, **kept).wait(lambda run, _: run.stop())
    first = job()
    turned = Job(first.name, first.graph, dict(reversed(list(first.sources.items()))))
    run = start(turned, spark=spark, **kept)
    run.wait()
    assert differences(result_tables(run), expected_results()) == []


def test_a_checkpoint_of_other_streams_is_refused(spark: "SparkSession", tmp_path: "Path") -> None:
    start(job(), spark=spark, checkpoint=str(tmp_path)).wait(lambda run, _: run.stop())
    alone = Job.of("one", queries(REGIONS), {STREAM: Generator(HERE, 6_000)})
    with pytest.raises(CheckpointError, match="reads stream boats, vehicles; this job has sources for vehicles"):
        start(alone, spark=spark, checkpoint=str(tmp_path))
