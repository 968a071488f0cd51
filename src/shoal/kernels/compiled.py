"""Compilation of hot loops: they release the GIL, and their machine code is cached beside the source."""

import os
import uuid
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")
_PROCESS = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
"""What this process puts into the names of cache files that it writes."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop on first call and keep it for the next process."""
    dispatcher = numba.njit(nogil=True, cache=True)(function)
    _keep_apart(dispatcher)
    return cast(Callable[P, R], dispatcher)


def _keep_apart(dispatcher: Any) -> None:
    """Give this process names of its own for the files of machine code it writes.

    Numba numbers the files of a loop by its index alone. Two processes that compile different signatures of one loop at
    the same time would give both files the same name, and the index could then lead to the other's machine code.
    """
    file = dispatcher._cache._cache_file  # noqa: SLF001  (Numba offers no setting for it)
    base = file._data_name_pattern.removesuffix(".{number:d}.nbc")  # noqa: SLF001
    file._data_name_pattern = f"{base}.{_PROCESS}.{{number:d}}.nbc"  # noqa: SLF001
