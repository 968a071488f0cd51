"""The reader: makes early passes in the background of a Python process, and takes those that any process has made."""

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Lock, get_native_id

from shoal.runtimes.spark.ahead.early_pass import digest, early, is_foreseeable, packed, unpacked
from shoal.runtimes.spark.ahead.shelf import Shelf
from shoal.runtimes.spark.tasks.intake import Gathered
from shoal.runtimes.spark.tasks.slice_pass import SlicePass

LOG = logging.getLogger("shoal")
MOST_BYTES = 32 << 20
"""The largest result of a slice that is kept."""


class Reader:
    """One thread that makes early passes, one at a time; a task of the same process that makes a pass goes first."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._epoch = -1
        self._turns = Lock()
        self._background = ThreadPoolExecutor(1, "shoal-ahead", _yield_to_others)

    def gathered(self, shelf: Shelf, slice_pass: SlicePass) -> Gathered:
        """What a slice of the running epoch gives: what was made ahead, or else from a pass now."""
        self._epoch = slice_pass.plan.epoch
        if is_foreseeable(slice_pass):
            content = shelf.taken(self._epoch, digest(slice_pass))
            found = None if content is None else unpacked(content, slice_pass)
            if found is not None:
                return found
        with self._turns:
            return slice_pass.gathered()

    def begin(self, shelf: Shelf, slice_pass: SlicePass) -> "Future[None] | None":
        """Make a pass over a slice that the next epoch should read, by the plan of this one; None if it cannot be."""
        if not is_foreseeable(slice_pass):
            return None
        return self._background.submit(self._make, shelf, slice_pass)

    def _make(self, shelf: Shelf, slice_pass: SlicePass) -> None:
        epoch, name = slice_pass.plan.epoch + 1, digest(slice_pass)
        try:
            with shelf.making(epoch, name) as mine:
                if not mine or self._epoch >= epoch:
                    return
                content = packed(early(slice_pass).gathered(self._turns), slice_pass.plan.now_us)
                if content is not None and len(content) <= MOST_BYTES:
                    shelf.put(epoch, name, content)
        except Exception as error:  # noqa: BLE001  (the task of the slice meets it again, and reports it)
            LOG.debug("%s was not read ahead: %s", slice_pass.piece.where, error)


def _yield_to_others() -> None:
    """Let this thread have what the others leave: Spark's steps are short, and each waits for the one before."""
    with suppress(AttributeError, OSError):  # not every system has it or grants it; the thread then runs like others
        os.sched_setscheduler(get_native_id(), os.SCHED_IDLE, os.sched_param(0))


@cache
def reader() -> Reader:
    """The reader of this process."""
    return Reader()
