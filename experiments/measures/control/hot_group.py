"""A hot key group: one of 64 has 40 or 70 % of the events, and may be split or not.

The query looks for a pattern per vehicle, whose key groups are bound to workers one by one. All runs take in the same
events under the policy `guarded`; with `split` it may split instances. The reference runtime has one thread. On more
cores than this machine has, simulated ones get all events from outside at a rate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.connectors.sinks import MemorySink
from shoal.connectors.sources.generator import Generator
from shoal.control.settings import ControlSettings
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.graph import Query
from shoal.model.query.pattern import prev
from shoal.session.digest import result_digest
from shoal.session.job import Job
from shoal.session.run import start

GROUPS, HOT_GROUP = 64, 7
VEHICLES_PER_GROUP = 500
PER_S = 20_000
"""Events per second of event time."""


@dataclass(frozen=True)
class HotGroupEvents:
    """Vehicles and speeds, each a function of its number; vehicles of one key group have a share of the events."""

    share: float

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Events number start .. stop - 1."""
        number = np.arange(start, stop, dtype=np.uint64)
        mixed = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(29)
        hot = (mixed % np.uint64(1000)) < np.uint64(1000 * self.share)
        group = np.where(hot, HOT_GROUP, (mixed >> np.uint64(10)) % np.uint64(GROUPS)).astype(np.int64)
        member = ((mixed >> np.uint64(20)) % np.uint64(VEHICLES_PER_GROUP)).astype(np.int64)
        speed = ((mixed >> np.uint64(40)) % np.uint64(200)).astype(np.int64)
        times = (number.astype(np.int64) * 1_000_000) // PER_S
        return pa.RecordBatch.from_arrays(
            [pa.array(times, pa.timestamp("us")), pa.array(group + GROUPS * member), pa.array(speed)],
            names=["ts", "vehicle", "speed"],
        )


def query() -> Query:
    """Vehicles that slow down three times in a row, each time from a lower speed."""
    reports = Stream("reports", {"ts": "timestamp", "vehicle": "int64", "speed": "int64"}, time="ts", max_ahead_s=None)
    slower = col("speed") < prev("speed")
    found = reports.partition_by("vehicle", groups=GROUPS).match(
        "A B B C",
        within_s=20,
        define={"B": slower, "C": slower & (col("speed") < 60)},
        measures={"first": "first(A.speed)", "last": "last(C.speed)"},
        after="next_row",
    )
    return found.sink("slowing")


def pattern(
    on: str,
    share_of_events: float,
    events: int = 3_000_000,
    split: bool = False,
    epoch_rows: int = 200_000,
    cores: int = 0,
    rate: float = 0.0,
    stands_for: int = 1,
) -> TrialOutcome:
    """A run: four slots on Spark, two threads on the local runtime, any number of simulated cores.

    A simulated event costs as much as those that it `stands_for`, so that fewer have to be processed.
    """
    workers = cores or {"spark": 4, "local": 2}.get(on, 1)
    source = Generator(HotGroupEvents(share_of_events), events, rows_per_epoch=epoch_rows, rate=rate or None)
    job = Job.of("hot-group", [query()], {"reports": source})
    given: dict[str, Any] = {} if on == "reference" else {"policy": "guarded"}
    if on == "simulated":
        given["conf"] = {"topology": f"cores:{cores}", "source": "outside", "work_factor": str(stands_for)}
    if on == "spark":
        from shoal.runtimes.spark.cluster.session import spark_session

        given["spark"] = spark_session(cores=workers)
    control = {"window_s": "0.5", "rest_s": "0.5", "split": "1.1" if split else "0"}
    run = start(job, on=on, workers=workers, control=ControlSettings.of(control), **given)
    tally = run.wait()
    if not isinstance(run.sink, MemorySink):
        raise RunError(f"results must be in memory to be compared; got {type(run.sink).__name__}")
    metrics = {
        "events_per_s": tally.events / tally.elapsed_s,
        **{f"latency_ms.{name}": value for name, value in tally.latency_ms().items()},
        "splits": run.partitioning.version,
        "instances": len(run.instances),
        "moves": tally.moves,
        "results": tally.results,
    }
    return TrialOutcome(metrics, {"slowing": result_digest({"slowing": run.sink.table("slowing")})})
