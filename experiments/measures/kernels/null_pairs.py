"""What it costs that columns could have nulls, where there are none: pairs of runs over the same Parquet files.

Both read the same rows; one declares its columns `not null`. Results must be equal.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from measures.pairs import in_pairs, overhead_percent
from measures.spark import on_plain_spark, on_shoal
from measures.spark.dataset import Dataset, made
from shoal import Files, Job, MemorySink, start
from shoal.errors import ConfigError
from shoal.experiments.experiment import TrialOutcome
from shoal.model.query.graph import Query
from shoal.session.digest import result_digest
from shoal.workloads.traffic import queries as traffic
from shoal.workloads.traffic.events import TrafficEvents
from shoal.workloads.ysb import queries as ysb
from shoal.workloads.ysb.events import YsbEvents

VEHICLES, REGIONS, ROWS_PER_FILE = 100_000, 100, 1_000_000
WORKERS = 2


@dataclass(frozen=True)
class Case:
    """The files of a workload, and its queries over columns that could have nulls, or could not."""

    stream: str
    data: Dataset
    declared: list[Query]
    nullable: list[Query]

    def job(self, nullable: bool) -> Job:
        """The job over all files, read once."""
        source = Files(str(self.data.path), follow=False, rows_per_epoch=self.data.rows // 2)
        return Job.of(self.stream, self.nullable if nullable else self.declared, {self.stream: source})


def possible(target: str, on: str = "local", files: int = 24, pairs: int = 20) -> TrialOutcome:
    """`target` is ysb or hop (the three hopping windows of `traffic`), `on` local or spark."""
    if on not in ("local", "spark"):
        raise ConfigError(f"on must be local or spark; got {on!r}")
    case = _case(target, files)
    digests: set[str] = set()

    def run(nullable: bool) -> Mapping[str, float]:
        cpu_s, elapsed_s, digest = (_on_local if on == "local" else _on_spark)(case.job(nullable))
        digests.add(digest)
        return {"cpu_s": cpu_s, "elapsed_s": elapsed_s}

    could, declared = in_pairs(run, pairs)
    if len(digests) != 1:
        return TrialOutcome(failure="results with and without nullable columns differ")
    metrics: dict[str, float] = {}
    for name in ("cpu_s", "elapsed_s"):
        metrics |= overhead_percent(name, [one[name] for one in could], [one[name] for one in declared])
    return TrialOutcome(metrics=metrics, answers={target: digests.pop()})


def _case(target: str, files: int) -> Case:
    if target == "ysb":
        events = YsbEvents()
        table = events.campaign_of_ad()
        data = made("ysb", events, files, ROWS_PER_FILE, groups=8)
        variants = [[ysb.query(table, events.campaigns, nullable=nullable)] for nullable in (False, True)]
        return Case(ysb.STREAM, data, *variants)
    if target == "hop":
        data = made("traffic", TrafficEvents(vehicles=VEHICLES, regions=REGIONS), files, ROWS_PER_FILE, groups=6)
        variants = [list(traffic.queries(REGIONS, nullable=nullable)) for nullable in (False, True)]
        return Case(traffic.STREAM, data, *variants)
    raise ConfigError(f"target must be ysb or hop; got {target!r}")


def _on_local(job: Job) -> tuple[float, float, str]:
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    sink = MemorySink()
    start(job, on="local", workers=WORKERS, sink=sink).wait()
    took = time.process_time() - began_cpu_s, time.perf_counter() - began_s
    return *took, result_digest({name: sink.table(name) for name in sink.names()})


def _on_spark(job: Job) -> tuple[float, float, str]:
    measured = on_shoal.follow(on_plain_spark.session(WORKERS, for_shoal=True), job, WORKERS).measured()
    return measured.cpu_s, measured.elapsed_s, result_digest(measured.tables)
