"""Plain Spark Structured Streaming: its SQL over Parquet files, micro-batch by micro-batch, in append mode."""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.errors import ConfigError
from shoal.experiments.engines.collected import Answer
from shoal.experiments.engines.contract import EngineJob, EngineQuery
from shoal.experiments.engines.spark_jvm import end_spark, shared_spark
from shoal.experiments.engines.spool import Spool
from shoal.experiments.engines.spooled import SpooledEngine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAR = "2096-10-02 07:06:40"
FAR_US = 4_000_000_000_000_000
"""A time after all events: a row of it closes every window."""
TYPES = {"timestamp[us]": "timestamp", "int64": "long", "double": "double", "string": "string", "bool": "boolean"}


class SparkSqlEngine(SpooledEngine):
    """Spark in this process; sessions share its JVM."""

    name = "spark-sql"
    languages = ("spark-sql", "sql")
    format = "parquet"

    def missing(self) -> str:
        """Nothing: Spark comes with Shoal."""
        return ""

    def prepared(self, job: EngineJob, spool: Spool) -> "SparkQueries":
        """Run the queries over streams without rows: Spark then refuses what it cannot do."""
        from pyspark.errors import PySparkException

        spark = shared_spark(job.workers, job.settings).newSession()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.shuffle.partitions", str(job.workers))
        queries = SparkQueries(spark, job, spool)
        for stream, definition in job.streams.items():
            queries.watch(stream, definition.time)
        for at, query in enumerate(job.queries):
            try:
                queries.check(query, at)
            except PySparkException as error:
                reason = str(error).strip().splitlines()[0]
                raise ConfigError(f"spark-sql cannot run query {query.name!r}: {reason}") from error
        return queries

    def shutdown(self) -> None:
        """End Spark."""
        end_spark()


class SparkQueries:
    """Queries over the files of a spool."""

    def __init__(self, spark: "SparkSession", job: EngineJob, spool: Spool) -> None:
        """No views yet."""
        self._spark, self._job, self._spool = spark, job, spool
        self._stop = threading.Event()
        self._running: Any = None
        self._lock = threading.Lock()

    def watch(self, stream: str, time: str) -> None:
        """Make a view of a stream.

        Its last rows are far in the future, so that every window is closed before the end. They pass the watermark and
        are dropped right behind it, by a condition that Spark must not move: it is not deterministic.
        """
        schema = self._spool.schema(stream)
        fields = ", ".join(f"`{field.name}` {TYPES[str(field.type)]}" for field in schema)
        rows = self._spark.readStream.schema(fields).option("maxFilesPerTrigger", 1)
        view = rows.parquet(str(self._spool.path(stream)))
        if time:
            last = f"`{time}` < timestamp '{FAR}' AND spark_partition_id() >= 0"
            view = view.withWatermark(time, "0 seconds").where(last)
        view.createOrReplaceTempView(stream)

    def check(self, query: EngineQuery, at: int) -> None:
        """Run a query without rows; later ones may read its output."""
        result = self._spark.sql(query.text)
        result.createOrReplaceTempView(query.output)
        self._run(result, f"checked_{at}")

    def answers(self) -> Iterable[Answer]:
        """Close all windows, and run the queries one after another."""
        for stream, definition in self._job.streams.items():
            if definition.time:
                self._close_windows(stream, definition.time)
        for at, query in enumerate(self._job.queries):
            if self._stop.is_set():
                return
            yield query.output, self._run(self._spark.sql(query.text), f"result_{at}")

    def close(self) -> None:
        """Stop what runs."""
        self._stop.set()
        with self._lock:
            if self._running is not None:
                self._running.stop()

    def _run(self, result: "DataFrame", name: str) -> pa.Table:
        """The rows of a query when all files have been read."""
        writing = result.writeStream.format("memory").queryName(name).outputMode("append")
        state = str(self._spool.directory / f"state_{name}")
        with self._lock:
            self._running = writing.option("checkpointLocation", state).trigger(availableNow=True).start()
        self._running.awaitTermination()
        with self._lock:
            self._running = None
        return pa.table(self._spark.table(name).toArrow())

    def _close_windows(self, stream: str, time: str) -> None:
        schema = self._spool.schema(stream)
        columns = [
            pa.array([FAR_US], pa.int64()).cast(field.type) if field.name == time else pa.nulls(1, field.type)
            for field in schema
        ]
        self._spool.write(stream, pa.table(columns, schema=schema))


SPARK_SQL = SparkSqlEngine()
