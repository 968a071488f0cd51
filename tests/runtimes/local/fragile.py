"""Crews that lose workers: something goes wrong in a worker's own work, before or after it has taken a turn."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


class Mishap(BaseException):
    """Not even an `Exception`."""


@contextmanager
def losing(kind: type[WorkerPool], at: Mapping[int, int], *, taken: bool = False) -> Iterator[None]:
    """Workers of such crews are lost at so manyth questions what to do; with what they have `taken`, or without."""
    next_turn, asked = kind.next_turn, Counter[int]()

    def fragile(pool: WorkerPool, worker: int) -> tuple[int, int] | None:
        asked[worker] += 1
        if asked[worker] == at.get(worker):
            if taken:
                next_turn(pool, worker)
            raise Mishap(f"worker {worker} stumbled")
        return next_turn(pool, worker)

    with patch.object(kind, "next_turn", fragile):
        yield
