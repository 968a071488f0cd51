"""Short runs in fresh processes: do all of them exit cleanly?

A process that ends while one of its threads is inside of native code may abort after its work is done. Each process
runs one job on the local runtime and reads its results back, and leaves in one of four ways: after the run, after
stopping it, after a sink has failed, or without waiting for it. An exit code other than 0 is a fault, and so is a
wrong number of results.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NoReturn

from measures.outcome import checked
from measures.robustness import short_jobs
from measures.robustness.short_jobs import ENDINGS, SINKS, SOURCES
from shoal.compiler.program import compile_graph
from shoal.compiler.warm_up import warm_up
from shoal.errors import ConfigError, RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.runtimes.registry import runtime_kind

SCRIPT = str(Path(short_jobs.__file__))
MOST_S = 120


def processes(source: str, sink: str, runs: int = 40, fork: bool = False) -> TrialOutcome:
    """Runs of one source and sink, the endings in turn; forked ones take a twentieth of the time.

    A fault is a wrong result: such a trial has no metrics, and says which endings had which exit codes.
    """
    for name, value, known in (("source", source, SOURCES), ("sink", sink, SINKS)):
        if value not in known:
            raise ConfigError(f"{name} must be one of {', '.join(known)}; got {value!r}")
    directory = tempfile.mkdtemp(prefix="shoal-short-")  # a forked process must not remove it when it exits
    subprocess.run([sys.executable, SCRIPT, "files", "", "", directory], check=True)
    if fork:
        _prepare_forks()
    counts: Counter[tuple[str, str]] = Counter()
    began_s = time.monotonic()
    for number in range(runs):
        ending = ENDINGS[number % len(ENDINGS)]
        counts[ending, (_forked if fork else _fresh)(source, sink, ending, directory)] += 1
    took_s = time.monotonic() - began_s
    shutil.rmtree(directory)
    faults = [f"{number} x {ending}: exit code {code}" for (ending, code), number in counts.items() if code != "0"]
    return checked({"runs": runs, "faults": 0, "seconds_per_run": took_s / runs}, faults)


def _prepare_forks() -> None:
    """Import and load what every run needs, in this thread: otherwise that is nearly all that a forked process does.

    Nor is a forked process to look for garbage among all that, which takes it ten times as long as its run.
    """
    runtime_kind("local")
    warm_up(compile_graph(short_jobs.job_over(SOURCES["generator"](Path())).graph))
    if threading.active_count() > 1:
        raise RunError("a process with threads must not be forked; expected only the main thread")
    gc.collect()
    gc.freeze()


def _fresh(source: str, sink: str, ending: str, directory: str) -> str:
    """What becomes of a new process."""
    command = [sys.executable, SCRIPT, source, sink, ending, directory]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return f"none, it does not end within {MOST_S} s"
    return _described(ended.returncode, ended.stderr)


def _forked(source: str, sink: str, ending: str, directory: str) -> str:
    """What becomes of a copy of this process, which has loaded everything and started no thread."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            signal.alarm(MOST_S)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(said.fileno(), 2)
            _leave_after(source, sink, ending, Path(directory))
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return _described(os.waitstatus_to_exitcode(status), said.read().decode())


def _leave_after(source: str, sink: str, ending: str, directory: Path) -> NoReturn:
    """Run the job in a forked process and leave it as any other process is left, up through all its callers."""
    try:
        short_jobs.one(source, sink, ending, directory)
    except Exception:  # noqa: BLE001  the callers must not take this process for the one that measures
        traceback.print_exc()
        sys.exit(1)
    sys.exit(0)


def _described(code: int, said: str) -> str:
    """An exit code, with the last line written if it is not 0."""
    lines = said.strip().splitlines()
    return "0" if code == 0 else f"{code}: {lines[-1] if lines else 'nothing said'}"
