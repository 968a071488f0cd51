"""Garbage collection in Python workers: PySpark runs a full collection after every task.

With NumPy, Numba, Arrow and a compiled graph loaded that takes tens of milliseconds and delays the next stage's task.
So objects that live as long as the worker are frozen: the collector skips them.
"""

import gc
from itertools import count

SETTLING_TASKS = 4
"""The number of tasks after which a worker has loaded everything that it needs."""

_tasks = count()


def freeze_what_stays() -> None:
    """Called at the end of every task; freezes only in a worker's first tasks, so that garbage does not accumulate."""
    if next(_tasks) < SETTLING_TASKS:
        gc.freeze()
