"""Streams of running programs: a thread takes steps from the program, and the cursor stores them as pieces.

A program that is started again gives the same steps again. So after a restart the steps that are already stored are
skipped, and compared with those stored by a digest.
"""

import time
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa

from shoal.connectors.sources.piece_log import PieceLog, StoredPiece, stored_table
from shoal.connectors.sources.source import DRAIN, Offset, RawBatch, Slice, Wanted, column_fault
from shoal.connectors.sources.step_queue import LiveStep, StepFeed, StepQueue
from shoal.errors import CheckpointError, SourceError
from shoal.storage.directory import Directory

PIECE_ROWS = 20_000
"""Rows that are stored as one piece, if they come fast."""
HOLD_S = 0.2
"""How long steps may wait for others, to be stored with them."""
QUEUED_ROWS = 200_000
"""Rows after which the program has to wait for the run."""


class LiveCursor:
    """Stores the steps of a feed and offers them, whole pieces only.

    All rows of a step have the same time, and steps follow each other in time. Offsets lie between two steps, so that
    no row is late, wherever an epoch ends.
    """

    def __init__(
        self,
        opened: Callable[[], StepFeed],
        directory: Directory,
        rows_per_epoch: int,
        place: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read what an earlier run has stored; the feed is opened when more is needed."""
        self._opened = opened
        self._directory = directory
        self._rows_per_epoch = rows_per_epoch
        self._place = place
        self._clock = clock
        self._log = PieceLog(directory)
        self._queue: StepQueue | None = None

    def latest(self, start: Offset) -> Offset:
        """The end of the pieces that one epoch may read; the stream ends with its feed."""
        if start["ended"]:
            return start
        self._check(start)
        if self._directory.exists(DRAIN):
            self.close()
            return {**start, "ended": True}
        ended = self._store() if start["step"] == self._log.steps else False
        step = self._limit(start["step"])
        return {"step": step, "ended": ended and step == self._log.steps}

    def slices(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Slice]:
        """The pieces between two offsets, in contiguous runs of about equal number."""
        self._check(end)
        pieces = self._between(start["step"], end["step"])
        number = max(1, min(parallelism, len(pieces)))
        cuts = [len(pieces) * n // number for n in range(number + 1)]
        return [self._slice(pieces[a:b]) for a, b in pairwise(cuts)]

    def close(self) -> None:
        """Stop the feed; what it has given is stored, or comes again after a restart."""
        if self._queue is not None:
            self._queue.close()

    def _store(self) -> bool:
        """Store the steps that have come, if they are many or have waited; returns whether the feed has ended."""
        steps, ended = self._running().taken(PIECE_ROWS, HOLD_S)
        piece, rows = list[LiveStep](), 0
        for step in steps:
            piece.append(step)
            rows += step.rows.num_rows
            if rows >= PIECE_ROWS:
                self._log.append([each.rows for each in piece], step.digest)
                piece, rows = [], 0
        if piece:
            self._log.append([each.rows for each in piece], piece[-1].digest)
        return ended

    def _running(self) -> StepQueue:
        """The queue of the feed, which is opened if it is not yet."""
        if self._queue is None:
            self._queue = StepQueue(self._opened(), self._log.steps, self._log.digest, QUEUED_ROWS, self._clock)
            weakref.finalize(self, self._queue.close)
        return self._queue

    def _limit(self, step: int) -> int:
        """The step after the pieces that one epoch may read: at least one, if there is one."""
        rows = 0
        for piece in self._between(step, self._log.steps):
            if rows and rows + piece.rows > self._rows_per_epoch:
                break
            rows, step = rows + piece.rows, piece.stop
        return step

    def _between(self, first: int, stop: int) -> list[StoredPiece]:
        pieces = self._log.pieces
        return pieces[bisect_left(pieces, first, key=_first) : bisect_right(pieces, stop, key=_stop)]

    def _slice(self, pieces: Sequence[StoredPiece]) -> Slice:
        where = f"{self._place}, steps {pieces[0].first} to {pieces[-1].stop - 1}" if pieces else "nothing"
        parts = [{"name": piece.name, "first_row": piece.first_row} for piece in pieces]
        return Slice(where, sum(piece.rows for piece in pieces), {"directory": self._log.uri, "parts": parts})

    def _check(self, offset: Offset) -> None:
        """Reject a position that the stored pieces do not have."""
        step, pieces = offset["step"], self._log.pieces
        if step and (step > self._log.steps or pieces[bisect_left(pieces, step, key=_stop)].stop != step):
            raise CheckpointError(
                f"pieces in {self._log.uri} must end or begin at step {step}; they have {self._log.steps} steps; "
                "they do not belong to this checkpoint, or some of their files are missing"
            )


def read_pieces(piece: Slice, wanted: Wanted, place: str) -> Iterator[RawBatch]:
    """The rows of a slice; a column to read must be there, one that is only checked may be missing."""
    for part in piece.data["parts"]:
        table: pa.Table = stored_table(piece.data["directory"], part["name"])
        if fault := column_fault(table.column_names, wanted.read):
            raise SourceError(f"{place} {fault}")
        columns = [*wanted.read, *(name for name in wanted.checked.names if name in table.column_names)]
        row = part["first_row"]
        for batch in table.select(columns).to_batches():
            yield RawBatch(batch, place, row)
            row += batch.num_rows


def _first(piece: StoredPiece) -> int:
    return piece.first


def _stop(piece: StoredPiece) -> int:
    return piece.stop
