"""Sources that Spark's Python processes cannot load: the error says which class, and not that there is no reader."""

import base64
import pickle
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from shoal.errors import SourceError
from shoal.runtimes.spark.tasks.source import ShoalSource
from shoal.runtimes.spark.tasks.wire import SCHEMA

ASKED: dict[str, Callable[[DataSourceStreamReader], object]] = {
    "a new run": lambda reader: reader.initialOffset(),
    "a restart": lambda reader: reader.latestOffset({}, ReadAllAvailable()),
    "a plan": lambda reader: reader.partitions({}, {}),
    "a task": lambda reader: reader.read(InputPartition(0)),
}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> DataSourceStreamReader:
    """The reader of a source whose class is in a module that is not there any more."""
    module = ModuleType("left_at_home")
    feed = type("Feed", (), {"__module__": "left_at_home"})
    module.Feed = feed  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "left_at_home", module)
    sent = base64.b64encode(pickle.dumps(feed())).decode()
    monkeypatch.delitem(sys.modules, "left_at_home")
    return ShoalSource({"feed": sent}).streamReader(SCHEMA)


@pytest.mark.parametrize("when", ASKED)
def test_a_source_that_cannot_be_loaded_says_why(when: str, reader: DataSourceStreamReader) -> None:
    with pytest.raises(SourceError, match=r"cannot be loaded by Spark's .* ModuleNotFoundError: .*left_at_home"):
        ASKED[when](reader)
