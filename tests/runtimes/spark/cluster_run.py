"""A run of the small city on several executors, in a process of its own: `python -m tests.runtimes.spark.cluster_run`.

The argument is a JSON object; what the run did is printed as another.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.small_city import city, result_tables

from shoal.connectors.sinks import ParquetSink
from shoal.model.control.messages import EpochCommitted, RunEnded, WorkersLost
from shoal.policies.binding.static import round_robin, shuffled
from shoal.runtimes.spark.cluster.executors import Roster
from shoal.runtimes.spark.cluster.session import spark_session
from shoal.session.digest import differences
from shoal.session.run import Run, start

MASTER = "local-cluster[2,1,1024]"
CONF = {
    "spark.master": MASTER,
    "spark.executor.memory": "900m",
    "spark.log.level": "OFF",
}


def followed(run: Run, changes: dict[str, int]) -> dict[str, Any]:
    """Follow a run, changing bindings and the number of workers after the given epochs."""
    report: dict[str, Any] = {"epochs": [], "lost": []}
    for event in run.runtime.events():
        if isinstance(event, EpochCommitted):
            topology = event.snapshot.topology
            report["epochs"].append([event.epoch, event.moves, list(topology.node_of) if topology else None])
            workers = changes.get(str(event.epoch))
            if workers is not None:
                run.rebind(round_robin(run.job.graph, workers))
            elif "moves" in changes:
                run.rebind(shuffled(run.job.graph, event.snapshot.binding.workers, seed=event.epoch))
        elif isinstance(event, WorkersLost):
            report["lost"].append([len(report["epochs"]), list(event.workers), event.reason])
        elif isinstance(event, RunEnded) and event.error is not None:
            raise event.error
    return report


def main() -> None:
    asked = json.loads(sys.argv[1])
    root = Path(asked["root"])
    spark = spark_session({**CONF, **asked.get("conf", {})})
    spark.range(0, 8, 1, 8).rdd.count()
    executors = [[each.id, each.slots] for each in Roster(spark).read().alive]
    ready = city(rows_per_epoch=asked.get("rows_per_epoch", 1_000))
    kept: dict[str, Any] = {"checkpoint": str(root / "checkpoint"), "sink": ParquetSink(str(root / "results"))}
    run = start(ready.job, spark=spark, workers=asked.get("workers", 4), **kept)
    report = followed(run, asked.get("changes", {}))
    wrong = differences(result_tables(run), ready.expected(run.consumed))
    sys.stdout.write(json.dumps({**report, "executors": executors, "consumed": run.consumed, "wrong": wrong}))
    spark.stop()


if __name__ == "__main__":
    main()
