"""The shelf: a directory of this machine where processes leave for each other what they have read ahead.

A name is an epoch and a digest. Beside each file is another one that is locked while the first is being made. The
kernel releases a lock when its process dies, so nobody waits for a process that is gone:

1. A maker takes the lock if it is free, and never waits. It writes under another name and renames, then lets go.
2. A taker waits for the lock if there is one, and then looks for the file. Whoever holds the lock waits for no taker.

The driver creates the directory and removes it. Nobody else creates it, so that a process that is still at work when
the run has ended leaves nothing behind.
"""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from shoal.runtimes.spark.state.store import hot_directory, hot_tier

LOG = logging.getLogger("shoal")
PREFIX = "ahead-"
DOOMED = "removed-"
LOCK = ".lock"


@dataclass(frozen=True)
class Shelf:
    """A directory of files that were made ahead, by path."""

    path: Path

    @contextmanager
    def making(self, epoch: int, digest: str) -> Iterator[bool]:
        """Hold the lock of a file that is to be made; false if another thread has it or the directory is gone."""
        try:
            lock = os.open(self._lock(epoch, digest), os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            yield False
            return
        try:
            yield _is_free(lock)
        finally:
            os.close(lock)

    def put(self, epoch: int, digest: str, content: bytes) -> None:
        """Leave a file; nothing happens if the directory is gone."""
        target = self._file(epoch, digest)
        unfinished = target.with_name(f"{target.name}.{uuid4().hex[:12]}")
        with suppress(FileNotFoundError):
            try:
                unfinished.write_bytes(content)
                unfinished.rename(target)
            except OSError:
                unfinished.unlink(missing_ok=True)
                raise

    def taken(self, epoch: int, digest: str) -> bytes | None:
        """The content of a file, as soon as nobody is making it; None if there is none.

        It stays for another attempt of the task. What cannot be read counts as missing: it can be made again.
        """
        try:
            lock = os.open(self._lock(epoch, digest), os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._file(epoch, digest).read_bytes()
        except OSError:
            return None
        finally:
            os.close(lock)

    def forget_until(self, epoch: int) -> None:
        """Delete what was made for an epoch and those before it."""
        with suppress(FileNotFoundError):
            for file in self.path.iterdir():
                if int(file.name.partition("-")[0]) <= epoch:
                    file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the directory; under another name first, so that nobody writes to it meanwhile."""
        doomed = self.path.with_name(f"{DOOMED}{self.path.name}")
        with suppress(FileNotFoundError):
            self.path.rename(doomed)
            shutil.rmtree(doomed)

    def _file(self, epoch: int, digest: str) -> Path:
        return self.path / f"{epoch:010d}-{digest}"

    def _lock(self, epoch: int, digest: str) -> Path:
        return self._file(epoch, f"{digest}{LOCK}")


def new_shelf(checkpoint: str) -> Shelf | None:
    """An empty shelf beside the hot copies of a checkpoint's state; those of runs that were killed are removed.

    None, with a warning, if there is no shared memory for it: nothing is read ahead then.
    """
    if hot_tier(checkpoint) is None:
        return None
    parent = Path(hot_directory(checkpoint))
    try:
        for left in (*parent.glob(f"{PREFIX}*"), *parent.glob(f"{DOOMED}*")):
            shutil.rmtree(left)
        path = parent / f"{PREFIX}{uuid4().hex[:12]}"
        path.mkdir(mode=0o700, parents=True)
    except OSError as error:
        LOG.warning("nothing is read ahead: %s", error)
        return None
    return Shelf(path)


def _is_free(lock: int) -> bool:
    """Take a lock unless somebody has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
