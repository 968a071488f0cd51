"""What all tests share: one Spark session, since starting one takes seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
