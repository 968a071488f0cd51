"""Stepping aside: a worker lets a thread go first that may be waiting for the interpreter lock."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.runtimes.local.scheduling.test_worker_pool import PATIENCE_S, Relay, Spring, bound, channel_of, run

from shoal.runtimes.local.scheduling.worker_pool import ASIDE_S, DELIVERY_S, STARVED_S


class Busy(Spring):
    """Short turns without end, until something happens."""

    def __init__(self, home: int, over: Callable[[], bool]) -> None:
        super().__init__("busy", [], home)
        self._over = over

    @property
    def ready(self) -> bool:
        return not self._over()

    @property
    def waiting(self) -> bool:
        return not self._over()


def test_a_worker_with_short_turns_sleeps_while_another_is_in_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    aside, asked = threading.Event(), list[float]()

    def sleeping(seconds: float) -> None:
        asked.append(seconds)
        aside.set()

    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.sleep", sleeping)
    long = Relay(channel_of(1), home=0, during_turn=lambda: aside.wait(PATIENCE_S))
    pool = bound([long, Busy(1, aside.is_set)], "worker-queue", workers=2)
    run(pool)
    assert aside.is_set(), "nobody stepped aside"
    assert set(asked) == {ASIDE_S}
    assert long.observed == [0, 1, 2]


def test_nobody_sleeps_while_events_are_read_as_fast_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.sleep", asked.append)
    ended = threading.Event()

    def work() -> None:
        end_s = time.perf_counter() + 20 * STARVED_S
        while time.perf_counter() < end_s:
            pass
        ended.set()

    long = Relay(channel_of(1), home=0, during_turn=work)
    pool = bound([long, Busy(1, ended.is_set)], "worker-queue", workers=2)
    hurrying: Any = SimpleNamespace(hurries=True, next_poll_s=0.0)
    monkeypatch.setattr(pool, "_sources", [hurrying])
    run(pool)
    assert long.observed == [0, 1, 2]
    assert not asked


def test_workers_whose_turns_are_all_long_do_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.sleep", asked.append)

    def work() -> None:
        end_s = time.perf_counter() + 2 * STARVED_S
        while time.perf_counter() < end_s:
            pass

    nodes = [Relay(channel_of(*range(40)), home, work) for home in (0, 1)]
    run(bound(nodes, "worker-queue", workers=2))
    assert all(node.observed == list(range(120)) for node in nodes)
    assert not asked


def test_a_worker_alone_does_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.sleep", asked.append)
    node = Relay(channel_of(*range(200)))
    run(bound([node], "worker-queue", workers=1))
    assert len(node.observed) == 600
    assert not asked


class Emitting(Relay):
    """Emits a result in every turn."""

    def turn(self, events: int) -> int:
        self.results.emit("t", pa.record_batch({"n": [1]}), 0.0)
        return super().turn(events)


def test_a_worker_that_has_results_lets_the_thread_go_first_that_delivers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.sleep", asked.append)
    node = Emitting(channel_of(*range(20)))
    run(bound([node], "worker-queue", workers=1))
    assert len(node.observed) == 60
    assert asked == [DELIVERY_S]  # nobody has taken the first ones, so that more make no difference
