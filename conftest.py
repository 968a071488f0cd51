"""Runs the Python blocks of README.md and docs/ as tests: a document is a user's session, from top to bottom."""

import os
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from pathlib import Path
from typing import Any

import pytest
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

HOME = Path.cwd()
RECORDED = Path(__file__).parent.parent / "shared" / "data"
"""Recorded data beside the repository, which not every machine has; documents skip what needs it."""
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of tests' Java processes: most live for a minute, too short for code that is optimised for long."""


def begin(namespace: dict[str, Any]) -> None:
    """Enter a directory that is empty but for recorded data; the session all tests share must not start in there."""
    from shoal.runtimes.spark.cluster.session import spark_session

    spark_session(cores=2)
    namespace["__name__"] = "__main__"  # classes of a document travel to Spark's workers by value
    namespace["#directory"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["#directory"].name)
    for recorded in RECORDED.glob("*.gz"):
        Path(recorded.name).symlink_to(recorded)


def end(namespace: dict[str, Any]) -> None:
    """Leave the directory as it was never there."""
    os.chdir(HOME)
    namespace["#directory"].cleanup()


def pytest_configure(config: pytest.Config) -> None:
    """What tests compile is kept from one run to the next, apart from what users' runs compile; Java starts fast."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM)
    os.environ.setdefault("SHOAL_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "shoal"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Documents use Spark. With several processes, files on Spark come first, since they take longest."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"the id of a test must be the same in every process; got {item.nodeid}")
        if isinstance(item, SybilItem):
            item.add_marker(pytest.mark.spark)
    if hasattr(config, "workerinput"):
        on_spark = {item.path for item in items if item.get_closest_marker("spark")}
        items.sort(key=lambda item: item.path not in on_spark)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE), SkipParser()],
    patterns=["*.md"],
    setup=begin,
    teardown=end,
).pytest()
