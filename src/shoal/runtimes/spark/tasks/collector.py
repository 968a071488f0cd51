"""Memory of Python workers: PySpark runs a full garbage collection after every task.

With NumPy, Numba, Arrow and a compiled graph loaded that takes tens of milliseconds and delays the next stage's task.
So objects that live as long as the worker are frozen: the collector skips them. Freed memory stays with the process.
"""

import gc
from itertools import count

from shoal.runtimes.heap import keep_memory

SETTLING_TASKS = 4
"""The number of tasks after which a worker has loaded everything that it needs."""

_tasks = count()


def freeze_what_stays() -> None:
    """Called at the end of every task; freezes only in a worker's first tasks, so that garbage does not accumulate."""
    task = next(_tasks)
    if task == 0:
        keep_memory()
    if task < SETTLING_TASKS:
        gc.freeze()
