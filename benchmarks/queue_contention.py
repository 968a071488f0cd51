"""What a priority queue costs that threads share: measured on this machine, extrapolated to large ones.

    python benchmarks/queue_contention.py [--repeat 5] [--entries 1024] [--quick]

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

import argparse
import math
import os
import platform
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from table import markdown

SOURCE = Path(__file__).with_suffix(".c")
ON_CORE = 0.97  # share of a window that a thread must have had its core
FEWEST_WINDOWS = 20
WINDOWS, ACCESSES = 1000, 500
NEAR, FAR = 1.5, 3.0  # times the fastest transfer of a line
CROWDED_LIMIT_S = 5.0  # a queue lock that is passed to threads without a core may take minutes
SOCKET_S = 47.0e-9  # a modified line from a core of the same socket: Intel MLC on two Xeon E5-2699 v3 (FD.io CSIT)
OTHER_SOCKET_S = 107.3e-9  # the same from the other socket, mean of both directions and homes
WORKERS = (1, 2, 4, 8, 12, 16, 18, 24, 32, 36)


@dataclass(frozen=True)
class Couple:
    """Two windows of two threads, one right after the other: seconds per access, and per transfer of a cache line."""

    access_s: float
    line_s: float

    def waited(self, alone_s: float) -> float:
        """Transfers of a line that an access waits for, beyond what it costs a thread alone."""
        return (self.access_s - alone_s) / self.line_s


@dataclass(frozen=True)
class Measured:
    """Seconds per access of one thread, and what two threads did."""

    alone_s: float
    couples: list[Couple]

    @property
    def waited(self) -> float:
        """Transfers of a line that an access waits for, as a median."""
        return statistics.median(each.waited(self.alone_s) for each in self.couples)


def built(directory: Path) -> str:
    """The compiled program."""
    program = directory / "queue_contention"
    subprocess.run(["cc", "-O2", "-std=c11", "-pthread", "-o", str(program), str(SOURCE)], check=True)
    return str(program)


def said(*command: object, limit_s: float = 60.0) -> list[list[float]]:
    """The numbers that the program prints, line by line."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=limit_s)
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def undisturbed(window: list[float]) -> bool:
    """Whether all threads had their cores for the whole window."""
    wall, *processor = window
    return min(processor) >= ON_CORE * wall


def measure(program: str, rounds: int, entries: int) -> Measured:
    """Windows of one and of two threads, in turns."""
    alone, couples = [], []
    for _ in range(rounds):
        alone += [each for each in said(program, "queue", 1, "mcs", WINDOWS, ACCESSES, entries) if undisturbed(each)]
        found = said(program, "pair", 2 * WINDOWS, ACCESSES, entries)
        both = zip(found[::2], found[1::2], strict=True)
        couples += [(first[0], second[0]) for first, second in both if undisturbed(first) and undisturbed(second)]
    if min(len(alone), len(couples)) < FEWEST_WINDOWS:
        raise SystemExit(f"less than {FEWEST_WINDOWS} undisturbed windows; run it again when the machine is less busy")
    unit_s = 1e-9 / (2 * ACCESSES)
    alone_s = statistics.median(wall for wall, *_ in alone) / ACCESSES * 1e-9
    return Measured(alone_s, [Couple(access * unit_s, line * unit_s) for access, line in couples])


def crowded_us(program: str, threads: int, lock: str, entries: int) -> str:
    """Microseconds of wall time per access with more threads than cores, most of which wait for a core."""
    accesses = 1000
    try:
        found = said(program, "queue", threads, lock, 1, accesses, entries, limit_s=CROWDED_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"> {CROWDED_LIMIT_S / (threads * accesses) * 1e6:.3g}"
    return f"{found[0][0] / (threads * accesses) * 1e-3:.3g}"


def transfer_s(workers: int, cores_of_socket: int) -> float:
    """Seconds per transfer if each of the workers on a queue is as likely to have had the line before."""
    if workers <= cores_of_socket:
        return SOCKET_S
    away = workers / 2 / (workers - 1)
    return (1 - away) * SOCKET_S + away * OTHER_SOCKET_S


def service_s(measured: Measured, lines: dict[int, float], workers: int, cores_of_socket: int) -> float:
    """Seconds for which an access occupies a queue on the published machine."""
    if workers == 1:
        return measured.alone_s
    waited = measured.waited * lines[workers] / lines[2]
    return measured.alone_s + waited * transfer_s(workers, cores_of_socket)


def extrapolated(measured: Measured, lines: dict[int, float]) -> list[list[str]]:
    """Rows of the table for larger machines: microseconds of an access, and of an access with its wait."""
    rows = []
    for workers in WORKERS:
        near_s = service_s(measured, lines, workers, workers)
        far_s = service_s(measured, lines, workers, 12 if workers <= 24 else 18)
        times_s = (near_s, workers * near_s, far_s, workers * far_s)
        rows.append([str(workers), f"{lines[workers]:.1f}", *(f"{each * 1e6:.2f}" for each in times_s)])
    return rows


def distances(measured: Measured) -> list[list[str]]:
    """A row for windows with cores near to each other, and one for those far away, if a hypervisor moves them."""
    nearest_s = min(each.line_s for each in measured.couples)
    rows = []
    for name, low, high in (("near", 0.0, NEAR), ("far", FAR, math.inf)):
        found = [each for each in measured.couples if low <= each.line_s / nearest_s < high]
        if len(found) < FEWEST_WINDOWS:
            continue
        access_ns = statistics.median(each.access_s for each in found) * 1e9
        line_ns = statistics.median(each.line_s for each in found) * 1e9
        waited = statistics.median(each.waited(measured.alone_s) for each in found)
        rows.append([name, f"{len(found):,}", f"{line_ns:.1f}", f"{access_ns:.1f}", f"{waited:.2f}"])
    return rows


def report(measured: Measured, lines: dict[int, float], crowded: list[list[str]]) -> None:
    """Print what was measured, and what follows for larger machines."""
    print(f"{os.cpu_count()} cores, {platform.machine()}; access of one thread: {measured.alone_s * 1e9:.1f} ns")
    print(
        markdown(["two cores", "windows", "cache line, ns", "access, ns", "transfers waited for"], distances(measured))
    )
    print()
    print(markdown(["threads on these cores", "queue lock, us", "system's mutex, us"], crowded))
    print()
    print("two sockets: of 12 cores up to 24 workers, of 18 beyond; us")
    header = ["workers", "lines moved", "one socket", "with wait", "two sockets", "with wait"]
    print(markdown(header, extrapolated(measured, lines)))


def main() -> None:
    """Build the program, measure in rounds, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--entries", type=int, default=1024, help="entries in the queue")
    parser.add_argument("--quick", action="store_true", help="one round, fewer threads")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        program = built(Path(directory))
        lines = {n: said(program, "transfers", n, 200_000, chosen.entries)[0][0] for n in WORKERS}
        measured = measure(program, 1 if chosen.quick else chosen.repeat, chosen.entries)
        crowded = [
            [str(n), *(crowded_us(program, n, lock, chosen.entries) for lock in ("mcs", "mutex"))]
            for n in ((4,) if chosen.quick else (4, 8, 16, 32))
        ]
    report(measured, lines, crowded)


if __name__ == "__main__":
    main()
