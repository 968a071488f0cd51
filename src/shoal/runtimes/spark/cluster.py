"""Spark sessions with the settings Shoal wants, each for a measured reason (see docs/design/spark.md)."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

TASK_ATTEMPTS = 4
SETTINGS: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.log.level": "ERROR",
}
CHANGEABLE = ("spark.sql.adaptive.enabled", "spark.sql.execution.arrow.pyspark.enabled")
"""Settings that also help a session the user has made."""


def spark_session(conf: Mapping[str, str] | None = None, cores: int | None = None) -> SparkSession:
    """The active session, or a new local one; `conf` adds to or overrides Shoal's settings."""
    active = SparkSession.getActiveSession()
    if active is not None:
        for key in CHANGEABLE:
            active.conf.set(key, SETTINGS[key])
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("shoal")
    settings = {
        "spark.master": f"local[{cores or os.cpu_count() or 1},{TASK_ATTEMPTS}]",
        **SETTINGS,
        **(conf or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
