"""Worker pools: the threads that run nodes until every source has ended and no rows wait.

A worker is lost if an error occurs outside of a node's turn; the others then take over its work.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from shoal.errors import RunError
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.dataflow.source_node import SourceNode
from shoal.runtimes.local.scheduling.barrier import Barrier
from shoal.runtimes.local.scheduling.timer_slack import exact_timers

IDLE_WAIT_S = 0.0003
"""How long an idle thread waits at most before it asks for a turn again, unless it is notified."""
SHORTEST_WAIT_S = 0.00002
STARVED_S = 0.0005
"""A worker that is in a turn for longer, while another ends one that was shorter, may be waiting for the lock."""
ASIDE_S = 0.00003
"""How long the other one then sleeps, so that the waiting thread wakes up and finds the lock free."""
DELIVERY_S = 0.00009
"""How long a worker sleeps after results that nobody delivers yet: the thread that does has yet to wake up."""
ASIDE_EVERY_S = 0.0002
"""How long it works in between, since a worker that is in a turn for long may as well be in a long call."""


class WorkerPool(ABC):
    """Threads that take turns at nodes.

    `running`, `busy_s`, `cpu_s`, `turns` and `last_run_s` have an entry per node, written by the thread that runs it;
    `current_node`, `worked_s`, `stopped_s` and the statistics of decisions have one per thread, written by that thread.
    `_running_threads` is written under `_threads_lock`. `lost` are workers with their errors. What threads may rely on
    when they read each other's numbers is in docs/design/local.md, "What threads rely on".
    """

    def __init__(self, nodes: Sequence[Node], threads: int, max_threads: int = 0) -> None:
        """A pool of `threads`, later up to `max_threads`, that has not started; `nodes` with inputs before outputs."""
        self.nodes = list(nodes)
        self._sources = [node for node in nodes if isinstance(node, SourceNode)]
        self.threads = threads
        self.max_threads = max(threads, max_threads)
        self._decisions = [0] * self.max_threads
        self._deciding_s = [0.0] * self.max_threads
        self.worked_s = [0.0] * self.max_threads
        self.stopped_s = [0.0] * self.max_threads
        self.current_node: list[int | None] = [None] * self.max_threads
        self._turn_began_s = [math.inf] * self.max_threads
        self._aside_until_s = [0.0] * self.max_threads
        self.error: Exception | None = None
        self.lost: deque[tuple[int, BaseException]] = deque()
        self.running = [False] * len(self.nodes)
        self.busy_s = [0.0] * len(self.nodes)
        self.cpu_s = [0.0] * len(self.nodes)
        self.turns = [0] * len(self.nodes)
        self.last_run_s = [0.0] * len(self.nodes)
        self.changed = threading.Condition()
        self._threads_lock = threading.Lock()
        self._running_threads: dict[int, threading.Thread] = {}
        self._started: list[threading.Thread] = []
        self._barrier: Barrier | None = None
        self._ended = False
        self.on_thread_start: Callable[[int], None] = lambda _worker: None
        """Called first by every thread, with the number of its worker."""

    def start(self) -> list[threading.Thread]:
        """Start the threads."""
        with self._threads_lock:
            return [self._start_thread(worker) for worker in range(self.threads)]

    def wait(self, timeout_s: float) -> bool:
        """Wait for one thread to exit, or for the timeout; returns whether any thread was running."""
        with self._threads_lock:
            thread = next(iter(self._running_threads.values()), None)
        if thread is not None:
            thread.join(timeout_s)
        return thread is not None

    def fail(self, error: Exception) -> None:
        """End the work with an error: every thread exits after its turn. Any thread may call it."""
        self.error = self.error or error
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        """End the work, if it has not ended, and wait until all threads have exited; no worker may call it."""
        with self._threads_lock:
            self._ended = True
            started = self._started
        with self.changed:
            self.changed.notify_all()
        for thread in started:
            thread.join()

    def stop_the_world(self, action: Callable[[], None]) -> None:
        """Have all workers stop between two turns, one of them run the action, and all continue.

        Returns at once. If a barrier is already pending, the action is dropped and the caller must retry.
        """

        def act() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001  (the run must report any error)
                self.error = self.error or error
            self._barrier = None

        with self._threads_lock:
            if self._barrier is None:
                self._barrier = Barrier(act)

    @property
    def stopped_since_s(self) -> float:
        """When the first worker stopped at the present barrier; for its action."""
        barrier = self._barrier
        return time.perf_counter() if barrier is None else barrier.began_s

    @property
    def decisions(self) -> int:
        """How often a thread has asked for a turn."""
        return sum(self._decisions)

    @property
    def deciding_s(self) -> float:
        """Time spent on choosing turns, including waits for locks."""
        return sum(self._deciding_s)

    @abstractmethod
    def next_turn(self, worker: int) -> tuple[int, int] | None:
        """Choose and claim the next node of a worker: its index and a number of events; None if none is ready.

        Called by the worker's thread between two turns. Afterwards no other worker may get the same node.
        """

    def finished(self) -> bool:
        """Whether no work is left.

        If two checks find no rows waiting and no node running, and no turn has ended meanwhile, then no rows were in
        flight between the checks.
        """
        if self.error is not None or self._ended:
            return True
        turns = list(self.turns)
        return self._idle() and self._idle() and turns == self.turns

    def _idle(self) -> bool:
        for index, node in enumerate(self.nodes):
            if node.waiting or (isinstance(node, SourceNode) and not node.ended) or self.running[index]:
                return False
        return True

    def _stands_by(self, worker: int) -> bool:  # noqa: ARG002  (for pools that need not all of their workers)
        """Whether a worker is not needed now; called by its thread between two turns."""
        return False

    def _stand_by(self) -> None:  # noqa: B027  (never called if no worker stands by)
        """Wait for a while, or until workers are needed."""

    def _claim(self, index: int, worker: int) -> None:
        """Mark a node as taken by a worker; called by `next_turn` under the lock that guards its choice."""
        self.current_node[worker] = index
        self.running[index] = True

    def _start_thread(self, worker: int) -> threading.Thread:
        """Start a thread; the caller holds `_threads_lock`."""
        thread = threading.Thread(target=self._work, args=(worker,), name=f"shoal-worker-{worker}", daemon=True)
        self._running_threads[worker] = thread
        try:
            thread.start()
        except BaseException:
            del self._running_threads[worker]
            raise
        self._started = [*(each for each in self._started if each.is_alive()), thread]
        return thread

    def _work(self, worker: int) -> None:
        try:
            exact_timers()
            self.on_thread_start(worker)
            while not self._exits(worker):
                self._take_turns(worker)
        except BaseException as error:  # noqa: BLE001  (the run must report any error)
            self._lose(worker, error)
        with self.changed:
            self.changed.notify_all()
        barrier = self._barrier
        if barrier is not None:
            barrier.recheck()

    def _exits(self, worker: int) -> bool:
        """Whether a thread exits, because no work is left or the pool has shrunk; if so, it is deregistered."""
        with self._threads_lock:
            if worker < self.threads and not self.finished():
                return False
            self._ended = self._ended or worker < self.threads  # later requests come too late
            del self._running_threads[worker]
            return True

    def _lose(self, worker: int, error: BaseException) -> None:
        """Deregister a lost worker and release the node that it had claimed."""
        with self._threads_lock:
            del self._running_threads[worker]
            index = self.current_node[worker]
            if index is not None:
                self.running[index], self.current_node[worker] = False, None
            self.lost.append((worker, error))
            if not self._can_continue() and not self.finished():
                failure = RunError(f"no worker is left; worker {worker} was lost: {type(error).__name__}: {error}")
                failure.__cause__ = error
                self.error = self.error or failure
            self._assign_queues()

    def _can_continue(self) -> bool:
        """Whether the threads that keep running can do all the work."""
        return any(worker < self.threads for worker in self._running_threads)

    def _assign_queues(self) -> None:  # noqa: B027  (pools whose workers run any node have nothing to assign)
        """Assign the work again to the running threads; the caller holds `_threads_lock`."""

    def _take_turns(self, worker: int) -> None:
        while worker < self.threads and not self.finished():
            barrier = self._barrier
            if barrier is not None:
                self.stopped_s[worker] += barrier.wait_for_all(lambda: len(self._running_threads))
                continue
            if self._stands_by(worker):
                self._stand_by()
                continue
            began = time.perf_counter()
            turn = self.next_turn(worker)
            self._deciding_s[worker] += time.perf_counter() - began
            self._decisions[worker] += 1
            if turn is None:
                with self.changed:
                    self.changed.wait(self._idle_wait_s())
            else:
                self._turn_began_s[worker] = time.perf_counter()
                arrived = self.nodes[turn[0]].results.buffer.arrived
                waited = arrived.is_set()
                took_s = self._run(*turn)
                self._turn_began_s[worker] = math.inf
                self.worked_s[worker] += took_s
                self.current_node[worker] = None
                if arrived.is_set() and not waited:
                    time.sleep(DELIVERY_S)  # the thread that delivers results waits for the interpreter lock
                elif took_s < STARVED_S:
                    self._step_aside(worker)

    def _idle_wait_s(self) -> float:
        """How long to wait without a turn: until the first source may be polled that is between two polls."""
        now_s = time.time()
        first_s = min((each.next_poll_s for each in self._sources if each.next_poll_s > now_s), default=math.inf)
        return max(SHORTEST_WAIT_S, min(IDLE_WAIT_S, first_s - now_s))

    def _step_aside(self, worker: int) -> None:
        """Sleep for a moment if another worker is in a turn for long: it may be waiting for the interpreter lock.

        A thread that takes short turns releases the lock and has it back before one that waits has woken up. While
        events are read as fast as possible nobody waits for a result, and the time is better used.
        """
        if any(source.hurries for source in self._sources):
            return
        now_s = time.perf_counter()
        if min(self._turn_began_s) < now_s - STARVED_S and now_s >= self._aside_until_s[worker] + ASIDE_EVERY_S:
            time.sleep(ASIDE_S)
            self._aside_until_s[worker] = time.perf_counter()

    def _run(self, index: int, events: int) -> float:
        """Run a turn of a node; returns how long it took."""
        began, began_cpu = time.perf_counter(), time.thread_time()
        try:
            self.nodes[index].turn(events)
        except Exception as error:  # noqa: BLE001  (the run must report any error)
            self.error = self.error or error
        except BaseException as error:  # noqa: BLE001  (a user function may try to end the thread)
            self.error = self.error or RunError(f"{self.nodes[index].name} ended with {type(error).__name__}: {error}")
        took_s = time.perf_counter() - began
        self.busy_s[index] += took_s
        self.cpu_s[index] += time.thread_time() - began_cpu
        self.turns[index] += 1
        self.last_run_s[index] = time.time()
        self.running[index] = False
        with self.changed:
            self.changed.notify_all()
        return took_s
