"""Memory of Python workers: PySpark runs a full garbage collection after every task.

With NumPy, Numba, Arrow and a compiled graph loaded that takes tens of milliseconds and delays the next stage's task.
So objects that live as long as the worker, or as the program of a run, are frozen: the collector skips them. Freed
memory stays with the process.
"""

import gc
from dataclasses import dataclass

from shoal.runtimes.heap import keep_memory
from shoal.runtimes.spark.state.checkpoint import compiled

SETTLING_TASKS = 4
"""The number of tasks after which a worker has loaded everything that a program needs."""


@dataclass
class Settling:
    """The tasks of this process since it has compiled a program; `programs`: how many it has compiled."""

    tasks: int = 0
    programs: int = -1

    def freeze(self, programs: int) -> None:
        """Freeze what there is, in the first tasks of a program; programs that are gone are collected before."""
        if programs != self.programs:
            if self.programs < 0:
                keep_memory()
            self.programs, self.tasks = programs, 0
            gc.unfreeze()
            gc.collect()
        if self.tasks < SETTLING_TASKS:
            self.tasks += 1
            gc.freeze()


_settling = Settling()


def freeze_what_stays() -> None:
    """Called at the end of every task; freezes only in the first ones, so that garbage does not accumulate."""
    _settling.freeze(compiled.cache_info().misses)
