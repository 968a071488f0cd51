"""The steps of a running program, taken by a thread of their own until a run asks for them."""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from shoal.errors import CheckpointError, ShoalError, SourceError


class StepFeed(Protocol):
    """A program that has been started and gives rows step by step, the same ones whenever it is started."""

    def steps(self, replayed: int) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of each step, some of them perhaps empty; called once, on a thread.

        The first `replayed` steps are known and need not be paced. Raise a `ShoalError` if the program fails.
        """

    def close(self) -> None:
        """Stop the program; called once, from any thread, also while another one waits for the next step."""


@dataclass(frozen=True)
class LiveStep:
    """The rows of one step, the digest of all steps up to it, and when it came."""

    rows: pa.RecordBatch
    digest: str
    came_s: float


class StepQueue:
    """Holds steps that have come; when there are many, the feed has to wait."""

    def __init__(self, feed: StepFeed, replayed: int, digest: str, most_rows: int, clock: Callable[[], float]) -> None:
        """Start the thread; the first `replayed` steps are skipped, and must have this digest."""
        self._feed = feed
        self._replayed, self._digest = replayed, digest
        self._most_rows = most_rows
        self._clock = clock
        self._changed = threading.Condition()
        self._steps: deque[LiveStep] = deque()
        self._rows = 0
        self._ended = self._closed = False
        self._error: ShoalError | None = None
        self._thread = threading.Thread(target=self._run, name="shoal-feed", daemon=True)
        self._thread.start()

    def taken(self, enough_rows: int, hold_s: float) -> tuple[Sequence[LiveStep], bool]:
        """Take all steps if they are enough, have waited for long or are the last; and whether the feed has ended.

        Raises the error of the feed when all steps before it have been taken.
        """
        with self._changed:
            if not self._steps and self._error is not None:
                raise self._error
            finished = self._ended or self._error is not None
            waited = self._steps and self._clock() >= self._steps[0].came_s + hold_s
            if not (finished or waited or self._rows >= enough_rows):
                return (), False
            steps, self._steps, self._rows = self._steps, deque(), 0
            self._changed.notify()
            return list(steps), self._ended

    def close(self) -> None:
        """Stop the feed, and wait until it has stopped; nothing happens the second time."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self._feed.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._feed.steps(self._replayed)) as given:
                for step in self._new_steps(given):
                    if not self._put(step):
                        return
        except ShoalError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001  (the run must get every failure)
            self._error = SourceError(f"live source failed: {type(error).__name__}: {error}")
        else:
            self._ended = True

    def _put(self, step: LiveStep) -> bool:
        """Add a step when there is room for it; returns False if the queue has been closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._rows < self._most_rows or self._closed)
            if not self._closed:
                self._steps.append(step)
                self._rows += step.rows.num_rows
            return not self._closed

    def _new_steps(self, given: Iterable[pa.RecordBatch]) -> Iterator[LiveStep]:
        """The steps after those that are replayed; raises an error if the replayed ones are not the same as before."""
        digest, number = hashlib.blake2b(digest_size=8), 0
        for rows in given:
            number += 1
            digest.update(memoryview(rows.serialize()))
            if number > self._replayed:
                yield LiveStep(rows, digest.hexdigest(), self._clock())
            elif number == self._replayed and digest.hexdigest() != self._digest:
                raise CheckpointError(
                    f"live source must give the same {number} steps as before the restart; their rows differ; "
                    "restore scenario, options and version of the program, or start with another checkpoint"
                )
        if number < self._replayed:
            raise CheckpointError(
                f"live source must give the same {self._replayed} steps as before the restart; got {number}; "
                "restore scenario, options and version of the program, or start with another checkpoint"
            )
