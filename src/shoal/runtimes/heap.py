"""The heap of a process that works for a run: freed memory is kept, so that it need not be cleared by the kernel again.

Kernels allocate arrays of about a megabyte for every block. By default the allocator of glibc returns each of them to
the operating system when it is freed, or the end of its heap; the next one then costs a page fault for every 4 KiB.
Arrow's own allocator asks for huge pages, of which single ones take the kernel 5 ms; so in a run of the local runtime
Arrow uses the same heap.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of `mallopt`, by their numbers in malloc.h."""
LARGEST_KEPT = 1 << 26
"""Arrays of at least so many bytes are still returned when they are freed."""
MOST_KEPT = 1 << 28
"""If more bytes than this are free at the end of the heap, they are returned."""
GROWTH = 1 << 24
"""The heap grows by at least so many bytes."""
_DEFAULTS = {_TRIM_THRESHOLD: 1 << 17, _TOP_PAD: 1 << 17, _MMAP_THRESHOLD: 1 << 17}
"""What glibc starts with; its mmap threshold then follows what is freed, which ends once it has been set."""
_WHILE_RUNNING = {_TRIM_THRESHOLD: MOST_KEPT, _TOP_PAD: GROWTH, _MMAP_THRESHOLD: LARGEST_KEPT}

_lock = threading.Lock()
_runs = 0
_pools: list[pa.MemoryPool] = []
"""What Arrow allocated from before each of the runs that go on."""


@contextmanager
def kept_memory() -> Iterator[bool]:
    """Keep freed memory, that of Arrow included, until the last of the runs that want it ends; then it is returned.

    Yields whether that is done: only glibc has the means, so nothing is done elsewhere.
    """
    library = _glibc()
    if library is None:
        yield False
        return
    _enter(library)
    _share_with_arrow()
    try:
        yield True
    finally:
        _unshare_with_arrow()
        _leave(library)


def keep_memory() -> None:
    """Keep freed memory until this process ends: for a process that only works for runs, one after another."""
    library = _glibc()
    if library is not None:
        _enter(library)


def _enter(library: Any) -> None:
    global _runs  # noqa: PLW0603  (the heap belongs to the process, and so does this count)
    with _lock:
        _runs += 1
        if _runs == 1:
            _set(library.mallopt, _WHILE_RUNNING)


def _leave(library: Any) -> None:
    global _runs  # noqa: PLW0603
    with _lock:
        _runs -= 1
        if _runs == 0:
            _set(library.mallopt, _DEFAULTS)
            library.malloc_trim(0)


def _share_with_arrow() -> None:
    with _lock:
        _pools.append(pa.default_memory_pool())
        pa.set_memory_pool(pa.system_memory_pool())


def _unshare_with_arrow() -> None:
    with _lock:
        if len(_pools) == 1:
            pa.set_memory_pool(_pools[0])
        _pools.pop()


def _set(mallopt: Callable[[int, int], int], values: dict[int, int]) -> None:
    for parameter, value in values.items():
        mallopt(parameter, value)


def _glibc() -> Any:
    """The C library of this process if it is glibc, else None."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (raises AttributeError elsewhere)
        library.mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
        library.malloc_trim.argtypes = [ctypes.c_size_t]
    except (OSError, TypeError, AttributeError):
        return None
    return library
