"""Generated code: functions written as text, compiled to machine code without the GIL, and kept on disk.

A text is kept in a file named by its hash, and Numba keeps the machine code beside it, so that the next process loads
it in a few milliseconds. A damaged file is written again; without write access nothing is kept. The oldest files are
removed once there are many.
"""

import hashlib
import logging
import os
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numba

from shoal.storage.private import create, fault

LOG = logging.getLogger("shoal")
FUNCTION = "chain"
"""Name of the function that every text defines."""
IMPORTS = """
from __future__ import annotations

import math

import numba
import numpy as np
"""
COMPILED = '@numba.njit(nogil=True, error_model="numpy")'
"""Decorator of the functions that it calls."""
MOST_KEPT = 500
"""Number of texts kept on disk."""
MOST_LOADED = 500
"""Number of functions kept in memory for later callers; a caller keeps those it uses."""


def cache_directory() -> Path:
    """Where generated code is kept: `$SHOAL_CACHE_DIR`, or `shoal` among the user's other caches."""
    if own := os.environ.get("SHOAL_CACHE_DIR"):
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "shoal"


@dataclass(frozen=True)
class Code:
    """The text of a function and the types it takes and gives, as Numba writes them."""

    body: str
    signature: str

    @cached_property
    def text(self) -> str:
        """Everything that determines the machine code: equal texts have equal code."""
        made_for = f"shoal {_version()}, numba {numba.__version__}, {sys.implementation.cache_tag}{sys.abiflags}"
        return f'"""Generated for {made_for}: {self.signature}."""\n{IMPORTS}{self.body}'

    @cached_property
    def name(self) -> str:
        """Name of the file and of the module."""
        return f"chain_{hashlib.sha256(self.text.encode()).hexdigest()[:24]}"

    @property
    def is_kept(self) -> bool:
        """Whether its machine code exists already."""
        if _LOADED.get(self.name) is not None:
            return True
        path = cache_directory() / f"{self.name}.py"
        return _is_trusted(path) and _text_of(path) == self.text and len(_machine_code(path)) >= 2


def function_of(code: Code) -> Callable[..., Any]:
    """The compiled function of a text, from memory, from disk or made now."""
    function = _LOADED.get(code.name)
    if function is None:
        function = _made(code)
        _LOADED.put(code.name, function)
    return function


class Loaded:
    """A least-recently-used cache of functions by name."""

    def __init__(self, most: int = MOST_LOADED) -> None:
        """Nothing loaded yet."""
        self._most = most
        self._functions: OrderedDict[str, Callable[..., Any]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> Callable[..., Any] | None:
        """The function of a name, if it is in memory."""
        with self._lock:
            if name in self._functions:
                self._functions.move_to_end(name)
            return self._functions.get(name)

    def put(self, name: str, function: Callable[..., Any]) -> None:
        """Keep a function; the least recently used one is dropped, with its module, if there are too many."""
        with self._lock:
            self._functions[name] = function
            self._functions.move_to_end(name)
            while len(self._functions) > self._most:
                oldest, _ = self._functions.popitem(last=False)
                sys.modules.pop(oldest, None)


_LOADED = Loaded()
"""Functions that this process has loaded."""


def _made(code: Code) -> Callable[..., Any]:
    path = cache_directory() / f"{code.name}.py"
    if not _keep(code.text, path):
        return _compiled(code, f"<{code.name}>", kept=False)
    for _ in range(2):
        try:
            return _compiled(code, str(path), kept=True)
        except Exception:  # noqa: BLE001  (a damaged file can fail in any way; it is made again)
            _forget(path)
    return _compiled(code, f"<{code.name}>", kept=False)


def _compiled(code: Code, file: str, *, kept: bool) -> Callable[..., Any]:
    module = ModuleType(code.name)
    exec(compile(code.text, file, "exec"), module.__dict__)
    sys.modules[code.name] = module  # Numba finds the module of cached machine code here
    dispatcher = numba.njit(nogil=True, cache=kept, error_model="numpy")(getattr(module, FUNCTION))
    dispatcher.compile(code.signature)
    dispatcher.disable_compile()
    return dispatcher


def _keep(text: str, path: Path) -> bool:
    """Write a text unless it is there; false if that is impossible, or if the directory is not private.

    Readers never see half of it.
    """
    try:
        for directory in _directories(path):
            create(directory)
        if not _is_trusted(path):
            return False
        if _text_of(path) == text:
            return True
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="new_") as new:
            whole = Path(new) / path.name
            whole.write_text(text, encoding="utf-8")
            whole.replace(path)
        _forget_oldest(path.parent)
    except OSError:
        return False
    return True


def _is_trusted(path: Path) -> bool:
    """Whether only this user (or root) can write the machine code beside a text: loading it runs it."""
    for directory in _directories(path):
        if directory.exists() and (problem := fault(directory, or_root=True)):
            _warn_once(f"{directory} {problem}")
            return False
    return True


@lru_cache(maxsize=16)
def _warn_once(reason: str) -> None:
    LOG.warning("machine code is not kept for later runs: directory %s", reason)


def _directories(path: Path) -> tuple[Path, Path]:
    """The directory of a text, and the one below which Numba keeps its machine code."""
    return path.parent, Path(getattr(numba.config, "CACHE_DIR", "") or path.parent)


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _machine_code(path: Path) -> list[Path]:
    """The files that Numba keeps for a text: an index and the code itself."""
    _, directory = _directories(path)
    return [file for kind in ("nbi", "nbc") for file in directory.glob(f"*/{path.stem}.{FUNCTION}-*.{kind}")]


def _forget_oldest(directory: Path) -> None:
    kept = sorted(directory.glob("chain_*.py"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST_KEPT]:
        _forget(path)
        path.unlink(missing_ok=True)


def _forget(path: Path) -> None:
    try:
        for file in _machine_code(path):
            file.unlink(missing_ok=True)
    except OSError:
        return


def _version() -> str:
    try:
        return version("shoal")
    except PackageNotFoundError:
        return "unknown"
