"""Engines in another Python environment: found by an environment variable, driven through a child process."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.errors import ConfigError, RunError
from shoal.experiments.engines.collected import Answer
from shoal.experiments.engines.contract import EngineJob
from shoal.experiments.engines.row_types import columns_of
from shoal.experiments.engines.spool import Spool
from shoal.experiments.engines.spooled import SpooledEngine

CHILD = Path(__file__).with_name("child.py")
RESULTS = "results"


@dataclass(frozen=True)
class Environment:
    """A Python that has `package`: the one that the variable names, or this one."""

    variable: str
    package: str
    install: str
    adapter: str
    """The file beside `child.py` that knows the engine."""

    def python(self) -> str:
        """The program; empty if there is none."""
        named = os.environ.get(self.variable, "")
        if named:
            return named
        return sys.executable if importlib.util.find_spec(self.package) else ""

    def missing(self) -> str:
        """What to do if the package is not there."""
        python = self.python()
        if not python:
            return (
                f"set {self.variable} to a Python that has {self.package}: "
                f"python -m venv DIR && DIR/bin/{self.install}, then {self.variable}=DIR/bin/python"
            )
        return "" if Path(python).exists() else f"{self.variable} must be the path of a Python; there is no {python}"


class Child:
    """A process of the other Python, in a process group of its own, so that all of it can be ended."""

    def __init__(self, name: str, environment: Environment) -> None:
        """Start it."""
        self._name = name
        self._log = tempfile.NamedTemporaryFile(prefix=f"shoal-{name}-", suffix=".log")  # noqa: SIM115
        adapter = CHILD.with_name(environment.adapter)
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [environment.python(), str(CHILD), str(adapter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=variables,
            start_new_session=True,
            text=True,
        )
        self.used = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its reply; an error if the process has ended."""
        pipes = self._process.stdin, self._process.stdout
        try:
            if pipes[0] is not None:
                pipes[0].write(json.dumps(request) + "\n")
                pipes[0].flush()
            line = pipes[1].readline() if pipes[1] is not None else ""
        except (BrokenPipeError, ValueError):
            line = ""
        if not line:
            raise RunError(f"{self._name} has ended: {self._last_words()}")
        return dict(json.loads(line))

    def end(self) -> None:
        """End the process and all that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not yet sent cannot be sent any more
                    continue
        self._log.close()

    def _last_words(self) -> str:
        text = Path(self._log.name).read_text(encoding="utf-8", errors="replace").strip()
        return text.splitlines()[-1] if text else f"exit code {self._process.poll()}"


@dataclass
class ApartQueries:
    """Queries that a child has accepted."""

    engine: "ApartEngine"
    child: Child
    spool: Spool
    elapsed_s: float = 0.0
    _closed: bool = False
    _done: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answers(self) -> Iterable[Answer]:
        """Let the child run them, and read what it has written."""
        reply = self.child.ask({"run": str(self.spool.directory / RESULTS)})
        if "error" in reply:
            raise RunError(f"{self.engine.name} failed: {reason(reply['error'])}")
        self.elapsed_s = float(reply["elapsed_s"])
        for output, path in reply["results"]:
            with pa.memory_map(path) as file:
                yield str(output), pa.ipc.open_file(file).read_all()
        self._done = True

    def close(self) -> None:
        """Keep the child for the next session if it is idle; end it otherwise."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._done:
            self.engine.keep(self.child)
        else:
            self.child.end()


class ApartEngine(SpooledEngine):
    """A subclass has `name`, `languages`, `format` and `environment`."""

    environment: Environment

    def __init__(self) -> None:
        """No child yet."""
        self._idle: list[Child] = []
        self._lock = threading.Lock()

    def missing(self) -> str:
        """What to install."""
        return self.environment.missing()

    def prepared(self, job: EngineJob, spool: Spool) -> ApartQueries:
        """Have a child check the queries, one by one, so that the wrong one can be named."""
        (spool.directory / RESULTS).mkdir()
        with self._lock:
            child = self._idle.pop() if self._idle else Child(self.name, self.environment)
        try:
            reply = child.ask({"prepare": self._described(job, spool)})
        except BaseException:
            child.end()
            raise
        if "error" in reply:
            self.keep(child)
            raise ConfigError(f"{self.name} cannot run {_named(job, reply['error'])}")
        return ApartQueries(self, child, spool)

    def keep(self, child: Child) -> None:
        """Take back a child that is idle."""
        with self._lock:
            self._idle.append(child)

    def shutdown(self) -> None:
        """End idle children."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _described(self, job: EngineJob, spool: Spool) -> dict[str, Any]:
        streams = {
            name: {
                "path": str(spool.path(name)),
                "time": job.streams[name].time,
                "columns": {field.name: str(field.type) for field in spool.schema(name)},
                "required": [field.name for field in columns_of(job.streams[name]) if not field.nullable],
            }
            for name in job.streams
        }
        queries = [{"name": each.name, "output": each.output, "text": each.text} for each in job.queries]
        return {
            "streams": streams,
            "queries": queries,
            "workers": job.workers,
            "directory": str(Path(job.directory).absolute()),
            "settings": dict(job.settings),
        }


def _named(job: EngineJob, error: str) -> str:
    """The query that an error is about, as adapters write it: `query 'name': reason`."""
    text = error.partition(": ")[2]
    return text if text.startswith("query ") else f"query {', '.join(repr(each.name) for each in job.queries)}: {error}"


def reason(text: str) -> str:
    """The innermost cause in a Java or Python traceback."""
    lines = [line.strip() for line in text.strip().splitlines()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    named = [line for line in lines if "Exception:" in line or "Error:" in line]
    return (causes or named or lines or ["no message"])[-1]
