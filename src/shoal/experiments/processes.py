"""A command in processes of its own: its end is awaited, and nothing that it has started is left behind.

The processes are found by a mark in their environment, which children inherit. So those are found, too, whose parent
has ended, and those that have made themselves a session or a process group, as Spark's workers do.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "SHOAL_TRIAL_PROCESS"
GRACE_S = 3.0
"""How long a process may take to end by itself, after its parent has ended or it was asked to."""
ROUNDS = 3
"""How often processes are killed, since those of one round may have started others meanwhile."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ProcessEnd:
    """How a command has ended: its exit code, negative for a signal; None if it was ended for its time."""

    code: int | None

    @property
    def reason(self) -> str:
        """Why it failed, in words; empty if it did not.

        >>> ProcessEnd(-9).reason, ProcessEnd(3).reason, ProcessEnd(0).reason
        ('its process was ended by SIGKILL', 'its process ended with exit code 3', '')
        """
        if self.code is None:
            return "it took too long"
        if self.code < 0:
            return f"its process was ended by {signal.Signals(-self.code).name}"
        return f"its process ended with exit code {self.code}" if self.code else ""


def run_to_end(command: Sequence[str], timeout_s: float, log: Path) -> ProcessEnd:
    """Run a command, its output in `log`; afterwards, and if this is interrupted, none of its processes is left."""
    mark = uuid.uuid4().hex
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, MARK: mark},
            start_new_session=True,
        )
    try:
        return ProcessEnd(process.wait(timeout_s))
    except subprocess.TimeoutExpired:
        return ProcessEnd(None)
    finally:
        # What a finished process has started may need a moment to see that it is gone.
        _end_all(mark, 0.0 if process.poll() is None else GRACE_S)
        process.wait()


def end_with_parent() -> None:
    """End this process when its parent ends, even if that is killed; for the process of a trial, on Linux."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_all(mark: str, grace_s: float) -> None:
    """Wait so long for the processes that have the mark, then end them."""
    _, left = psutil.wait_procs(_marked(mark), grace_s)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(left, GRACE_S)
    for _ in range(ROUNDS):
        left = _marked(mark)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, GRACE_S)


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
