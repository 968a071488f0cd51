"""The functions that Spark runs in its Python workers, beside the reading of sources."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from shoal.compiler.codegen.fused import prepare
from shoal.compiler.warm_up import warm_up
from shoal.connectors.sources.source import RawBatch
from shoal.model.control.partitioning import DECLARED, Partitioning
from shoal.runtimes.spark.cluster.executors import here
from shoal.runtimes.spark.state.checkpoint import Checkpoint, EpochPlan, program
from shoal.runtimes.spark.state.store import open_store
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.collector import freeze_what_stays
from shoal.runtimes.spark.tasks.intake import Intake
from shoal.runtimes.spark.tasks.reports import SliceRead, query_errors_encoded
from shoal.runtimes.spark.tasks.sample import open_sampler
from shoal.runtimes.spark.tasks.source import epoch_of_task, told_code
from shoal.runtimes.spark.tasks.stage import Stage

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def stateful(
    checkpoint: str, epoch: int, depth: int, worker_of: tuple[int, ...] | None = None, *, hot: bool = True
) -> Task:
    """One worker's part of one round of an epoch; `worker_of` gives the worker of each partition."""

    def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Checkpoint(checkpoint).plan(epoch)
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        worker = partition if worker_of is None else worker_of[partition]
        with query_errors_encoded():
            done = worked(checkpoint, plan, depth, worker, rows, told_code(), hot=hot)
        yield done
        freeze_what_stays()

    return work


def worked(
    checkpoint: str,
    plan: EpochPlan,
    depth: int,
    worker: int,
    rows: Iterable[pa.RecordBatch],
    told: str = "",
    *,
    hot: bool = True,
) -> pa.RecordBatch:
    """What one worker makes of its rows in one round, in this process; `told`: see `StoredGraph.graph`."""
    store = open_store(checkpoint, hot)
    if plan.attempt:
        store.drop_cache()
    compiled = program(checkpoint, plan.graph, plan.partitioning, told)
    stage = Stage(compiled, plan, worker, store, depth, open_sampler(checkpoint), here())
    return wire.rows(list(stage.run(rows)))


def prework(checkpoint: str, stream: str) -> Task:
    """Admission and stateless work on the user's own DataFrame."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = Checkpoint(checkpoint).plan(epoch_of_task())
        compiled = program(checkpoint, plan.graph, plan.partitioning, told_code())
        wanted = batches if stream in compiled.inputs else iter(())
        raw = (RawBatch(batch, f"DataFrame for stream {stream}") for batch in wanted)
        read = SliceRead("DataFrame", 0, ended=False)
        with query_errors_encoded():
            done = list(Intake(compiled, plan, stream).run(raw, read))
        yield wire.rows(done)
        freeze_what_stays()

    return work


def rehearsal(checkpoint: str, digest: str, partitioning: Partitioning = DECLARED, told: str = "") -> Task:
    """Load all machine code that a graph needs, before the first event; `told`: the digest of the user's code in it."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            compiled = program(checkpoint, digest, partitioning, told)
            warm_up(compiled)
            prepare(chain for feeds in compiled.fused_feeds.values() for chain in feeds.values())
        yield wire.rows([])
        freeze_what_stays()

    return work
