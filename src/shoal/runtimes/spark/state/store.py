"""The state store: segments in a hot tier (shared memory of the machine) and a durable tier (the checkpoint).

Segments never change, so a cached or hot copy with the right name is valid. A damaged hot copy is ignored in favour of
the durable one; a damaged durable file is an error.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from pathlib import Path

from shoal.errors import CheckpointError, ConfigError, ShoalError
from shoal.runtimes.spark.state.segment import SegmentPart, decode, encode
from shoal.storage.directory import Directory
from shoal.storage.private import private_directory

LOG = logging.getLogger("shoal")
CACHE_BYTES = 256 << 20
SHARED_MEMORY = Path("/dev/shm")


def hot_root() -> Path:
    """Where this machine keeps the hot copies of all checkpoints of this user; the name is known to all processes."""
    root = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    return root / f"shoal-{os.getuid()}"


def hot_directory(checkpoint: str) -> str:
    """Where this machine keeps the hot copies of a checkpoint's segments."""
    return str(hot_root() / hashlib.sha256(checkpoint.encode()).hexdigest()[:16])


def hot_tier(checkpoint: str) -> Directory | None:
    """The hot tier; None, with a warning, if another user has taken its name: the durable tier is enough."""
    try:
        private_directory(hot_root(), "directory in shared memory")
    except ConfigError as error:
        LOG.warning("state is not kept in shared memory: %s", error)
        return None
    return Directory(hot_directory(checkpoint))


class StateStore:
    """Segments by name, read from the nearest tier that has them."""

    def __init__(self, checkpoint: str, *, hot: bool = True) -> None:
        """Open the store below a checkpoint directory."""
        self._durable = Directory(f"{checkpoint}/state")
        self._hot = hot_tier(checkpoint) if hot else None
        self._cache: OrderedDict[str, tuple[int, list[SegmentPart]]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()
        self._coming: dict[str, Future[list[SegmentPart]]] = {}
        self._reader = ThreadPoolExecutor(1, "shoal-ahead")

    def write(self, epoch: int, worker: int, parts: Sequence[SegmentPart]) -> tuple[str, int]:
        """Write a new segment, meant for a worker, to both tiers; returns its name and size."""
        name = f"{epoch:010d}-{worker}-{uuid.uuid4().hex[:12]}.seg"
        content = encode(parts)
        self._warm(name, content)
        self._durable.write(name, content)
        self._remember(name, len(content), list(parts))
        return name, len(content)

    def read(self, name: str) -> list[SegmentPart]:
        """The parts of a segment; waits for a read-ahead in progress."""
        coming = self._coming.get(name)
        if coming is not None:
            wait([coming])
        return self._fetched(name, into_hot=False)

    def read_ahead(self, names: Iterable[str]) -> None:
        """Begin to read segments in the background.

        A failure is ignored here: `read` tries again and raises.
        """
        for name in names:
            if not self.is_near(name):
                self._coming[name] = coming = self._reader.submit(self._fetched, name, into_hot=True)
                coming.add_done_callback(lambda _, name=name: self._coming.pop(name, None))  # type: ignore[misc]

    def is_near(self, name: str) -> bool:
        """Whether a segment is cached in this process or being read ahead."""
        return name in self._cache or name in self._coming

    def _fetched(self, name: str, *, into_hot: bool) -> list[SegmentPart]:
        with self._lock:
            if name in self._cache:
                self._cache.move_to_end(name)
                return self._cache[name][1]
        found = self._read_hot(name)
        if found is None:
            content = self._durable.require(name)
            found = decode(content, f"{self._durable.uri}/{name}", validate=True), len(content)
            if into_hot:
                self._warm(name, content)
        self._remember(name, found[1], found[0])
        return found[0]

    def _warm(self, name: str, content: bytes) -> None:
        """Write a hot copy if possible; only the durable one is required."""
        if self._hot is not None:
            with contextlib.suppress(OSError, ShoalError):
                self._hot.write(name, content)

    def _read_hot(self, name: str) -> tuple[list[SegmentPart], int] | None:
        if self._hot is None:
            return None
        try:
            content = self._hot.read(name)
            return decode(content, name), len(content)
        except (OSError, CheckpointError):
            return None

    def _remember(self, name: str, size: int, parts: list[SegmentPart]) -> None:
        with self._lock:
            self._drop(name)
            self._cache[name] = (size, parts)
            self._cached_bytes += size
            while self._cached_bytes > CACHE_BYTES and len(self._cache) > 1:
                self._drop(next(iter(self._cache)))

    def _drop(self, name: str) -> None:
        if name in self._cache:
            self._cached_bytes -= self._cache.pop(name)[0]

    def forget(self, needed: set[str], epoch: int) -> None:
        """Drop cached segments of earlier epochs that are not needed."""
        with self._lock:
            for name in [name for name in self._cache if name not in needed and int(name.split("-")[0]) < epoch]:
                self._drop(name)

    def drop_cache(self) -> None:
        """Drop all cached segments: an attempt that failed may have changed objects of user aggregates in them."""
        with self._lock:
            for name in list(self._cache):
                self._drop(name)

    def names(self) -> list[str]:
        """All segments of the durable tier."""
        return _segments(self._durable)

    def delete(self, names: Iterable[str]) -> None:
        """Remove segments from both tiers."""
        doomed = list(names)
        self._durable.delete(doomed)
        if self._hot is not None:
            self._hot.delete(doomed)

    def keep_only(self, names: Iterable[str]) -> None:
        """Delete every segment but the named ones, including orphans of failed attempts."""
        kept = set(names)
        for tier in (self._durable, self._hot):
            if tier is not None:
                tier.delete([name for name in _segments(tier) if name not in kept])
                tier.delete(tier.leftovers())

    def trim_hot(self, needed: set[str], epoch: int) -> None:
        """Delete hot copies of earlier epochs that are not needed."""
        if self._hot is not None:
            names = _segments(self._hot)
            self._hot.delete(name for name in names if name not in needed and int(name.split("-")[0]) < epoch)

    def cool(self) -> None:
        """Delete all hot copies; the durable ones stay."""
        if self._hot is not None:
            self._hot.clear()


def _segments(tier: Directory) -> list[str]:
    """The segments of a tier; other files are not ours."""
    return [name for name in tier.names() if name.endswith(".seg")]


@lru_cache(maxsize=4)
def open_store(checkpoint: str, hot: bool = True) -> StateStore:
    """The store of a checkpoint in this process, with its cache."""
    return StateStore(checkpoint, hot=hot)
