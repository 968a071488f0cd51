"""Spark sessions with Shoal's settings, each for a measured reason (see docs/design/spark.md)."""

import logging
import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from shoal.errors import ConfigError
from shoal.runtimes.spark.cluster.failure import not_started
from shoal.runtimes.spark.cluster.log import SPARK_LOG

logging.getLogger("py4j").addHandler(logging.NullHandler())  # a failed callback ends the run, which reports it
TASK_ATTEMPTS = 4
SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.log.level": "WARN",
}
CHANGEABLE = (
    "spark.sql.adaptive.enabled",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
"""Settings that can change at run time; also set in the clone of a user's session that Shoal works with."""


def spark_session(conf: Mapping[str, str] | None = None, cores: int | None = None) -> SparkSession:
    """The active session, or a new local one; `conf` adds to or overrides Shoal's settings.

    A new one writes its log to a file of its own (see `shoal.runtimes.spark.cluster.log`).
    """
    for key in conf or {}:
        if not key.startswith("spark."):
            raise ConfigError(f"a Spark setting begins with 'spark.'; got {key!r}")
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.app.name": "shoal",
        "spark.master": f"local[{cores or os.cpu_count() or 1},{TASK_ATTEMPTS}]",
        **SETTINGS,
        **(conf or {}),
    }
    configuration = SparkConf().setAll(list(settings.items()))
    try:
        if SparkContext._gateway is None:  # noqa: SLF001  (no public API says whether a JVM is running)
            with SPARK_LOG.open() as log:
                gateway = launch_gateway(configuration, {"stderr": log})  # type: ignore[no-untyped-call]
                SparkContext(conf=configuration, gateway=gateway)
        return SparkSession.builder.config(conf=configuration).getOrCreate()
    except Exception as error:
        raise not_started(error) from error


def set_up(spark: SparkSession) -> SparkSession:
    """Apply the changeable settings to a session that only Shoal uses."""
    for name in CHANGEABLE:
        spark.conf.set(name, SETTINGS[name])
    return spark
