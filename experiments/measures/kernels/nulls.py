"""What nulls cost: the same query on the local runtime over columns that cannot, could and do have nulls.

All variants read the same rows but for their nulls, filter, compute a column and aggregate by key.
"""

import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measures.outcome import checked
from shoal import Files, Job, MemorySink, Stream, col, count, mean, start, sum_, tumbling
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.session.digest import differences

NULLS = 0.1
COLUMNS = {"declared": (0.0, " not null"), "possible": (0.0, ""), "present": (NULLS, "")}


def local(nulls: str, rows: int = 8_000_000, keys: int = 1_000) -> TrialOutcome:
    """A run after one that compiles; `nulls` are declared away, possible or present in a tenth of the values."""
    if nulls not in COLUMNS:
        raise ConfigError(f"nulls must be one of {', '.join(COLUMNS)}; got {nulls!r}")
    share, suffix = COLUMNS[nulls]
    took_s, took_cpu_s, wrong = 0.0, 0.0, list[str]()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        _write(path, rows, keys, share)
        for _ in range(2):
            began, began_cpu = time.perf_counter(), time.process_time()
            sink = MemorySink()
            start(_job(path, suffix), on="local", sink=sink).wait()
            took_s, took_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
            wrong += differences({"readings": sink.table("readings")}, _expected(path))
    return checked({"rows_per_s": rows / took_s, "cpu_ns_per_row": took_cpu_s / rows * 1e9}, wrong)


def _expected(path: Path) -> dict[str, pa.Table]:
    """The results, by DuckDB."""
    with duckdb.connect() as database:
        table = database.sql(f"""
            SELECT k, make_timestamp((epoch_us(ts) // 10000000 + 1) * 10000000) AS window_end, count(*) AS rows,
                   avg(x * n) AS y, sum(n)::BIGINT AS n
            FROM read_parquet('{path}/*.parquet') WHERE x > 0.25 GROUP BY ALL
        """).to_arrow_table()
    return {"readings": table}


def _write(path: Path, rows: int, keys: int, share: float) -> None:
    """A file of readings, of which a share of each value column is null."""
    draw = np.random.default_rng(1)
    absent = (draw.random((2, rows)) < share) if share else np.zeros((2, rows), bool)
    columns = {
        "ts": pa.array(np.arange(rows) * 100).view(pa.timestamp("us")),
        "k": pa.array(draw.integers(0, keys, rows)),
        "x": pa.array(draw.random(rows), mask=absent[0]),
        "n": pa.array(draw.integers(0, 100, rows), mask=absent[1]),
    }
    pq.write_table(pa.table(columns), path / "readings.parquet", row_group_size=1_000_000)


def _job(path: Path, suffix: str) -> Job:
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
