"""Faults on demand: with this directory on PYTHONPATH, every Python process of a run can be killed at a chosen call.

FAULT says where, as JSON: the function (`module:Class.method`), which of its calls, counted over all processes
of the run, whether `before` or `after` the call, and the victim: the `process` that made the call, the `executor` it
works for, or the `run`, which is the driver with its whole process group. FAULT_DIR is an empty directory for the
counting.
"""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

GROUP = "FAULT_GROUP"


class Saboteur(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Waits for one module to be imported and wraps one of its functions."""

    def __init__(self, fault: dict[str, Any], directory: Path) -> None:
        self.module, self.function = fault["function"].split(":")
        self.fault = fault
        self.directory = directory
        self.real: importlib.abc.Loader | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec) if self.real else None

    def exec_module(self, module: ModuleType) -> None:
        if self.real is None:
            return
        self.real.exec_module(module)
        *outer, name = self.function.split(".")
        owner: Any = functools.reduce(getattr, outer, module)
        setattr(owner, name, self.wrapped(getattr(owner, name)))

    def wrapped(self, function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.around():
                return function(*args, **kwargs)

        @functools.wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:
            with self.around():
                yield from function(*args, **kwargs)

        return generate if inspect.isgeneratorfunction(function) else call

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Count a call; kill before or after it if it is the one."""
        doomed = self.number() == self.fault["call"]
        if doomed and self.fault["when"] == "before":
            self.kill()
        yield
        if doomed:
            self.kill()

    def number(self) -> int:
        """Which call this is, over all processes: each takes the first number that nobody has taken."""
        number = 1
        while True:
            try:
                (self.directory / str(number)).touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return number

    def kill(self) -> None:
        (self.directory / "killed").touch()
        if self.fault["victim"] == "run":
            os.killpg(int(os.environ[GROUP]), signal.SIGKILL)
        if self.fault["victim"] == "executor":
            import psutil

            executors = [each for each in psutil.Process().parents() if "--executor-id" in each.cmdline()]
            os.kill(executors[0].pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


if "FAULT" in os.environ:
    os.environ.setdefault(GROUP, str(os.getpgid(0)))
    sys.meta_path.insert(0, Saboteur(json.loads(os.environ["FAULT"]), Path(os.environ["FAULT_DIR"])))
