"""What a priority queue costs that threads share: measured on this machine, extrapolated to large ones.

Needs a C compiler, `cc`. An access is a pop and a push of one entry, each behind a lock in which waiting threads queue
(Mellor-Crummey and Scott). Threads do nothing else, so that the lock always has waiters. Three things are measured:

1. The seconds per access with one thread and with two. A window of accesses counts only if every thread had its core
   for all of it, so that other programs on the machine do not matter.
2. The seconds in which a cache line gets from one core to another.
3. The cache lines per access that another thread had last. A program counts them for any number of threads, since that
   does not need so many cores.

From 1 and 2 follows how many transfers an access waits for. For n threads they grow as the counted lines do, and each
takes as long as published measurements say for the machine in question.
"""

import math
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from shoal.errors import ConfigError, RunError
from shoal.experiments.experiment import TrialOutcome

SOURCE = Path(__file__).with_suffix(".c")
ON_CORE = 0.97  # share of a window that a thread must have had its core
FEWEST_WINDOWS = 20
WINDOWS, ACCESSES = 1000, 500
NEAR, FAR = 1.5, 3.0  # times the fastest transfer of a line
CROWDED_LIMIT_S = 5.0  # a queue lock that is passed to threads without a core may take minutes
SOCKET_S = 47.0e-9  # a modified line from a core of the same socket: Intel MLC on two Xeon E5-2699 v3 (FD.io CSIT)
OTHER_SOCKET_S = 107.3e-9  # the same from the other socket, mean of both directions and homes


@dataclass(frozen=True)
class Couple:
    """Two windows of two threads, one right after the other: seconds per access, and per transfer of a cache line."""

    access_s: float
    line_s: float

    def waited(self, alone_s: float) -> float:
        """Transfers of a line that an access waits for, beyond what it costs a thread alone."""
        return (self.access_s - alone_s) / self.line_s


@dataclass(frozen=True)
class Contention:
    """Seconds per access of one thread, and couples of windows of two threads."""

    alone_s: float
    couples: list[Couple]

    @property
    def waited(self) -> float:
        """Transfers of a line that an access waits for, as a median."""
        return statistics.median(each.waited(self.alone_s) for each in self.couples)


def shared(workers: int, rounds: int = 5, entries: int = 1024) -> TrialOutcome:
    """Measure on two cores, and extrapolate to workers on one socket and on two.

    Two sockets have 12 cores each up to 24 workers, and 18 beyond. `access_us` occupies the queue; with its wait an
    access takes `workers` times as long. Windows on near and far cores appear where a hypervisor moves them.
    """
    with tempfile.TemporaryDirectory() as directory:
        program = _built(Path(directory))
        lines, lines_of_two = (_said(program, "transfers", n, 200_000, entries)[0][0] for n in (workers, 2))
        found = _measured(program, rounds, entries)
    near_s = _service_s(found, lines / lines_of_two, workers, workers)
    far_s = _service_s(found, lines / lines_of_two, workers, 12 if workers <= 24 else 18)
    return TrialOutcome(
        {
            "alone_ns": found.alone_s * 1e9,
            "lines_moved": lines,
            "access_us.one_socket": near_s * 1e6,
            "access_us.two_sockets": far_s * 1e6,
            "with_wait_us.one_socket": workers * near_s * 1e6,
            "with_wait_us.two_sockets": workers * far_s * 1e6,
            **_distances(found),
        }
    )


def crowded(threads: int, lock: str, entries: int = 1024, accesses: int = 1000) -> TrialOutcome:
    """Wall time per access with more threads than cores, most of which wait for a core; the lock is `mcs` or `mutex`.

    A lock that takes longer than 5 s is given up; `gave_up` is then 1, and the time a lower limit.
    """
    if lock not in ("mcs", "mutex"):
        raise ConfigError(f"lock must be mcs or mutex; got {lock!r}")
    with tempfile.TemporaryDirectory() as directory:
        program = _built(Path(directory))
        try:
            found = _said(program, "queue", threads, lock, 1, accesses, entries, limit_s=CROWDED_LIMIT_S)
        except subprocess.TimeoutExpired:
            return TrialOutcome({"access_us": CROWDED_LIMIT_S / (threads * accesses) * 1e6, "gave_up": 1})
    return TrialOutcome({"access_us": found[0][0] / (threads * accesses) * 1e-3, "gave_up": 0})


def _built(directory: Path) -> str:
    """The compiled program."""
    program = directory / "queue_contention"
    try:
        subprocess.run(["cc", "-O2", "-std=c11", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    except FileNotFoundError as error:
        raise ConfigError("contention of queues needs a C compiler; there is no cc on the PATH") from error
    return str(program)


def _said(*command: object, limit_s: float = 60.0) -> list[list[float]]:
    """The numbers that the program prints, line by line."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=limit_s)
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def _undisturbed(window: list[float]) -> bool:
    """Whether all threads had their cores for the whole window."""
    wall, *processor = window
    return min(processor) >= ON_CORE * wall


def _measured(program: str, rounds: int, entries: int) -> Contention:
    """Windows of one and of two threads, in turns."""
    alone, couples = [], []
    for _ in range(rounds):
        alone += [each for each in _said(program, "queue", 1, "mcs", WINDOWS, ACCESSES, entries) if _undisturbed(each)]
        found = _said(program, "pair", 2 * WINDOWS, ACCESSES, entries)
        both = zip(found[::2], found[1::2], strict=True)
        couples += [(first[0], second[0]) for first, second in both if _undisturbed(first) and _undisturbed(second)]
    if min(len(alone), len(couples)) < FEWEST_WINDOWS:
        raise RunError(f"less than {FEWEST_WINDOWS} undisturbed windows; run it again when the machine is less busy")
    unit_s = 1e-9 / (2 * ACCESSES)
    alone_s = statistics.median(wall for wall, *_ in alone) / ACCESSES * 1e-9
    return Contention(alone_s, [Couple(access * unit_s, line * unit_s) for access, line in couples])


def _service_s(found: Contention, more_lines: float, workers: int, cores_of_socket: int) -> float:
    """Seconds for which an access occupies a queue on the published machine."""
    if workers == 1:
        return found.alone_s
    away = 0.0 if workers <= cores_of_socket else workers / 2 / (workers - 1)
    transfer_s = (1 - away) * SOCKET_S + away * OTHER_SOCKET_S
    return found.alone_s + found.waited * more_lines * transfer_s


def _distances(measured: Contention) -> dict[str, float]:
    """Windows with cores near to each other, and those far away, if there are enough of them."""
    nearest_s = min(each.line_s for each in measured.couples)
    metrics: dict[str, float] = {}
    for name, low, high in (("near", 0.0, NEAR), ("far", FAR, math.inf)):
        found = [each for each in measured.couples if low <= each.line_s / nearest_s < high]
        if len(found) < FEWEST_WINDOWS:
            continue
        metrics |= {
            f"{name}.windows": len(found),
            f"{name}.line_ns": statistics.median(each.line_s for each in found) * 1e9,
            f"{name}.access_ns": statistics.median(each.access_s for each in found) * 1e9,
            f"{name}.transfers_waited": statistics.median(each.waited(measured.alone_s) for each in found),
        }
    return metrics
