"""Compilation of hot loops: released GIL, machine code cached on disk beside the source."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop on first call and keep it for the next process."""
    return cast(Callable[P, R], numba.njit(nogil=True, cache=True)(function))
