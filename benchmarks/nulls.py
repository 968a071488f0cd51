"""What nulls cost: the same query on the local runtime over columns that cannot, could and do have nulls.

    python benchmarks/nulls.py [--rows 8000000] [--keys 1000] [--repeat 3]

Every variant reads the same Parquet file but for its nulls, filters, computes a column and aggregates by key. Variants
take turns, and the answers of those without nulls are compared before anything is printed. On a machine that does other
work, compare CPU times.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal import Files, Job, Stream, col, count, mean, start, sum_, tumbling
from shoal.session.digest import result_digest

NULLS = 0.1
VARIANTS = {
    "declared not null": ("none", " not null"),
    "nullable, no nulls": ("none", ""),
    "nullable, 10 % nulls": ("some", ""),
}


def write(path: Path, rows: int, keys: int, share: float) -> None:
    """A file of readings, of which a share of each value column is null."""
    draw = np.random.default_rng(1)
    absent = (draw.random((2, rows)) < share) if share else np.zeros((2, rows), bool)
    columns = {
        "ts": pa.array(np.arange(rows) * 100).view(pa.timestamp("us")),
        "k": pa.array(draw.integers(0, keys, rows)),
        "x": pa.array(draw.random(rows), mask=absent[0]),
        "n": pa.array(draw.integers(0, 100, rows), mask=absent[1]),
    }
    path.mkdir()
    pq.write_table(pa.table(columns), path / "readings.parquet", row_group_size=1_000_000)


def job(path: Path, suffix: str) -> Job:
    """A filter, a computed column and an aggregate by key."""
    types = {"ts": "timestamp", "k": "int64", "x": "float64", "n": "int64"}
    readings = Stream("readings", {name: type_ + suffix for name, type_ in types.items()}, time="ts", max_ahead_s=None)
    query = (
        readings.filter(col("x") > 0.25)
        .with_columns(y=col("x") * col("n"))
        .key_by("k")
        .window(tumbling(10))
        .aggregate(rows=count(), y=mean("y"), n=sum_("n"))
        .sink("readings")
    )
    return Job.of("nulls", [query], {"readings": Files(str(path), follow=False, rows_per_epoch=None)})


def main() -> None:
    """Measure every variant in turns and print medians and spreads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        paths = {kind: Path(directory, kind) for kind in ("none", "some")}
        write(paths["none"], chosen.rows, chosen.keys, 0.0)
        write(paths["some"], chosen.rows, chosen.keys, NULLS)
        rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
        cpu_s: dict[str, list[float]] = {name: [] for name in VARIANTS}
        digests: dict[str, str] = {}
        for turn in range(chosen.repeat + 1):
            for name, (kind, suffix) in VARIANTS.items():
                began, began_cpu = time.perf_counter(), time.process_time()
                run = start(job(paths[kind], suffix), on="local")
                run.wait()
                took_s, took_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
                digests[name] = result_digest({"readings": run.sink.table("readings")})  # type: ignore[attr-defined]
                if turn:  # the first compiles
                    rates[name].append(chosen.rows / took_s / 1e6)
                    cpu_s[name].append(took_cpu_s)
    if digests["declared not null"] != digests["nullable, no nulls"]:
        raise SystemExit("the answers differ")
    for name, found in rates.items():
        cpu = f"CPU {statistics.median(cpu_s[name]):.2f} s ({min(cpu_s[name]):.2f}-{max(cpu_s[name]):.2f})"
        print(f"{name:<22} {statistics.median(found):6.2f} M rows/s ({min(found):.2f}-{max(found):.2f}), {cpu}")


if __name__ == "__main__":
    main()
