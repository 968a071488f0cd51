"""What an epoch costs as queries, workers and events grow.

The `traffic` workload over Parquet files: 3 queries per region; the single query is the average speed by region and
type over everything.
"""

from statistics import median

import shoal
from measures.outcome import checked
from measures.spark import on_plain_spark, on_shoal
from measures.spark.comparison import digests
from measures.spark.dataset import Dataset, made
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import STREAM, queries, vehicles

VEHICLES = 100_000
MOST_ROWS_PER_FILE = 200_000


def epochs(
    queries: int = 300,
    workers: int = 2,
    events_per_epoch: int = 200_000,
    epochs: int = 15,
    warm_up_epochs: int = 10,
    cores: int = 2,
) -> TrialOutcome:
    """Epochs after some that warm up, and the results of all."""
    data = _data(queries, events_per_epoch, warm_up_epochs + epochs)
    source = shoal.Files(str(data.path), rows_per_epoch=events_per_epoch, follow=False)
    job = shoal.Job.of("scaling", _asked(queries), {STREAM: source})
    followed = on_shoal.follow(on_plain_spark.session(cores, for_shoal=True), job, workers)
    tables, all_expected = followed.measured().tables, expected(data.glob)
    wanted = {"avg_speed": all_expected["avg_speed"]} if queries == 1 else all_expected
    wrong = differences(tables, wanted)
    reports = [report for report in followed.reports if report["numInputRows"]]
    took_ms = [on_plain_spark.phase_s(report, "triggerExecution") * 1000 for report in reports][warm_up_epochs:]
    metrics = {
        "epoch_ms": median(took_ms),
        "epoch_ms.min": min(took_ms),
        "epoch_ms.max": max(took_ms),
        "events_per_s": events_per_epoch / median(took_ms) * 1000,
    }
    return checked(metrics, wrong, digests(tables))


def _data(queries: int, events_per_epoch: int, epochs: int) -> Dataset:
    """Files of one epoch each, or of 0.2 M rows where an epoch is larger."""
    regions = 100 if queries == 1 else _regions(queries)
    per_file = min(events_per_epoch, MOST_ROWS_PER_FILE)
    events = TrafficEvents(vehicles=VEHICLES, regions=regions)
    files = epochs * (events_per_epoch // per_file)
    return made(f"traffic-{regions}-regions", events, files, per_file, groups=4)


def _regions(number: int) -> int:
    return max(1, number // 3)


def _asked(number: int) -> list[shoal.Query]:
    """The queries of so many regions, or one for all of them."""
    if number > 1:
        return list(queries(_regions(number)))
    windows = vehicles().key_by("region", "vehicle_type").window(shoal.hop(30, 1))
    return [windows.aggregate(avg_speed=shoal.mean("speed")).sink("avg_speed")]
