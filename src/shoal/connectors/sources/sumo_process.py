"""SUMO as a process: how it is found, started, listened to and stopped."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pyarrow as pa

from shoal.connectors.formats.floating_cars import MICROSECONDS, FloatingCars
from shoal.errors import SourceError, reason_of

READ_BYTES = 1 << 16
LAST_LINES = 5
END_S = 2.0
"""How long SUMO may take to end before it is killed."""
FIXED = {
    "output-prefix": "",
    "human-readable-time": "false",
    "random": "false",
    "no-step-log": "true",
    "no-warnings": "true",
    "duration-log.disable": "true",
}
"""Options that the floating-car data depends on, or that keep the messages short, whatever the scenario says."""


@dataclass(frozen=True)
class SumoProgram:
    """The path of SUMO, and the environment it needs."""

    path: str
    environment: Mapping[str, str]


def sumo_program(home: str | None) -> SumoProgram:
    """SUMO in its home directory, as a Python package, or in the path."""
    package = find_spec("sumo")
    folders = [home] if home else []
    folders += list(package.submodule_search_locations or ()) if package is not None else []
    for folder in folders:
        path, proj = Path(folder) / "bin" / "sumo", Path(folder) / "data" / "proj"
        if path.is_file():
            own = {"PROJ_LIB": str(proj), "PROJ_DATA": str(proj)} if proj.is_dir() else {}
            return SumoProgram(str(path), {**own, **os.environ, "SUMO_HOME": folder})
    found = which("sumo")
    if found is None:
        where = f"SUMO_HOME={home} has no bin/sumo, and it is" if home else "it is"
        raise SourceError(
            f"SUMO is needed to run a scenario; {where} neither installed for Python nor in the path; "
            "install it with: pip install 'shoal[sumo]'"
        )
    return SumoProgram(found, dict(os.environ))


class SumoProcess:
    """A running simulation that writes floating-car data to a pipe.

    It has to wait while nobody reads. If the process that reads is killed, the system ends it at its next write.
    It has a session of its own, so that Ctrl-C reaches the run and not the simulation.
    """

    def __init__(
        self, program: SumoProgram, scenario: str, options: Mapping[str, str], start_us: int, speed: float | None = None
    ) -> None:
        """Start it; `speed` is the number of simulated seconds per second, None means as fast as possible."""
        self._scenario = scenario
        self._start_us, self._speed = start_us, speed
        self._stopped = threading.Event()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._pipe, written = os.pipe()
        arguments = [f"--{name}={value}" for name, value in {**FIXED, **options}.items()]
        try:
            self._process = subprocess.Popen(
                [program.path, "-c", scenario, f"--fcd-output=/dev/fd/{written}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._messages,
                stderr=subprocess.STDOUT,
                env=program.environment,
                pass_fds=(written,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._pipe)
            self._messages.close()
            raise SourceError(f"cannot start {program.path}: {reason_of(error)}") from error
        finally:
            os.close(written)

    def steps(self, replayed: int) -> Generator[pa.RecordBatch, None, None]:
        """The vehicles of every time step, until the simulation ends."""
        cars, number, began = FloatingCars(self._start_us), 0, None
        try:
            while text := os.read(self._pipe, READ_BYTES):
                for step in self._parsed(cars, text):
                    number += 1
                    if self._speed is not None and step.num_rows and number > replayed:
                        at_s = step["ts"][0].value / MICROSECONDS / self._speed
                        began = time.monotonic() - at_s if began is None else began
                        self._stopped.wait(max(0.0, began + at_s - time.monotonic()))
                    yield step
        finally:
            os.close(self._pipe)
        self._check_end(cars)

    def close(self) -> None:
        """Stop it, at once if it does not end by itself."""
        self._stopped.set()
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._messages.close()

    def _parsed(self, cars: FloatingCars, text: bytes) -> Sequence[pa.RecordBatch]:
        try:
            return cars.parse(text)
        except (ValueError, KeyError) as error:
            raise SourceError(f"SUMO must write floating-car data for {self._scenario}; {error}") from error

    def _check_end(self, cars: FloatingCars) -> None:
        """Raise an error, with SUMO's last lines, unless it has ended by itself and has written everything."""
        code = self._process.wait()
        if self._stopped.is_set() or (code == 0 and cars.complete):
            return
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        if code == 0:
            how = "incomplete floating-car data"
        said = self._last_lines()
        raise SourceError(
            f"SUMO must run scenario {self._scenario} to its end; it ended with {how}"
            + (f" and said: {said}" if said else " and said nothing")
        )

    def _last_lines(self) -> str:
        """What SUMO has said last, in one line."""
        with contextlib.suppress(ValueError):  # closed with the process
            self._messages.seek(0)
            lines = [" ".join(line.split()) for line in self._messages.read().decode(errors="replace").splitlines()]
            return " / ".join([line for line in lines if line][-LAST_LINES:])
        return ""
