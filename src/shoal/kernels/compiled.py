"""Compilation of hot loops: they release the GIL, and their machine code is cached beside the source."""

import inspect
import os
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from shoal.storage.private import fault

P = ParamSpec("P")
R = TypeVar("R")
_PROCESS = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
"""Part of the names of the cache files that this process writes."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop on first call and cache it for later processes, where nobody else can write the cache."""
    dispatcher: Any = numba.njit(nogil=True, cache=True)(function)
    if _is_trusted(Path(dispatcher._cache.cache_path), Path(inspect.getfile(function))):  # noqa: SLF001
        _name_files_by_process(dispatcher)
        _expire_with_folder(dispatcher, Path(inspect.getfile(function)).parent)
        return cast(Callable[P, R], dispatcher)
    return cast(Callable[P, R], numba.njit(nogil=True)(function))


def _is_trusted(cache: Path, source: Path) -> bool:
    """Whether machine code of a cache may be loaded, which runs it.

    Beside the source it is as trustworthy as the source itself. Elsewhere (`NUMBA_CACHE_DIR`, or the user's caches if
    the package is read-only) each directory that Numba has made must belong to this user, or to root.
    """
    if cache.parent == source.parent:
        return True
    return not any(fault(directory, or_root=True) for directory in (cache, cache.parent))


def _name_files_by_process(dispatcher: Any) -> None:
    """Put the process into the names of the cache files that it writes.

    Numba numbers the files of a loop from its index. Two processes that compile different signatures of a loop at the
    same time would use the same file name, and the index of one could then point to the machine code of the other.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001  (Numba offers no setting for it)
    base = file._data_name_pattern.removesuffix(".{number:d}.nbc")  # noqa: SLF001
    file._data_name_pattern = f"{base}.{_PROCESS}.{{number:d}}.nbc"  # noqa: SLF001


def _expire_with_folder(dispatcher: Any, folder: Path) -> None:
    """Let cached machine code expire when any module of the folder changes.

    Numba compares the function's own file only. Machine code also contains the functions that it calls, and the layouts
    of their records, so that code from before a change of another module could read and write the wrong memory.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001  (Numba offers no setting for it)
    file._source_stamp = (*file._source_stamp, *_stamps(folder))  # noqa: SLF001


@cache
def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of all modules of a folder."""
    found = ((file.name, file.stat()) for file in sorted(folder.glob("*.py")))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)
