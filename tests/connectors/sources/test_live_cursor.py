"""What a running program gives is stored once, waits for the run, and must be the same after a restart."""

import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.connectors.sources import live_cursor
from shoal.connectors.sources.live_cursor import LiveCursor, read_pieces
from shoal.connectors.sources.source import Offset, Wanted
from shoal.connectors.sources.step_queue import StepQueue
from shoal.errors import CheckpointError, SourceError
from shoal.storage.directory import Directory

START: Offset = {"step": 0, "ended": False}


class Given:
    """A feed of steps that are known beforehand; `given` counts those that were taken."""

    def __init__(self, steps: Sequence[Sequence[int]], error: Exception | None = None) -> None:
        self.batches = [pa.record_batch({"n": pa.array(step, pa.int64())}) for step in steps]
        self.error = error
        self.given = 0
        self.closed = threading.Event()

    def steps(self, replayed: int) -> Generator[pa.RecordBatch, None, None]:
        for batch in self.batches:
            self.given += 1
            yield batch
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed.set()


def cursor_of(directory: Path, opened: Callable[[], Given], rows_per_epoch: int = 100) -> LiveCursor:
    return LiveCursor(opened, Directory(str(directory)), rows_per_epoch, "numbers")


def moved_on(cursor: LiveCursor, start: Offset) -> Offset:
    """The next offset, when there is one."""
    while (end := cursor.latest(start)) == start:
        pass
    return end


def numbers(cursor: LiveCursor, start: Offset, end: Offset) -> list[int]:
    rows: list[int] = []
    for piece in cursor.slices(start, end, 3):
        for raw in read_pieces(piece, Wanted(("n",), pa.schema([])), "numbers"):
            assert raw.number(0) == raw.batch["n"][0].as_py()
            rows += raw.batch["n"].to_pylist()
    return rows


STEPS = [[0, 1], [], [2], [3, 4, 5], [], []]


def all_of(cursor: LiveCursor, at: Offset = START) -> list[int]:
    rows: list[int] = []
    while not at["ended"]:
        end = moved_on(cursor, at)
        rows += numbers(cursor, at, end)
        at = end
    return rows


def test_a_restart_goes_on_after_the_steps_that_are_stored(tmp_path: Path) -> None:
    first = cursor_of(tmp_path, lambda: Given(STEPS[:4], SourceError("it broke")))
    at = moved_on(first, START)
    assert (at, numbers(first, START, at)) == ({"step": 4, "ended": False}, [0, 1, 2, 3, 4, 5])
    with pytest.raises(SourceError, match=r"^it broke$"):
        moved_on(first, at)
    again = cursor_of(tmp_path, lambda: Given([*STEPS, [6]]))
    assert numbers(again, START, at) == [0, 1, 2, 3, 4, 5]
    assert all_of(again, at) == [6]


def test_steps_that_nobody_has_read_are_not_asked_for_again(tmp_path: Path) -> None:
    assert all_of(cursor_of(tmp_path, lambda: Given(STEPS))) == [0, 1, 2, 3, 4, 5]
    feed = Given(STEPS)
    again = cursor_of(tmp_path, lambda: feed)
    assert numbers(again, START, again.latest(START)) == [0, 1, 2, 3, 4, 5]
    assert feed.given == 0


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        pytest.param([[0, 1], [], [2], [3, 4, 9], [], [], [6]], "their rows differ", id="another row"),
        pytest.param([[0, 1, 2], [], [], [3, 4, 5], [], []], "their rows differ", id="a row in another step"),
        pytest.param(STEPS[:3], "got 3;", id="fewer steps"),
    ],
)
def test_a_program_that_does_not_repeat_itself_is_refused(
    tmp_path: Path, steps: Sequence[Sequence[int]], fault: str
) -> None:
    first = cursor_of(tmp_path, lambda: Given(STEPS, SourceError("it broke")))
    at = moved_on(first, START)
    with pytest.raises(CheckpointError, match=f"same 6 steps as before the restart; {fault}"):
        moved_on(cursor_of(tmp_path, lambda: Given(steps)), at)


def test_a_program_waits_while_the_run_is_behind() -> None:
    feed = Given([[n] for n in range(200)])
    queue = StepQueue(feed, 0, "", most_rows=10, clock=lambda: 0.0)
    seen: list[int] = []
    ended = False
    while not ended:
        steps, ended = queue.taken(10, 1e9)
        seen += [step.rows["n"][0].as_py() for step in steps]
        assert feed.given <= len(seen) + 11
    assert seen == list(range(200))
    queue.close()


def test_closing_stops_the_feed_that_waits_once() -> None:
    feed = Given([[n] for n in range(1000)])
    queue = StepQueue(feed, 0, "", most_rows=10, clock=lambda: 0.0)
    queue.close()
    assert feed.closed.is_set()
    feed.closed.clear()
    queue.close()
    assert not feed.closed.is_set()
    assert feed.given <= 11


def test_a_cursor_that_is_forgotten_stops_its_feed(tmp_path: Path) -> None:
    feed = Given([[n] for n in range(10)])
    cursor = cursor_of(tmp_path, lambda: feed)
    moved_on(cursor, START)
    del cursor
    assert feed.closed.is_set()


def test_a_missing_piece_is_found_at_the_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_cursor, "PIECE_ROWS", 10)
    cursor = cursor_of(tmp_path, lambda: Given([[n] for n in range(30)]))
    at = moved_on(cursor, START)
    while not at["ended"]:
        at = moved_on(cursor, at)
    stored = sorted(tmp_path.iterdir())
    assert len(stored) > 1
    stored[0].unlink()
    with pytest.raises(CheckpointError, match="must continue with step 0; got steps-"):
        cursor_of(tmp_path, lambda: Given([]))
    for each in stored[1:]:
        each.unlink()
    with pytest.raises(CheckpointError, match=f"must end or begin at step {at['step']}; they have 0 steps"):
        cursor_of(tmp_path, lambda: Given([])).slices(START, at, 1)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    cursor = cursor_of(tmp_path, lambda: Given(STEPS))
    [piece] = cursor.slices(START, moved_on(cursor, START), 1)
    with pytest.raises(SourceError, match=r"^numbers lacks column 'm'; it has n$"):
        list(read_pieces(piece, Wanted(("m",), pa.schema([])), "numbers"))
