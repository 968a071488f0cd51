"""Worker pools that lose workers: an error outside of a turn, before or after a worker has claimed a node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


class Mishap(BaseException):
    """Not even an `Exception`."""


@contextmanager
def losing(kind: type[WorkerPool], at: Mapping[int, int], *, taken: bool = False) -> Iterator[None]:
    """Lose workers of such pools at their n-th request for a turn; with the node they have `taken`, or without."""
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
