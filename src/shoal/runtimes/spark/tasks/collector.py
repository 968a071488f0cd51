"""Garbage collection in Python workers: PySpark runs a full one after every task, over every object there is.

With NumPy, Numba, Arrow and a compiled graph loaded that takes tens of milliseconds, just when the next
stage's task wants the worker. What has been loaded for good is therefore frozen: the collector passes over it.
"""

import gc
from itertools import count

SETTLING_TASKS = 4
"""After so many tasks a worker has loaded whatever it will ever load."""

_tasks = count()


def freeze_what_stays() -> None:
    """Call at the end of a task's work; freezes during a worker's first tasks only, so that no garbage piles up."""
    if next(_tasks) < SETTLING_TASKS:
        gc.freeze()
