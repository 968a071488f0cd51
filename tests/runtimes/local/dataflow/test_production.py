"""Slices that several workers make are taken in order, each made once; results are as with one worker."""

import sys
import threading
from collections.abc import Mapping
from unittest.mock import patch

import pytest
from tests.small_city import result_tables

from shoal.connectors.sources.generator import Generator
from shoal.connectors.sources.source import Slice
from shoal.runtimes.local.dataflow.production import BEGUN, LEAST_ROWS, Helper, Production
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.digest import differences
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount
from shoal.workloads.ysb.events import YsbEvents


def slices(number: int, rows: int = LEAST_ROWS) -> list[Slice]:
    return [Slice(f"slice {n}", rows, {"n": n}) for n in range(number)]


def number_of(piece: Slice) -> int:
    number: int = piece.data["n"]
    return number


def test_slices_are_taken_in_order_whoever_makes_them() -> None:
    made: list[int] = []

    def make(piece: Slice) -> int:
        made.append(number_of(piece))
        return number_of(piece)

    production = Production(make, helpers=3)
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            production.help()

    threads = [threading.Thread(target=work) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        taken: list[int] = []
        for start_ in range(0, 400, 8):
            production.offer(slices(400)[start_ : start_ + 8])
            while len(taken) < start_ + 8:
                if (found := production.take()) is not None:
                    taken.append(found)
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert taken == list(range(400))
    assert sorted(made) == taken


def test_a_source_is_stuck_only_while_another_makes_what_comes_next() -> None:
    seen: list[tuple[int | None, bool]] = []

    def make(piece: Slice) -> int:
        if number_of(piece) == 1:  # made by a helper; meanwhile the source does what it can
            seen.append((production.take(), production.stuck))
            seen.append((production.take(), production.stuck))
        return number_of(piece)

    production = Production(make, helpers=1)
    production.offer(slices(3))
    assert not production.stuck
    assert production.take() == 0
    assert production.help()
    assert seen == [(None, True), (None, True)], "slice 2 was made meanwhile, and nothing else is to be done"
    assert not production.stuck
    assert [production.take(), production.take()] == [1, 2]
    assert not production.help()


def test_no_more_slices_are_begun_ahead_than_allowed() -> None:
    production = Production(number_of, helpers=1)
    helper = Helper("s", production)
    production.offer(slices(10))
    assert not helper.ready, "the source is not in a turn"
    production.in_turn = True
    while helper.ready:
        helper.turn(1)
    assert len(production._in_order) - len(production._open) == BEGUN
    assert [production.take() for _ in range(10)] == list(range(10))


@pytest.mark.parametrize(
    ("helpers", "rows"),
    [pytest.param(0, LEAST_ROWS, id="without helpers"), pytest.param(2, LEAST_ROWS - 1, id="of few events")],
)
def test_slices_are_for_the_source_alone(helpers: int, rows: int) -> None:
    production = Production(number_of, helpers)
    production.offer(slices(3, rows))
    assert not production.help()
    assert not production.stuck
    assert [production.take() for _ in range(3)] == [0, 1, 2]


def test_only_events_that_say_so_are_made_by_several_threads() -> None:
    class Others:
        batch = YsbEvents().batch

    assert Generator(YsbEvents()).concurrent
    assert not Generator(Others()).concurrent


@pytest.mark.parametrize("name", ["ysb", "nyt", "linear-road"])
@pytest.mark.parametrize("rate", [None, 400_000.0], ids=["as fast as possible", "at a rate"])
def test_results_are_right_with_helpers(name: str, rate: float | None) -> None:
    settings: Mapping[str, str] = {"per_s": "2000"} if name != "linear-road" else {}
    ready = workload(name).ready(0, Amount(60_000, rate, 9_000), settings)
    with patch("shoal.runtimes.local.dataflow.production.LEAST_ROWS", 1):
        run = start(ready.job, on="local", workers=3, local=LocalSettings(block_rows=512))
        run.wait()
    assert run.consumed == 60_000
    assert differences(result_tables(run), ready.expected(60_000)) == []
