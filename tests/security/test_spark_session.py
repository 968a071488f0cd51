"""Attacks on the Spark that Shoal starts: from the network, from the process list, from other users' processes."""

import os
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from shoal.errors import ConfigError
from shoal.runtimes.spark.cluster import session as sessions
from shoal.runtimes.spark.cluster.log import SPARK_LOG
from shoal.runtimes.spark.cluster.session import SECRET, closed

SOCKETS = "spark.python.unix.domain.socket.dir"


def test_nothing_of_spark_listens_to_other_machines_and_all_ask_for_a_secret(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true"
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in family
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    assert spark.sparkContext._gateway.gateway_parameters.auth_token  # type: ignore[union-attr]


def test_sockets_between_the_jvm_and_python_are_out_of_reach_of_others(spark: SparkSession) -> None:
    """They ask for no secret, so the directory must be closed."""
    spark.range(0, 2, 1, 1).count()
    sockets = Path(str(spark.sparkContext.getConf().get(SOCKETS)))
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert list(sockets.glob(".*.sock"))


def test_no_secret_is_among_the_arguments_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user can list them; the context gets the secret through the authenticated gateway."""
    launched: list[Any] = []
    given: list[Any] = []

    def launch(conf: Any, _: Any) -> None:
        launched.extend(conf.getAll())
        assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"

    def context(*, conf: Any, gateway: Any) -> None:
        assert gateway is None
        given.extend(conf.getAll())
        raise RuntimeError("stopped")

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(sessions, "SparkContext", context)
    monkeypatch.setattr(context, "_gateway", None, raising=False)
    monkeypatch.setattr(sessions, "launch_gateway", launch)
    monkeypatch.setattr(SPARK_LOG, "keep", str)
    monkeypatch.setattr(sessions, "SparkConf", no_defaults)
    with pytest.raises(ConfigError, match="Spark does not start"):
        sessions.spark_session({"spark.master": "local-cluster[2,1,1024]"})
    (secret,) = [value for name, value in given if name == SECRET]
    assert len(secret) == 64
    assert SECRET not in dict(launched)
    assert secret not in dict(launched).values()
    assert "SPARK_LOCAL_IP" not in os.environ


def no_defaults() -> Any:
    """A configuration that needs no JVM."""
    return SparkConf(loadDefaults=False)


def test_every_secret_is_another_and_a_cluster_keeps_the_settings_of_its_owner() -> None:
    first, second = (closed("local-cluster[2,1,1024]")[SECRET] for _ in range(2))
    assert first != second
    assert SECRET not in closed("local[2]")
    assert closed("spark://host:7077") == closed("yarn") == closed("k8s://host") == {}
