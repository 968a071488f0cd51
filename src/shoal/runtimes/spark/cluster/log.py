"""Spark's log: output of the JVM and its Python processes goes to a file instead of the user's terminal.

Errors reach the user as exceptions of the run; the file is for details. It is removed when the process ends, unless an
error message has named it.
"""

import atexit
import os
import tempfile
from pathlib import Path
from typing import BinaryIO


class Log:
    """The log file of this process's Spark, if Shoal has started it."""

    def __init__(self) -> None:
        """No file yet."""
        self.path: Path | None = None

    def open(self) -> BinaryIO:
        """Create the file."""
        descriptor, name = tempfile.mkstemp(prefix="shoal-spark-", suffix=".log")
        self.path = Path(name)
        atexit.register(self._remove, os.getpid())
        return os.fdopen(descriptor, "wb")

    def keep(self) -> str:
        """Keep the file; returns a hint that names it, empty if there is no file."""
        if self.path is None:
            return ""
        atexit.unregister(self._remove)
        return f"; Spark's log is {self.path}"

    def tail(self) -> str:
        """The content so far."""
        return "" if self.path is None else self.path.read_text(errors="replace")

    def _remove(self, owner: int) -> None:
        if self.path is not None and os.getpid() == owner:
            self.path.unlink(missing_ok=True)


SPARK_LOG = Log()
