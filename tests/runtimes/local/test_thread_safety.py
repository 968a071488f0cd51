"""What threads rely on: what is published is whole, and nothing is lost between one that adds and one that takes.

With a global lock these tests have threads switch as often as they can; without one, threads run at the same time.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.runtimes.local.nudged import impatience

from shoal.kernels.spatial.tile_counts import PlacedRows
from shoal.model.control.histogram import Histogram, merged
from shoal.runtimes.local.dataflow.place_counts import PlaceCounts
from shoal.runtimes.local.dataflow.result_buffer import ResultBuffer
from shoal.runtimes.local.migration.ownership import Ownership
from shoal.runtimes.local.migration.part_messages import Gone

PATIENCE_S = 60.0
COLUMNS, CELLS = 3, 6


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    with impatience():
        yield


def beside(task: Callable[[], None], threads: int = 1) -> tuple[list[threading.Thread], list[Exception]]:
    """Run a task in threads; returns them with the list of what they raise."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001  (raised again by the test)
            raised.append(error)

    started = [threading.Thread(target=run, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()
    return started, raised


def joined(threads: list[threading.Thread], raised: list[Exception]) -> None:
    for thread in threads:
        thread.join(PATIENCE_S)
    assert raised == []
    assert not any(thread.is_alive() for thread in threads)


class Places:
    """A kernel whose tables are one point each, in a grid that is divided again at every fifth of them."""

    def __init__(self) -> None:
        self.added = 0

    def placed(self, _tables: Any) -> PlacedRows:
        self.added += 1
        none = np.zeros(0, np.int64)
        return PlacedRows(COLUMNS, np.array([self.added % CELLS]), none, np.zeros(0, np.int8))

    def counts(self) -> PlaceCounts:
        divisions = [SimpleNamespace(numbers=np.arange(CELLS)[None] // size) for size in (1, 3)]
        return PlaceCounts(np.zeros(CELLS, np.int64), lambda: divisions[self.added // 5 % 2])  # type: ignore[arg-type,return-value]


def received(counts: PlaceCounts) -> int:
    return sum(each.received for each in counts.taken())


def test_every_place_is_counted_once_while_another_thread_takes_counts() -> None:
    places, points = Places(), 3000
    counts = places.counts()

    def add() -> None:
        for _ in range(points):
            counts.add(places, {})  # type: ignore[arg-type]

    threads, raised = beside(add)
    total = 0
    while threads[0].is_alive():
        total += received(counts)
    joined(threads, raised)
    assert total + received(counts) == points


def test_counters_are_not_looked_for_in_a_list_that_another_thread_shortens() -> None:
    places = Places()
    counts = places.counts()
    taken = [0]

    class Shortened(list[Any]):
        """Without a global lock a list may become shorter between the look at its length and that at its last item."""

        def __getitem__(self, place: Any) -> Any:
            if place != -1:
                return super().__getitem__(place)
            last = len(self) - 1
            taken[0] += received(counts)
            return super().__getitem__(last)

    counts._counts = Shortened()
    for _ in range(20):
        counts.add(places, {})  # type: ignore[arg-type]
    assert taken[0] + received(counts) == 20


def test_no_result_waits_unannounced_whoever_puts_it_in() -> None:
    buffer, writers, each = ResultBuffer(), 3, 1500
    rows = pa.record_batch({"n": pa.array([1], pa.int64())})

    def put() -> None:
        for _ in range(each):
            buffer.put("t", rows, 0.0)

    threads, raised = beside(put, writers)
    got = 0
    while got < writers * each:
        assert buffer.arrived.wait(PATIENCE_S)
        taken = buffer.take()
        got += len(taken)
        buffer.release(taken)
    joined(threads, raised)
    assert (got, buffer.nbytes, buffer.empty) == (writers * each, 0, True)


def test_owners_come_whole_and_after_what_was_sent_before_them() -> None:
    workers, instances, versions = 4, 50, 1500
    ownership = Ownership(np.zeros(instances, np.int64), workers)
    sent = ownership.messages[1][0]

    def give() -> None:
        for version in range(1, versions + 1):
            sent.append(Gone(version))
            ownership.give(0, dict.fromkeys(range(instances), version % workers))

    def read() -> None:
        newest = 0
        while newest < versions:
            now = ownership.now
            before, newest = newest, now.versions[0]
            assert len(sent) >= newest >= before
            assert set(now.owner.tolist()) == {newest % workers}

    readers, wrong = beside(read, 2)
    threads, raised = beside(give)
    joined(threads, raised)
    joined(readers, wrong)


def test_counts_are_read_while_new_kinds_of_them_come_in() -> None:
    observed, refused, kinds = Histogram(), defaultdict[str, int](int), 3000

    def count() -> None:
        for number in range(kinds):
            observed.record(1e-6 * 1.01**number)
            refused[f"reason {number}"] += 1

    threads, raised = beside(count)
    before = 0
    while threads[0].is_alive():
        whole = merged([observed])
        assert before <= sum(whole.counts.values()) <= kinds
        before = sum(whole.counts.values())
        assert {number for _, number in list(refused.items())} <= {0, 1}
    joined(threads, raised)
    assert sum(merged([observed]).counts.values()) == sum(refused.values()) == kinds
