"""What all tests share: one Spark session, since starting one takes seconds, and a key that is not the user's."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_KEY = "SHOAL_KEY_FILE"

settings.register_profile("repeatable", derandomize=True)
"""The same random cases each time, so that a change fails by itself alone; `make test-all` draws new ones."""


def pytest_configure() -> None:
    os.environ[_KEY] = str(Path(tempfile.mkdtemp(prefix="shoal-tests-")) / "key")


def pytest_unconfigure() -> None:
    shutil.rmtree(Path(os.environ.pop(_KEY)).parent, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Shoal's own session, as a user gets it."""
    from shoal.runtimes.spark.cluster.log import SPARK_LOG
    from shoal.runtimes.spark.cluster.session import spark_session

    session = spark_session(cores=2)
    yield session
    session.stop()
    if SPARK_LOG.path is not None:
        SPARK_LOG.path.unlink(missing_ok=True)
