"""How runs end: commands that come too late, and asking again."""

from typing import TYPE_CHECKING

from tests.small_city import EVENTS, ROWS_PER_EPOCH, city, digest

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.session.run import Run, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_EPOCH = EVENTS // ROWS_PER_EPOCH - 1


def test_a_rebind_to_more_workers_after_the_last_input_loses_no_result(spark: "SparkSession") -> None:
    calm = start(city().job, spark=spark, workers=1)
    calm.wait()

    def more_workers(run: Run, event: EpochCommitted) -> None:
        if event.epoch == LAST_EPOCH:
            instances = run.job.graph.stateful_instances
            run.rebind(Binding.of({instance: k % 4 for k, instance in enumerate(instances)}, 4))

    late = start(city().job, spark=spark, workers=1)
    late.wait(more_workers)

    assert digest(late) == digest(calm)


def test_waiting_for_a_run_that_has_ended_returns_at_once(spark: "SparkSession") -> None:
    run = start(city().job, spark=spark)
    first = run.wait().events

    assert run.wait().events == first == EVENTS
