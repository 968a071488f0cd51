"""Processor use: how much of the machine other programs had while something was measured."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

STATISTICS = Path("/proc/stat")
QUIET = 0.05
"""The share of the processors that other programs may have, if measured times are to mean something."""
BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of Linux's statistics in which a processor works: user, nice, system, interrupts, and for other machines."""


@dataclass(frozen=True)
class ProcessorUse:
    """Seconds of all processors in which any program worked, and in which this process and its children did."""

    at_s: float
    machine_s: float
    own_s: float
    processors: int

    @classmethod
    def now(cls) -> "ProcessorUse | None":
        """The use so far; None where the system does not say."""
        try:
            machine_s = busy_s(STATISTICS.read_text(encoding="ascii"), os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError):
            return None
        return cls(time.monotonic(), machine_s, own_s(), os.cpu_count() or 1)

    def others_until(self, after: "ProcessorUse") -> float:
        """The share of all processors that others had between two times, at least 0.

        >>> round(ProcessorUse(0.0, 10.0, 1.0, 2).others_until(ProcessorUse(4.0, 17.0, 4.0, 2)), 3)
        0.5
        """
        used_s = (after.machine_s - self.machine_s) - (after.own_s - self.own_s)
        return max(0.0, used_s / max(after.at_s - self.at_s, 1e-9) / self.processors)


def own_s() -> float:
    """Processor time of this process and its children: of those that are there, and of those that they waited for."""
    own, total = psutil.Process(os.getpid()), 0.0
    for process in (own, *own.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def busy_s(statistics: str, ticks_per_s: float) -> float:
    """Seconds in which processors worked, from Linux's statistics.

    >>> busy_s("cpu  100 0 50 1000 7 0 5 45 0 0", 100)
    2.0
    """
    name, *values = statistics.partition("\n")[0].split()
    if name != "cpu" or len(values) <= max(BUSY):
        raise ValueError(
            f"statistics of processors must begin with cpu and {max(BUSY) + 1} numbers; got {statistics[:40]!r}"
        )
    return sum(int(values[column]) for column in BUSY) / ticks_per_s


def with_others(measure: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """What was measured, and as `others_share` the share of the processors that other programs had meanwhile."""
    share_of_others = watched_others()
    found = dict(measure())
    share = share_of_others()
    return found if share is None else {**found, "others_share": round(share, 4)}


def is_busy(shares: Iterable[float]) -> bool:
    """Whether other programs had too much of the processors for times to be trusted.

    >>> is_busy([0.0, 0.04]), is_busy([0.0, 0.06]), is_busy([])
    (False, True, False)
    """
    return max(shares, default=0.0) > QUIET


def watched_others() -> Callable[[], float | None]:
    """Begin to watch other programs; what is returned gives their share of all processors since, if that is known."""
    before = ProcessorUse.now()

    def share() -> float | None:
        after = ProcessorUse.now()
        return None if before is None or after is None else before.others_until(after)

    return share
