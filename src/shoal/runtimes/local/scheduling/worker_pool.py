"""Crews: the threads that run nodes until every source has ended and nothing waits anywhere.

A worker may be lost, by whatever goes wrong outside of a node's own work: the others then do what it would have done.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from shoal.errors import RunError
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.scheduling.barrier import Meeting

EPOCH_S = 0.0005
"""How long a thread that finds nothing to do waits before it looks again, unless another tells it sooner."""


class Crew(ABC):
    """Threads that take turns at nodes.

    `running`, `busy_s`, `cpu_s`, `turns` and `last_run_s` have an entry per node, written by who runs it; `in_hand`,
    `worked_s`, `stood_s` and the books on decisions have one per thread, written by that thread. Who is present is
    written under a lock. `lost` are workers with what went wrong. What threads may rely on when they read each other's
    numbers is in docs/design/local.md, "What threads rely on".
    """

    def __init__(self, nodes: Sequence[Node], threads: int, most: int = 0) -> None:
        """A crew of so many, which may become more, that has not begun; `nodes` with inputs before outputs."""
        self.nodes = list(nodes)
        self.threads = threads
        self.most = max(threads, most)
        self._decisions = [0] * self.most
        self._deciding_s = [0.0] * self.most
        self.worked_s = [0.0] * self.most
        self.stood_s = [0.0] * self.most
        self.in_hand: list[int | None] = [None] * self.most
        self.error: Exception | None = None
        self.lost: deque[tuple[int, BaseException]] = deque()
        self.running = [False] * len(self.nodes)
        self.busy_s = [0.0] * len(self.nodes)
        self.cpu_s = [0.0] * len(self.nodes)
        self.turns = [0] * len(self.nodes)
        self.last_run_s = [0.0] * len(self.nodes)
        self.changed = threading.Condition()
        self._roster = threading.Lock()
        self._present: dict[int, threading.Thread] = {}
        self._meeting: Meeting | None = None
        self._over = False
        self.settle: Callable[[int], None] = lambda _worker: None
        """What every thread of a worker does first."""

    def start(self) -> list[threading.Thread]:
        """Start the threads."""
        with self._roster:
            return [self._hire(worker) for worker in range(self.threads)]

    def wait(self, timeout_s: float) -> bool:
        """Wait for a while, or for somebody to end; whether anybody was still at work."""
        with self._roster:
            thread = next(iter(self._present.values()), None)
        if thread is not None:
            thread.join(timeout_s)
        return thread is not None

    def meet(self, action: Callable[[], None]) -> None:
        """Have all workers stop between two turns, one of them act for all, and all go on."""

        def act() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
                self.error = self.error or error
            self._meeting = None

        with self._roster:
            if self._meeting is None:
                self._meeting = Meeting(act)

    @property
    def standing_since_s(self) -> float:
        """When the first worker stopped for the meeting that takes place now; for its action."""
        meeting = self._meeting
        return time.perf_counter() if meeting is None else meeting.began_s

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
        if self.error is not None or self._over:
            return True
        turns = list(self.turns)
        return self._quiet() and self._quiet() and turns == self.turns

    def _quiet(self) -> bool:
        for place, node in enumerate(self.nodes):
            if node.waiting or (isinstance(node, SourceNode) and not node.ended) or self.running[place]:
                return False
        return True

    def _mark(self, place: int, worker: int) -> None:
        """A worker takes a node; whoever decides calls this while nobody else can decide the same."""
        self.in_hand[worker] = place
        self.running[place] = True

    def _hire(self, worker: int) -> threading.Thread:
        """Start a thread; who calls this has the roster."""
        thread = threading.Thread(target=self._work, args=(worker,), name=f"shoal-worker-{worker}", daemon=True)
        self._present[worker] = thread
        thread.start()
        return thread

    def _work(self, worker: int) -> None:
        try:
            self.settle(worker)
            while not self._leaves(worker):
                self._take_turns(worker)
        except BaseException as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
            self._lose(worker, error)
        with self.changed:
            self.changed.notify_all()
        meeting = self._meeting
        if meeting is not None:
            meeting.look_again()

    def _leaves(self, worker: int) -> bool:
        """Whether a worker goes, since nothing is left to do or it is needed no longer."""
        with self._roster:
            if worker < self.threads and not self.finished():
                return False
            self._over = self._over or worker < self.threads  # what is asked for from now on is too late
            del self._present[worker]
            return True

    def _lose(self, worker: int, error: BaseException) -> None:
        """Others go on without a worker, also with what it had just taken."""
        with self._roster:
            del self._present[worker]
            place = self.in_hand[worker]
            if place is not None:
                self.running[place], self.in_hand[worker] = False, None
            self.lost.append((worker, error))
            if not self._can_go_on() and not self.finished():
                failure = RunError(f"no worker is left; worker {worker} was lost: {type(error).__name__}: {error}")
                failure.__cause__ = error
                self.error = self.error or failure
            self._share_out()

    def _can_go_on(self) -> bool:
        """Whether those who are present, and stay, can do all that is to be done."""
        return any(worker < self.threads for worker in self._present)

    def _share_out(self) -> None:  # noqa: B027  (where any worker may run any node, there is nothing to divide)
        """Divide the work anew among those who are present; who calls this has the roster."""

    def _take_turns(self, worker: int) -> None:
        while worker < self.threads and not self.finished():
            meeting = self._meeting
            if meeting is not None:
                self.stood_s[worker] += meeting.attend(lambda: len(self._present))
                continue
            began = time.perf_counter()
            turn = self.next_turn(worker)
            self._deciding_s[worker] += time.perf_counter() - began
            self._decisions[worker] += 1
            if turn is None:
                with self.changed:
                    self.changed.wait(EPOCH_S)
            else:
                self.worked_s[worker] += self._run(*turn)
                self.in_hand[worker] = None

    def _run(self, place: int, events: int) -> float:
        """Take a turn; returns how long it took."""
        began, began_cpu = time.perf_counter(), time.thread_time()
        try:
            self.nodes[place].turn(events)
        except Exception as error:  # noqa: BLE001  (whatever it is, the run must hear of it)
            self.error = self.error or error
        except BaseException as error:  # noqa: BLE001  (a function of the user's may try to end the thread)
            self.error = self.error or RunError(f"{self.nodes[place].name} ended with {type(error).__name__}: {error}")
        took_s = time.perf_counter() - began
        self.busy_s[place] += took_s
        self.cpu_s[place] += time.thread_time() - began_cpu
        self.turns[place] += 1
        self.last_run_s[place] = time.time()
        self.running[place] = False
        with self.changed:
            self.changed.notify_all()
        return took_s
