"""What an almost empty epoch costs, on Shoal and on Spark's own stateful aggregation, in one session.

    python benchmarks/fixed_cost.py --quick

The same directory of files with one row each, one file per epoch. The steps from an empty micro-batch to
Shoal's show what each part adds: a Python stage, an exchange, a second Python stage, state, queries.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import engine_shoal
import engine_spark
import phases
import pyarrow as pa
import record
import table
from dataset import Dataset, cache, made
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from spread import Spread
from spread import text as spread_text

import shoal
from shoal.experiments.machine import cores, cpu_by_kind_s, described, sentence
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.traffic.queries import STREAM, queries, vehicles

SPARK_SCHEMA = "ts timestamp, vehicle long, region long, vehicle_type string, speed double"
PARTITIONS = 2
CPU = {"CPU ms: driver": "driver", "JVM": "jvm", "Python workers": "python workers"}
SPARK_STATE, SHOAL_ONE, SHOAL_MANY = "Spark: hopping-window aggregation", "Shoal: 1 query", "Shoal: 300 queries"


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def spark_steps() -> dict[str, Callable[[DataFrame], DataFrame]]:
    """Plain Spark, each step with a little more to do."""
    window = f.window("ts", "30 seconds", "1 second")
    return {
        "Spark: read, nothing else": lambda rows: rows,
        "Spark: + Python stage": lambda rows: rows.mapInArrow(same, SPARK_SCHEMA),
        "Spark: + Python stage, exchange": lambda rows: rows.mapInArrow(same, SPARK_SCHEMA).repartition(
            PARTITIONS, "region"
        ),
        "Spark: + Python stage, exchange, Python stage": lambda rows: (
            rows.mapInArrow(same, SPARK_SCHEMA).repartition(PARTITIONS, "region").mapInArrow(same, SPARK_SCHEMA)
        ),
        SPARK_STATE: lambda rows: (
            rows.withWatermark("ts", "0 seconds").groupBy("region", window).agg(f.avg("speed").alias("avg_speed"))
        ),
    }


def on_spark(spark: SparkSession, data: Dataset, warm: int, step: Callable[[DataFrame], DataFrame]) -> dict[str, Any]:
    rows = engine_spark.files(spark, data.path, SPARK_SCHEMA, 1)
    measured = engine_spark.run(spark, {"fixed_cost": step(rows)}, sink="noop")
    if measured.rows != data.rows:
        raise RuntimeError(f"Spark took in {measured.rows} rows; expected {data.rows}")
    # AvailableNow may append a micro-batch without data.
    kept = measured.reports[warm : data.files]
    return {"phases_ms": phases.medians_ms(phases.of_spark(report) for report in kept)}


def on_shoal(spark: SparkSession, data: Dataset, warm: int, single: bool) -> dict[str, Any]:
    source = shoal.Files(str(data.path), files_per_epoch=1, follow=False)
    asked = [_single_query()] if single else list(queries(100))
    followed = engine_shoal.follow(spark, shoal.Job.of("fixed_cost", asked, {STREAM: source}), PARTITIONS)
    if followed.run.tally.events != data.rows:
        raise RuntimeError(f"Shoal took in {followed.run.tally.events} rows; expected {data.rows}")
    epochs = phases.of_shoal(followed, phases.stages(spark))[warm:]
    latencies = [epoch.latency_s * 1000 for epoch in followed.epochs[warm : data.files]]
    return {"phases_ms": phases.medians_ms(epochs), "latency_ms": Spread.of(latencies).data()}


def _single_query() -> shoal.Query:
    windows = vehicles().key_by("region").window(shoal.hop(30, 1))
    return windows.aggregate(avg_speed=shoal.mean("speed")).sink("avg_speed")


def measured(spark: SparkSession, data: Dataset, warm: int, repeat: int) -> list[dict[str, Any]]:
    """Every engine in turn, the whole round several times; the last round counts, the others warm up."""
    engines: dict[str, Callable[[], dict[str, Any]]] = {
        name: lambda step=step: on_spark(spark, data, warm, step) for name, step in spark_steps().items()
    }
    engines[SHOAL_ONE] = lambda: on_shoal(spark, data, warm, True)
    engines[SHOAL_MANY] = lambda: on_shoal(spark, data, warm, False)
    rounds = []
    for number in range(repeat):
        rounds.append({name: _with_cpu(run, data.files) for name, run in engines.items()})
        for name, result in rounds[-1].items():
            print(f"  round {number + 1}, {name}: {spread_text(_whole(result))} ms", flush=True)
    return [
        {
            "engine": name,
            "epochs": data.files - warm,
            **rounds[-1][name],
            "rounds_ms": [_whole(r[name]) for r in rounds],
        }
        for name in engines
    ]


def _with_cpu(run: Callable[[], dict[str, Any]], epochs: int) -> dict[str, Any]:
    """A run with its CPU time per epoch, which includes what starting and ending the run takes."""
    before = cpu_by_kind_s()
    result = run()
    after = cpu_by_kind_s()
    return {**result, "cpu_ms": {kind: round((after[kind] - before[kind]) * 1000 / epochs, 1) for kind in after}}


def _whole(result: dict[str, Any]) -> dict[str, Any]:
    return result["phases_ms"]["whole micro-batch"]


def summary_rows(results: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    by_name = {result["engine"]: _whole(result)["median"] for result in results}
    header = ["epoch of one row", "ms, median (min-max)", "x Spark's stateful", "rounds, ms", *CPU]
    rows = [
        [
            result["engine"],
            spread_text(_whole(result)),
            f"{by_name[result['engine']] / by_name[SPARK_STATE]:.2f}",
            ", ".join(f"{spread['median']:.0f}" for spread in result["rounds_ms"]),
            *(f"{result['cpu_ms'][kind]:.0f}" for kind in CPU.values()),
        ]
        for result in results
    ]
    return header, rows


def breakdown_rows(results: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Phase by phase: Spark's stateful aggregation beside Shoal."""
    chosen = [result for result in results if result["engine"] in (SPARK_STATE, SHOAL_ONE, SHOAL_MANY)]
    names = list(dict.fromkeys(name for result in reversed(chosen) for name in result["phases_ms"]))
    names.sort(key=lambda name: name == "whole micro-batch")
    header = ["phase, median ms", *(result["engine"] for result in chosen)]
    return header, [[name, *(_cell(result["phases_ms"].get(name)) for result in chosen)] for name in names]


def _cell(spread: dict[str, Any] | None) -> str:
    return "" if spread is None else f"{spread['median']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="few epochs, one round")
    parser.add_argument("--epochs", type=int, help="measured epochs per engine (default 60; quick: 8)")
    parser.add_argument("--repeat", type=int, help="rounds (default 3; quick: 1); the last one counts")
    parser.add_argument("--cores", type=int, default=cores(), help="for every engine (default: all)")
    parser.add_argument("--data", type=Path, default=cache(), help="where the Parquet files are kept")
    options = parser.parse_args()
    machine = described()
    print(sentence(machine), flush=True)
    warm = 3 if options.quick else 20
    files = warm + (options.epochs or (8 if options.quick else 60))
    data = made(options.data, "ticks", TrafficEvents(vehicles=1, regions=1), files, rows_per_file=1, groups=1)
    spark = engine_spark.session(options.cores)
    spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS)
    results = measured(spark, data, warm, options.repeat or (1 if options.quick else 3))
    print(table.plain(*summary_rows(results)))
    print(table.plain(*breakdown_rows(results)))
    print(f"written to {record.written('fixed_cost', {'results': results}, machine, options)}")


if __name__ == "__main__":
    main()
