"""Spark sessions with Shoal's settings, each for a measured reason (see docs/design/spark.md)."""

import atexit
import contextlib
import logging
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from shoal.runtimes.spark.cluster.conf import check_conf
from shoal.runtimes.spark.cluster.failure import not_started
from shoal.runtimes.spark.cluster.log import SPARK_LOG

logging.getLogger("py4j").addHandler(logging.NullHandler())  # a failed callback ends the run, which reports it
TASK_ATTEMPTS = 4
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""What the environment may give every JVM."""
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
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
    JAVA_OPTIONS: "-Xss16m -XX:TieredStopAtLevel=1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.log.level": "WARN",
}
FULL_COMPILER: Mapping[str, str] = {JAVA_OPTIONS: "-Xss16m"}
"""For a session whose JVM works on rows, as plain Spark's does: Java also makes code that is slow to compile."""
_SOME_PYTHON = "python3"
"""What Spark runs if PYSPARK_PYTHON is not set."""
CHANGEABLE = (
    "spark.sql.adaptive.enabled",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
"""Settings that can change at run time; also set in the clone of a user's session that Shoal works with."""

SMALL_EPOCHS = "spark.shoal.smallEpochs.enabled"
"""Shoal's own setting: whether the driver may finish small epochs itself; true if it is not given."""
READ_AHEAD = "spark.shoal.readAhead.enabled"
"""Shoal's own setting: whether slices of the next epoch may be read ahead; true if it is not given."""
LOOPBACK = "127.0.0.1"
ADDRESS_VARIABLE = "SPARK_LOCAL_IP"
"""Where Spark's own servers listen that have no setting of their own, such as the UI."""
SECRET = "spark.authenticate.secret"


def spark_session(conf: Mapping[str, str] | None = None, cores: int | None = None) -> SparkSession:
    """The active session, or a new local one; `conf` adds to or overrides Shoal's settings.

    A new one writes its log to a file of its own (see `shoal.runtimes.spark.cluster.log`). On this machine alone, its
    servers listen on the loopback address and ask for a secret (see docs/security.md).
    """
    check_conf(conf or {})
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = (conf or {}).get("spark.master", f"local[{cores or os.cpu_count() or 1},{TASK_ATTEMPTS}]")
    own = {**SETTINGS, JAVA_OPTIONS: f"{SETTINGS[JAVA_OPTIONS]} {collector(os.environ)}".rstrip()}
    settings = {"spark.app.name": "shoal", "spark.master": master, **own, **closed(master), **(conf or {})}
    try:
        if SparkContext._gateway is None:  # noqa: SLF001  (no public API says whether a JVM is running)
            _launch(settings)
        return SparkSession.builder.config(conf=_configuration(settings)).getOrCreate()
    except Exception as error:
        raise not_started(error) from error


def collector(environment: Mapping[str, str]) -> str:
    """The option for the garbage collector; empty if the environment chooses one, since Java takes only one choice.

    >>> collector({}), collector({"JAVA_TOOL_OPTIONS": "-Xmx1g -XX:+UseSerialGC"})
    ('-XX:+UseParallelGC', '')
    """
    given = " ".join(environment.get(name, "") for name in _JAVA_VARIABLES)
    return "" if _COLLECTOR.search(given) else "-XX:+UseParallelGC"


def closed(master: str) -> dict[str, str]:
    """Settings that close a Spark on this machine to other users and machines; none for a cluster.

    >>> closed("local[4,4]")["spark.driver.bindAddress"], closed("spark://host:7077")
    ('127.0.0.1', {})
    """
    if not master.startswith("local"):
        return {}
    own = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.authenticate": "true",
        "spark.python.unix.domain.socket.dir": _socket_directory(),
    }
    # Spark makes a secret itself unless executors are processes of their own
    return own | ({SECRET: secrets.token_hex(32)} if master.startswith("local-cluster") else {})


def _launch(settings: Mapping[str, str]) -> None:
    """Start the JVM and its context. The secret is not among the arguments of the JVM, which every user can list."""
    public = {name: value for name, value in settings.items() if name != SECRET}
    local = settings["spark.master"].startswith("local")
    with SPARK_LOG.open() as log, _address() if local else contextlib.nullcontext():
        gateway = launch_gateway(_configuration(public), {"stderr": log})  # type: ignore[no-untyped-call]
        SparkContext(conf=_configuration(settings), gateway=gateway)


def _configuration(settings: Mapping[str, str]) -> SparkConf:
    return SparkConf().setAll(list(settings.items()))


@contextlib.contextmanager
def _address() -> Iterator[None]:
    """The loopback address in the environment of the JVM, unless the user has put another one there."""
    if ADDRESS_VARIABLE in os.environ:
        yield
        return
    os.environ[ADDRESS_VARIABLE] = LOOPBACK
    try:
        yield
    finally:
        del os.environ[ADDRESS_VARIABLE]


@lru_cache(maxsize=1)
def _socket_directory() -> str:
    """A private directory for the sockets between the JVM and Python: who can open one needs no secret."""
    directory = tempfile.mkdtemp(prefix="shoal-sockets-")
    atexit.register(_remove, directory, os.getpid())
    return directory


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def use_own_python(spark: SparkSession) -> None:
    """Let the Python workers of a user's local session be the interpreter of this process, unless one was chosen.

    Spark would look for `python3`, often another version, or one that lacks Shoal.
    """
    context = spark.sparkContext
    if context.pythonExec == _SOME_PYTHON and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def set_up(spark: SparkSession) -> SparkSession:
    """Apply the changeable settings to a session that only Shoal uses."""
    for name in CHANGEABLE:
        spark.conf.set(name, SETTINGS[name])
    return spark
