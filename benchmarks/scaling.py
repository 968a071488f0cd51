"""What an epoch costs as queries, workers and events grow: one at a time, everything else fixed.

    python benchmarks/scaling.py --quick

The `traffic` workload over Parquet files: 3 queries per region; the single query is the average speed by
region and type over everything. The figure is docs/figures/scaling.png, drawn by `report.py`.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engine_shoal
import engine_spark
import figure
import record
import table
from dataset import Dataset, cache, made
from engine_spark import phase_s
from pyspark.sql import SparkSession
from spread import Spread
from spread import text as spread_text

import shoal
from shoal.experiments.machine import cores, described, sentence
from shoal.session.digest import differences
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.oracle import expected
from shoal.workloads.traffic.queries import STREAM, queries, vehicles

VEHICLES = 100_000
ROWS_PER_FILE = 200_000


@dataclass(frozen=True)
class Point:
    """One setting to measure; `varied` says which axis it belongs to."""

    varied: str
    queries: int
    workers: int
    events: int
    epochs: int

    @property
    def regions(self) -> int:
        return max(1, self.queries // 3)


def points(quick: bool, workers: int) -> Iterator[Point]:
    """The three axes, which cross at 300 queries, as many workers as cores, and 0.2 M events per epoch."""
    usual = 20_000 if quick else 200_000
    for number in (1, 30) if quick else (1, 30, 300, 3000):
        yield Point("queries", number, workers, usual, 3 if quick else 15)
    for number in (1, 2) if quick else (1, 2, 4, 8):
        yield Point("workers", 300, number, usual, 3 if quick else 15)
    for number in (10_000, 40_000) if quick else (10_000, 40_000, 100_000, 400_000, 1_000_000, 4_000_000):
        yield Point("events", 300, workers, number, 3 if quick else 15 if number < 1_000_000 else 6)


def data_of(root: Path, point: Point, warm: int) -> Dataset:
    """Files of one epoch each, or of 0.2 M rows where an epoch is larger."""
    regions = 100 if point.queries == 1 else point.regions
    per_file = min(point.events, ROWS_PER_FILE)
    files = (warm + point.epochs) * (point.events // per_file)
    events = TrafficEvents(vehicles=VEHICLES, regions=regions)
    return made(root, f"traffic-{regions}-regions", events, files, per_file, groups=4)


def run(spark: SparkSession, root: Path, point: Point, warm: int) -> dict[str, Any]:
    """Measure one point; its results are checked first."""
    data = data_of(root, point, warm)
    source = shoal.Files(str(data.path), rows_per_epoch=point.events, follow=False)
    asked = [_everything()] if point.queries == 1 else list(queries(point.regions))
    followed = engine_shoal.follow(spark, shoal.Job.of("scaling", asked, {STREAM: source}), point.workers)
    tables = expected(data.glob)
    wanted = {"avg_speed": tables["avg_speed"]} if point.queries == 1 else tables
    wrong = differences(followed.measured().tables, wanted)
    if wrong:
        raise RuntimeError(f"{point}: {'; '.join(wrong)}")
    epochs = [phase_s(report, "triggerExecution") for report in followed.reports if report["numInputRows"]]
    return {
        "varied": point.varied,
        "queries": point.queries,
        "workers": point.workers,
        "events_per_epoch": point.events,
        "epoch_ms": Spread.of(epoch * 1000 for epoch in epochs[warm:]).data(),
    }


def median_run(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The run in the middle, with the others' medians beside it."""
    ordered = sorted(runs, key=lambda result: result["epoch_ms"]["median"])
    return {**ordered[len(ordered) // 2], "runs_ms": [result["epoch_ms"]["median"] for result in runs]}


def _medians(results: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{result['epoch_ms']['median']:.0f}" for result in results)


def _everything() -> shoal.Query:
    windows = vehicles().key_by("region", "vehicle_type").window(shoal.hop(30, 1))
    return windows.aggregate(avg_speed=shoal.mean("speed")).sink("avg_speed")


def rows_of_table(results: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    header = ["varied", "queries", "workers", "events/epoch", "epoch ms", "M events/s"]
    rows = [
        [
            result["varied"],
            f"{result['queries']:,}",
            str(result["workers"]),
            f"{result['events_per_epoch']:,}",
            spread_text(result["epoch_ms"]),
            f"{result['events_per_epoch'] / result['epoch_ms']['median'] / 1000:.2f}",
        ]
        for result in results
    ]
    return header, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="few small points")
    parser.add_argument("--repeat", type=int, help="runs per point (default 3; quick: 1); the median run counts")
    parser.add_argument("--cores", type=int, default=cores(), help="cores of the Spark session (default: all)")
    parser.add_argument("--data", type=Path, default=cache(), help="where the Parquet files are kept")
    options = parser.parse_args()
    machine = described()
    print(sentence(machine), flush=True)
    spark = engine_spark.session(options.cores)
    warm = 1 if options.quick else 3
    asked = list(points(options.quick, options.cores))
    if not options.quick:
        run(spark, options.data, asked[0], warm)  # the JVM's first minute belongs to no point
    rounds = []
    for number in range(options.repeat or (1 if options.quick else 3)):
        rounds.append([run(spark, options.data, point, warm) for point in asked])
        print(f"  round {number + 1}, ms per epoch: {_medians(rounds[-1])}", flush=True)
    results = [median_run(runs) for runs in zip(*rounds, strict=True)]
    print(table.plain(*rows_of_table(results)))
    path = record.written("scaling", {"results": results}, machine, options)
    figure.scaling(results, machine, path.with_suffix(".png"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
