"""The supervisor: the thread of a local run that delivers results and reports, and ends the run.

It is the last thread of a run. When the session gets `RunEnded`, every thread that the run has started has exited,
however the run ended: workers, the allocator of chunks, and this one. If the process exits first, because nobody waits
for the run, the workers stop after their turns: a thread inside of native code must not outlive the interpreter.
"""

import atexit
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack

from shoal.errors import RunError
from shoal.model.control.messages import MovesFinished, QueriesParked, RunEnded, WorkersLost
from shoal.runtimes.event_queue import EventQueue
from shoal.runtimes.local.dataflow.delivery import REPORT_S, Delivery
from shoal.runtimes.local.dataflow.parking import Parking
from shoal.runtimes.local.metrics import Metrics
from shoal.runtimes.local.migration.executor import Migration
from shoal.runtimes.local.report import Reports
from shoal.runtimes.local.scheduling.worker_pool import WorkerPool

LOG = logging.getLogger("shoal")
EXIT_S = 10.0
"""The longest wait for a run that is still going on when the process exits."""


class Supervisor:
    """Delivers and reports until all workers have exited."""

    def __init__(
        self,
        pool: WorkerPool,
        delivery: Delivery,
        reports: Reports,
        metrics: Metrics,
        migration: Migration | None,
        parking: Parking,
        events: EventQueue,
        now_s: Callable[[], float],
    ) -> None:
        """Nothing starts yet; `events` gets everything that the session is to know."""
        self._pool = pool
        self._delivery = delivery
        self._reports = reports
        self._metrics = metrics
        self._migration = migration
        self._parking = parking
        self._events = events
        self._now_s = now_s
        self._thread: threading.Thread | None = None

    def start(self, left_behind: ExitStack) -> None:
        """Start the thread, and the workers before it; `left_behind` is closed when the run ends."""
        self._pool.start()
        self._thread = threading.Thread(target=self._run, args=(left_behind,), name="shoal-run", daemon=True)
        self._events.producer = self._thread
        _RUNNING.add(self)
        try:
            self._thread.start()
        except BaseException:
            _RUNNING.discard(self)
            raise

    def abandon(self) -> None:
        """End the run without its results, since the process exits; called by the main thread."""
        LOG.warning("the process exits while a run goes on, so its results are incomplete; call Run.wait before")
        self._pool.fail(RunError("the process exited before the run ended"))
        if self._thread is not None:
            self._thread.join(EXIT_S)
            if self._thread.is_alive():
                LOG.warning("a run did not end within %s s: its sink or a function does not return", EXIT_S)

    def _run(self, left_behind: ExitStack) -> None:
        error = self._followed()
        try:
            left_behind.close()
        except Exception as failure:  # noqa: BLE001  (the session must report any error)
            error = error or failure
        _RUNNING.discard(self)
        self._events.put(RunEnded(error, at_s=self._now_s()))

    def _followed(self) -> Exception | None:
        """Deliver and report until the work is done or has failed; returns the error, if any."""
        try:
            while self._pool.wait(self._delivery.wait_s):
                self._delivery.await_results()
                self._advance()
            self._finish()
        except Exception as failure:  # noqa: BLE001  (the session must report any error)
            return failure
        except BaseException as failure:  # noqa: BLE001  (a sink may try to end the thread)
            return RunError(f"the sink ended with {type(failure).__name__}: {failure}")
        return self._pool.error

    def _advance(self) -> None:
        """Deliver once, and report if it is time."""
        self._delivery.deliver()
        self._report_parked()
        self._report_losses()
        self._report_moves()
        if self._reports.due(REPORT_S):
            self._report()
            if self._migration is not None:
                self._migration.advance()

    def _finish(self) -> None:
        """Deliver and report all that is left after the workers have exited."""
        while not self._delivery.done:
            self._delivery.deliver()
            if self._reports.due(REPORT_S):
                self._report()
        self._report_parked()
        self._report_losses()
        self._report()
        self._report_moves(ended=True)

    def _report_parked(self) -> None:
        while self._parking.failures:
            failed = self._parking.failures.popleft()
            self._events.put(QueriesParked(failed.queries, failed.reason, failed.row, at_s=self._now_s()))

    def _report_losses(self) -> None:
        while self._pool.lost:
            worker, error = self._pool.lost.popleft()
            reason = f"{type(error).__name__}: {error}"
            self._events.put(WorkersLost((worker,), reason, at_s=self._now_s()))

    def _report_moves(self, *, ended: bool = False) -> None:
        """Report finished rebindings to the session; at the end, abort the others."""
        if self._migration is not None:
            for rebind, moves in self._migration.finished(ended=ended):
                self._events.put(MovesFinished(rebind, moves, at_s=self._now_s()))

    def _report(self) -> None:
        """Report to the session what has happened since the last report."""
        self._metrics.sample()
        report = self._reports.next()
        if report is not None:
            self._events.put(report)


_RUNNING: set[Supervisor] = set()
"""Runs that have not ended."""


@atexit.register
def _abandon_all() -> None:
    """End the runs that nobody waits for, before the interpreter does."""
    for supervisor in list(_RUNNING):
        supervisor.abandon()
