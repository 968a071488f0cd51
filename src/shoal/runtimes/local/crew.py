"""Crews: the threads that run nodes until every source has ended and nothing waits anywhere."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from shoal.runtimes.local.intake import SourceNode
from shoal.runtimes.local.node import Node

EPOCH_S = 0.0005
"""How long a thread that finds nothing to do waits before it looks again, unless another tells it sooner."""


class Crew(ABC):
    """Threads that take turns at nodes.

    `running`, `busy_s`, `cpu_s`, `turns` and `last_run_s` have an entry per node, written by who runs it; `worked_s`
    and the books on decisions have one per thread, written by that thread. Nothing depends on a global lock.
    """

    def __init__(self, nodes: Sequence[Node], threads: int) -> None:
        """A crew that has not begun; `nodes` with inputs before outputs."""
        self.nodes = list(nodes)
        self.threads = threads
        self._decisions = [0] * threads
        self._deciding_s = [0.0] * threads
        self.worked_s = [0.0] * threads
        self.error: Exception | None = None
        self.running = [False] * len(self.nodes)
        self.busy_s = [0.0] * len(self.nodes)
        self.cpu_s = [0.0] * len(self.nodes)
        self.turns = [0] * len(self.nodes)
        self.last_run_s = [0.0] * len(self.nodes)
        self.changed = threading.Condition()

    def start(self) -> list[threading.Thread]:
        """Start the threads."""
        threads = [
            threading.Thread(target=self._work, args=(number,), name=f"shoal-worker-{number}", daemon=True)
            for number in range(self.threads)
        ]
        for thread in threads:
            thread.start()
        return threads

    @property
    def decisions(self) -> int:
        """How often a thread has asked what to do."""
        return sum(self._decisions)

    @property
    def deciding_s(self) -> float:
        """Time spent on that, waiting for each other included."""
        return sum(self._deciding_s)

    @abstractmethod
    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """The place of the node a worker runs next, now marked as running, and its events; None if none is ready."""

    def finished(self) -> bool:
        """Whether nothing is left to do.

        Nothing waited, nobody ran, and no turn has ended while that was looked at twice: so nothing was on its way.
        """
        if self.error is not None:
            return True
        turns = list(self.turns)
        return self._quiet() and self._quiet() and turns == self.turns

    def _quiet(self) -> bool:
        for place, node in enumerate(self.nodes):
            if node.waiting or (isinstance(node, SourceNode) and not node.ended) or self.running[place]:
                return False
        return True

    def _work(self, worker: int) -> None:
        try:
            self._work_until_finished(worker)
        except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
            self.error = self.error or error
        with self.changed:
            self.changed.notify_all()

    def _work_until_finished(self, worker: int) -> None:
        while not self.finished():
            began = time.perf_counter()
            turn = self.next_turn(worker)
            self._deciding_s[worker] += time.perf_counter() - began
            self._decisions[worker] += 1
            if turn is None:
                with self.changed:
                    self.changed.wait(EPOCH_S)
            else:
                self.worked_s[worker] += self._run(*turn)

    def _run(self, place: int, events: int) -> float:
        """Take a turn; returns how long it took."""
        began, began_cpu = time.perf_counter(), time.thread_time()
        try:
            self.nodes[place].turn(events)
        except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
            self.error = self.error or error
        took_s = time.perf_counter() - began
        self.busy_s[place] += took_s
        self.cpu_s[place] += time.thread_time() - began_cpu
        self.turns[place] += 1
        self.last_run_s[place] = time.time()
        self.running[place] = False
        with self.changed:
            self.changed.notify_all()
        return took_s
