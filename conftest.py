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


def begin(namespace: dict[str, Any]) -> None:
    """An empty directory to work in, and the session all tests share, which must not be started in there."""
    from shoal.runtimes.spark.cluster import spark_session

    spark_session(cores=2)
    namespace["__name__"] = "__main__"  # classes of a document travel to Spark's workers by value
    namespace["#directory"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["#directory"].name)


def end(namespace: dict[str, Any]) -> None:
    """Leave the directory as it was never there."""
    os.chdir(HOME)
    namespace["#directory"].cleanup()


def pytest_configure(config: pytest.Config) -> None:
    """What tests compile is kept from one run to the next, apart from what users' runs compile."""
    os.environ.setdefault("SHOAL_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "shoal"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Documents use Spark."""
    for item in items:
        if isinstance(item, SybilItem):
            item.add_marker(pytest.mark.spark)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE), SkipParser()],
    patterns=["*.md"],
    setup=begin,
    teardown=end,
).pytest()
