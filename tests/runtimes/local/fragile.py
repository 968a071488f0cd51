"""Worker pools that lose workers: an error outside of a turn, before or after a worker has claimed a node."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from shoal.runtimes.local.scheduling.worker_pool import WorkerPool


class Mishap(BaseException):
    """Not even an `Exception`."""


@contextmanager
def losing(kind: type[WorkerPool], at: Mapping[int, int], *, taken: bool = False, last: bool = True) -> Iterator[None]:
    """Lose workers of such pools at their n-th request for a turn; with the node they have `taken`, or without.

    Without `last` a worker that is the only one left is lost later, when the pool has grown.
    """
    next_turn, asked, left = kind.next_turn, Counter[int](), dict(at)

    def fragile(pool: WorkerPool, worker: int) -> tuple[int, int] | None:
        asked[worker] += 1
        others = any(other != worker and other < pool.threads for other in list(pool._running_threads))
        if worker in left and asked[worker] >= left[worker] and (last or others):
            del left[worker]
            if taken:
                next_turn(pool, worker)
            raise Mishap(f"worker {worker} stumbled")
        return next_turn(pool, worker)

    with patch.object(kind, "next_turn", fragile):
        yield
