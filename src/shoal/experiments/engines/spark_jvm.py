"""The Spark of this process, as engines share it: started by the first that needs it, ended with its JVM."""

import subprocess
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "4g"}
ENDING_S = 30.0
"""How long a JVM may take to end by itself."""
_LOCK = threading.Lock()
_STARTED: list["SparkSession"] = []


def shared_spark(workers: int, settings: Mapping[str, str]) -> "SparkSession":
    """The session of this process; settings that a running one cannot change are those of the first caller."""
    from pyspark.sql import SparkSession

    from shoal.runtimes.spark.cluster.session import FULL_COMPILER, spark_session

    with _LOCK:
        active = SparkSession.getActiveSession()
        if active is None and _STARTED:
            return _STARTED[0]
        session = spark_session({**FULL_COMPILER, **SETTINGS, **settings}, workers)
        if active is None:
            _STARTED.append(session)
        return session


def end_spark() -> None:
    """End the session and its JVM, if an engine has started them; those of somebody else go on."""
    from pyspark import SparkContext

    with _LOCK:
        if not _STARTED:
            return
        _STARTED.pop().stop()
        gateway = SparkContext._gateway  # noqa: SLF001  (no public API ends the JVM)
        if gateway is None:
            return
        gateway.shutdown()
        process: subprocess.Popen[bytes] = gateway.proc
        if process.stdin is not None:
            process.stdin.close()  # Spark's JVM ends with its standard input
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
