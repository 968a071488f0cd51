"""Sessions that check the order of their calls, so that an engine has to answer legal ones only."""

import threading
from abc import ABC, abstractmethod
from typing import Literal

import pyarrow as pa

from shoal.errors import RunError
from shoal.experiments.engines.contract import EngineJob
from shoal.experiments.engines.row_types import declared_rows

Phase = Literal["opened", "started", "ended", "stopped"]


class OrderedSession(ABC):
    """An `EngineSession` of an engine called `name`; subclasses do what is left when calls and rows are checked."""

    def __init__(self, name: str, job: EngineJob) -> None:
        """Nothing runs yet."""
        self._name, self._job = name, job
        self._phase: Phase = "opened"
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to run the queries."""
        self._move("start", "opened", "started")
        self._begin()

    def receive(self, stream: str, rows: pa.RecordBatch) -> None:
        """Take rows, as their stream declares them."""
        if self._phase != "started":
            raise self._refusal("receive", "started")
        self._take(stream, declared_rows(self._name, self._job, stream, rows))

    def end(self) -> None:
        """Emit all results that are left."""
        self._move("end", "started", "ended")
        self._finish()

    def stop(self) -> None:
        """Release everything; may be called while another thread is in `receive` or `end`."""
        with self._lock:
            if self._phase == "stopped":
                return
            self._phase = "stopped"
        self._release()

    @property
    def _stopped(self) -> bool:
        return self._phase == "stopped"

    def _move(self, call: str, expected: Phase, after: Phase) -> None:
        with self._lock:
            if self._phase != expected:
                raise self._refusal(call, expected)
            self._phase = after

    def _refusal(self, call: str, expected: Phase) -> RunError:
        return RunError(f"{call} of {self._name} needs a session that is {expected}; it is {self._phase}")

    @abstractmethod
    def _begin(self) -> None:
        """Start what runs."""

    @abstractmethod
    def _take(self, stream: str, rows: pa.RecordBatch) -> None:
        """Accept rows that have been checked."""

    @abstractmethod
    def _finish(self) -> None:
        """Emit every result; no rows follow."""

    @abstractmethod
    def _release(self) -> None:
        """End everything; called once, in any phase, perhaps while another thread is in a method."""
