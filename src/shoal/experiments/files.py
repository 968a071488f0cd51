"""The events of a trial as files, for peers that cannot call a generator."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from shoal.connectors.sources.generator import Generator
from shoal.errors import ConfigError
from shoal.experiments.workload_trial import WorkloadTrial
from shoal.workloads.workload import Ready

FIRST_TIME_S = 1_700_000_000


def generator(made: Ready, trial: WorkloadTrial) -> Generator:
    """The one generator of a workload."""
    sources = list(made.job.sources.values())
    if len(sources) != 1 or not isinstance(sources[0], Generator):
        raise ConfigError(f"{trial.engine} runs workloads of one stream; {trial.workload} has {len(sources)}")
    return sources[0]


def write(made: Ready, trial: WorkloadTrial, directory: Path, kind: str) -> None:
    """Write the events as Parquet or CSV, one file per epoch."""
    source = generator(made, trial)
    number, rows = source.events or 0, source.rows_per_epoch
    writers: dict[str, Callable[[pa.Table, Path], None]] = {"parquet": _write_parquet, "csv": _write_csv}
    for at, start in enumerate(range(0, number, rows)):
        table = pa.table(source.made_by.batch(start, min(number, start + rows)))
        path = directory / f"{at:06}.{kind}"
        writers[kind](table, path)
        in_order(path, at)


def in_order(path: Path, number: int) -> None:
    """Give a file a distinct time: Spark reads files by time, and those of one millisecond in any order."""
    os.utime(path, (FIRST_TIME_S + number, FIRST_TIME_S + number))


def _write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def _write_csv(table: pa.Table, path: Path) -> None:
    plain = [
        table[field.name].cast(pa.string()) if pa.types.is_dictionary(field.type) else table[field.name]
        for field in table.schema
    ]
    pc.write_csv(pa.table(plain, names=table.schema.names), path, pc.WriteOptions(include_header=False))
