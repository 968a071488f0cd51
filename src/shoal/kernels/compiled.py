"""Compilation of hot loops: they release the GIL, and their machine code is cached beside the source."""

import os
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")
_PROCESS = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
"""Part of the names of the cache files that this process writes."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop on first call and cache it for later processes."""
    dispatcher = numba.njit(nogil=True, cache=True)(function)
    _name_files_by_process(dispatcher)
    return cast(Callable[P, R], dispatcher)


def _name_files_by_process(dispatcher: Any) -> None:
    """Put the process into the names of the cache files that it writes.

    Numba numbers the files of a loop from its index. Two processes that compile different signatures of a loop at the
    same time would use the same file name, and the index of one could then point to the machine code of the other.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001  (Numba offers no setting for it)
    base = file._data_name_pattern.removesuffix(".{number:d}.nbc")  # noqa: SLF001
    file._data_name_pattern = f"{base}.{_PROCESS}.{{number:d}}.nbc"  # noqa: SLF001
