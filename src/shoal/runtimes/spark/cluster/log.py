"""Spark's log: what the JVM and its Python processes say goes to a file instead of the user's terminal.

Errors reach the user as exceptions of the run; the file is for looking further. It goes when the process
ends, unless a failure has pointed to it.
"""

import atexit
import os
import tempfile
from pathlib import Path
from typing import BinaryIO


class Log:
    """The file of this process's Spark, if Shoal has started it."""

    def __init__(self) -> None:
        """No file yet."""
        self.path: Path | None = None

    def open(self) -> BinaryIO:
        """Begin the file."""
        descriptor, name = tempfile.mkstemp(prefix="shoal-spark-", suffix=".log")
        self.path = Path(name)
        atexit.register(self._remove, os.getpid())
        return os.fdopen(descriptor, "wb")

    def keep(self) -> str:
        """Leave the file where it is; returns a hint that names it, or nothing where there is none."""
        if self.path is None:
            return ""
        atexit.unregister(self._remove)
        return f"; Spark's log is {self.path}"

    def tail(self) -> str:
        """What has been said so far."""
        return "" if self.path is None else self.path.read_text(errors="replace")

    def _remove(self, owner: int) -> None:
        if self.path is not None and os.getpid() == owner:
            self.path.unlink(missing_ok=True)


SPARK_LOG = Log()
