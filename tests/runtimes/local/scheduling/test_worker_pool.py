"""Worker pools: every node is run by one worker at a time, in the order of its queue, by a worker that may."""

import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from shoal.kernels.columns.block import Block
from shoal.kernels.kernel import FOREVER_US
from shoal.policies.scheduling.catalog import SCHEDULING
from shoal.policies.scheduling.policy import BLOCK_EVENTS
from shoal.runtimes.local.dataflow.channel import Channel, Stamp
from shoal.runtimes.local.dataflow.node import Node
from shoal.runtimes.local.memory.blocks import Layout, Pool, Sizes
from shoal.runtimes.local.scheduling.bound_pool import QUEUES, BoundPool
from shoal.runtimes.local.scheduling.scheduler import Scheduler
from shoal.runtimes.local.scheduling.thread_per_node import ThreadPerNode
from shoal.runtimes.local.scheduling.worker_pool import IDLE_WAIT_S, SHORTEST_WAIT_S, WorkerPool

PATIENCE_S = 60.0
WORKERS = 3
SIZES = Sizes(block_rows=8, chunk_blocks=2, active_chunks=2)


class NoKeeper:
    """An allocator that makes no chunks."""

    def ask(self, pool: Pool, layout: Layout, rows: int) -> None:
        pass


def channel_of(*watermarks_us: int) -> Channel:
    """A channel with a few numbers for every watermark."""
    channel = Channel(SIZES, Pool(SIZES, NoKeeper()))  # type: ignore[arg-type]
    for index, watermark_us in enumerate(watermarks_us):
        channel.write(Block({"n": np.arange(3 * index, 3 * index + 3)}, 3), Stamp(watermark_us, 0.0))
    return channel


class Relay(Node):
    """Forwards numbers, and records them and its workers."""

    def __init__(self, source: Channel, home: int = 0, during_turn: Callable[[], object] = lambda: None) -> None:
        super().__init__("relay", [source], home)
        self.observed: list[int] = []
        self.workers: set[str] = set()
        self.overlaps = 0
        self._during_turn = during_turn
        self._inside = threading.Lock()

    def turn(self, events: int) -> int:
        if not self._inside.acquire(blocking=False):
            self.overlaps += 1
            return 0
        self.workers.add(threading.current_thread().name)
        self._during_turn()
        taken = 0
        while (packet := self._take(0, taken, events)) is not None:
            taken += packet.block.length
            self.observed += packet.owned.columns["n"].tolist()
            self._send(packet.block, packet.stamp)
        self._inside.release()
        return taken


class Failing(Node):
    """Processes no input."""

    def __init__(self, source: Channel, home: int = 0) -> None:
        super().__init__("failing", [source], home)

    def turn(self, events: int) -> int:
        raise LookupError("this node has a mistake")


class Spring(Node):
    """A source that always has more events."""

    is_source = True

    @property
    def ready(self) -> bool:
        return True

    def turn(self, events: int) -> int:
        return 0


def linked(before: Node) -> Channel:
    channel = channel_of()
    before.outputs.append(channel)
    return channel


def bound(nodes: Sequence[Node], design: str, workers: int = WORKERS) -> BoundPool:
    """Every second worker is on the second processor node."""
    return BoundPool(nodes, design, [worker % 2 for worker in range(workers)])


def scheduled(nodes: Sequence[Node], policy: str) -> Scheduler:
    return Scheduler(nodes, SCHEDULING[policy], WORKERS)


def on_demand(nodes: Sequence[Node]) -> Scheduler:
    """One worker takes turns, and the others stand by."""
    return Scheduler(nodes, SCHEDULING["state-based"], WORKERS, target_s=0.002)


POOLS: dict[str, Callable[[Sequence[Node]], WorkerPool]] = {
    **{design: partial(bound, design=design) for design in QUEUES},
    **{policy: partial(scheduled, policy=policy) for policy in SCHEDULING if policy != "threads"},
    "state-based, others standing by": on_demand,
    "threads": ThreadPerNode,
}


def run(pool: WorkerPool) -> None:
    """Run to the end."""
    pool.start()
    deadline_s = time.monotonic() + PATIENCE_S
    while pool.wait(1.0):
        assert time.monotonic() < deadline_s


def waiting_at(*watermarks_us: int, homes: Sequence[int] = (0, 0, 0, 0)) -> list[Node]:
    """Nodes with one waiting watermark each."""
    return [Relay(channel_of(time_us), home) for time_us, home in zip(watermarks_us, homes, strict=False)]


def order_of(pool: WorkerPool, worker: int = 0) -> list[int]:
    """The indices of the nodes that a worker gets while those before still run."""
    indices = []
    while (turn := pool.next_turn(worker)) is not None:
        indices.append(turn[0])
    return indices


def all_turns(pool: WorkerPool) -> list[int]:
    """The indices of the nodes that workers get, one turn each."""
    turns = [pool.next_turn(worker) for worker in range(pool.threads)]
    return sorted(turn[0] for turn in turns if turn is not None)


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval_s)


@pytest.mark.parametrize("kind", POOLS)
def test_events_pass_every_node_in_order_and_no_node_is_run_by_two_at_once(kind: str, impatient: None) -> None:
    chains: list[list[Node]] = []
    for home in range(4):
        chain: list[Node] = [Relay(channel_of(*range(300)), home % WORKERS)]
        for step in range(3):
            chain.append(Relay(linked(chain[-1]), (home + step) % WORKERS))
        chains.append(chain)
    nodes = [node for level in zip(*chains, strict=True) for node in level]
    pool = POOLS[kind](nodes)
    run(pool)
    assert pool.error is None
    assert pool.finished()
    for node in nodes:
        assert isinstance(node, Relay)
        assert node.overlaps == 0
        assert node.observed == list(range(900))
    assert sum(pool.turns) >= len(nodes)
    assert pool.decisions >= sum(pool.turns)
    assert not any(pool.running)


def test_a_node_with_a_queue_per_worker_is_run_by_the_worker_it_belongs_to(impatient: None) -> None:
    nodes = [Relay(channel_of(*range(100)), index % WORKERS) for index in range(12)]
    pool = bound(nodes, "worker-queue")
    run(pool)
    assert [node.workers for node in nodes] == [{f"shoal-worker-{node.home}"} for node in nodes]
    assert pool.stolen == 0


def test_a_node_with_a_thread_of_its_own_is_run_by_that_thread(impatient: None) -> None:
    nodes = [Relay(channel_of(*range(100))) for _ in range(5)]
    run(ThreadPerNode(nodes))
    assert [node.workers for node in nodes] == [{f"shoal-worker-{index}"} for index in range(5)]


def test_an_idle_worker_takes_from_the_queue_of_another_processor_node() -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)  # passed only if two workers are there at the same time
    nodes = [Relay(channel_of(1), home=0, during_turn=together.wait) for _ in range(2)]
    pool = bound(nodes, "node-queue", workers=2)
    run(pool)
    assert pool.error is None
    assert {name for node in nodes for name in node.workers} == {"shoal-worker-0", "shoal-worker-1"}
    assert pool.stolen > 0


@pytest.mark.parametrize(
    ("design", "worker", "indices", "stolen"),
    [
        pytest.param("single-queue", 0, [2, 0, 3, 1], 0, id="all from one queue"),
        pytest.param("single-queue", 1, [2, 0, 3, 1], 0, id="any worker"),
        pytest.param("node-queue", 0, [2, 0, 3, 1], 2, id="its own processor node's first, then the other's"),
        pytest.param("node-queue", 1, [3, 1, 2, 0], 2, id="its own first, then those of processor node 0"),
        pytest.param("node-queue", 2, [2, 0, 3, 1], 2, id="another worker of processor node 0"),
        pytest.param("worker-queue", 0, [2, 0], 0, id="its own"),
        pytest.param("worker-queue", 1, [3, 1], 0, id="its own only"),
        pytest.param("worker-queue", 2, [], 0, id="nothing of others"),
    ],
)
def test_queues_are_served_by_event_time(design: str, worker: int, indices: list[int], stolen: int) -> None:
    pool = bound(waiting_at(20, 40, 10, 30, homes=(0, 1, 0, 1)), design)
    assert order_of(pool, worker) == indices
    assert pool.stolen == stolen


def test_a_single_queue_goes_by_event_time_wherever_nodes_belong() -> None:
    pool = bound(waiting_at(30, 10, 20, 10, homes=(0, 1, 2, 0)), "single-queue")
    assert order_of(pool) == [1, 3, 2, 0]


def test_event_time_is_that_of_the_input_that_is_furthest_behind() -> None:
    one, other = waiting_at(20, 15)
    one.inputs.append(channel_of(10, 90))
    one.inputs.append(channel_of())
    assert order_of(bound([other, one], "single-queue")) == [1, 0]


@pytest.mark.parametrize("time_us", [5, FOREVER_US], ids=["in the middle of a stream", "at its end"])
def test_sources_are_asked_where_nothing_waits(time_us: int) -> None:
    pool = bound([Spring("spring"), *waiting_at(time_us)], "single-queue")
    assert order_of(pool) == [1, 0]


@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind != "threads"])
def test_no_source_is_forgotten_while_another_could_always_give_more(kind: str) -> None:
    springs = [Spring(name) for name in ("one", "two", "three")]
    pool = POOLS[kind](springs)
    for _ in range(9):
        turn = pool.next_turn(0)
        assert turn is not None
        pool._run(*turn)
    assert pool.turns == [3, 3, 3]


@pytest.mark.parametrize("kind", POOLS)
def test_a_node_whose_reader_is_too_far_behind_waits(kind: str) -> None:
    node = Relay(channel_of(1))
    node.outputs.append(channel_of(*range(11)))
    assert node.blocked
    reader = Relay(node.outputs[0])
    pool = POOLS[kind]([node, reader])
    assert all_turns(pool) == [1]
    reader.turn(100)
    pool.running[1] = False
    assert all_turns(pool) == [0]


def _beside_a_busy_node(node: Relay, policy: str) -> Scheduler:
    """A pool whose first node asks far too soon, with far too little to do, while the second is in a turn."""
    pool = scheduled([node, Relay(channel_of())], policy)
    pool.last_run_s[0] = time.time() + 1000
    pool.running[1] = True
    return pool


@pytest.mark.parametrize("policy", ["state-based", "min-cost"])
def test_a_node_that_is_not_worth_a_turn_has_one_while_nobody_else_is_busy(policy: str) -> None:
    pool = _beside_a_busy_node(Relay(channel_of(1)), policy)
    assert pool.next_turn(0) is None
    pool.running[1] = False
    turn = pool.next_turn(0)
    assert turn is not None
    assert turn[0] == 0


@pytest.mark.parametrize("policy", ["state-based", "min-cost"])
def test_a_policy_with_thresholds_lets_a_node_run_that_holds_others_back(policy: str) -> None:
    node = Relay(channel_of(*range(10)))
    pool = _beside_a_busy_node(node, policy)
    assert pool.next_turn(0) is None
    node.inputs[0].write(Block({"n": np.arange(3)}, 3), Stamp(10, 0.0))
    assert node.inputs[0].full
    assert pool.next_turn(0) is not None


@pytest.mark.parametrize("kind", [kind for kind in POOLS if kind not in ("threads", "worker-queue")])
def test_a_running_node_is_given_to_no_other_worker(kind: str) -> None:
    pool = POOLS[kind](waiting_at(1, 2))
    first, second = pool.next_turn(0), pool.next_turn(1)
    assert first is not None
    assert second is not None
    assert {first[0], second[0]} == {0, 1}
    assert [pool.next_turn(worker) for worker in range(WORKERS)] == [None] * WORKERS
    pool.running[first[0]] = False
    again = pool.next_turn(2)
    assert again is not None
    assert again[0] == first[0]


@pytest.mark.parametrize("kind", POOLS)
def test_a_node_that_fails_ends_the_work_with_its_error(kind: str) -> None:
    endless = [Spring("spring", home=home) for home in range(2)]
    pool = POOLS[kind]([*endless, Relay(channel_of(1), home=1), Failing(channel_of(1), home=2)])
    run(pool)
    assert isinstance(pool.error, LookupError)
    assert pool.finished()


@pytest.mark.parametrize("kind", POOLS)
def test_work_is_done_only_when_nothing_waits_and_no_node_runs(kind: str) -> None:
    node = Relay(channel_of(1))
    pool = POOLS[kind]([node])
    assert not pool.finished()
    assert pool.next_turn(0) is not None
    node.turn(10)  # what it took in may yet have to be handed on
    assert not pool.finished()
    pool.running[0] = False
    assert pool.finished()


def test_a_queue_whose_worker_is_gone_is_served_by_all_others() -> None:
    pool = bound(waiting_at(20, 40, 10, 30, homes=(0, 1, 2, 2)), "worker-queue", workers=3)
    assert [order_of(pool, worker) for worker in range(3)] == [[0], [1], [2, 3]]
    pool = bound(waiting_at(20, 40, 10, 30, homes=(0, 1, 2, 2)), "worker-queue", workers=2)
    assert pool.next_turn(0) == (2, BLOCK_EVENTS)  # by event time, whatever their home
    assert pool.next_turn(1) == (3, BLOCK_EVENTS)
    assert [order_of(pool, worker) for worker in range(2)] == [[0], [1]]


def test_no_queue_without_a_worker_is_forgotten_while_a_source_could_always_give_more() -> None:
    waiting = waiting_at(5, 5, 5, homes=(1, 2, 3))
    pool = bound([Spring("spring", home=0), *waiting], "worker-queue", workers=1)
    for _ in range(2 * len(waiting)):
        turn = pool.next_turn(0)
        assert turn is not None
        pool._run(*turn)
    assert not any(node.waiting for node in waiting)
    assert pool.turns == [3, 1, 1, 1]


@pytest.mark.parametrize("design", QUEUES)
def test_a_pool_becomes_smaller_and_larger_while_it_works(design: str, impatient: None) -> None:
    sizes = itertools.cycle([1, 4, 2, 3])

    def resize() -> None:
        if draw.random() < 0.1:
            pool.resize([worker % 2 for worker in range(next(sizes))])

    draw = random.Random(1)
    chain = [Relay(channel_of(*range(300)), 0, resize)]
    for home in (1, 2, 3, 0, 1, 2, 3):
        chain.append(Relay(linked(chain[-1]), home))
    chain[0].stream = 7  # the home of what reads a stream is that number modulo the workers
    pool = BoundPool(chain, design, [0, 1])
    run(pool)
    assert pool.error is None
    assert pool.finished()
    for node in chain:
        assert node.overlaps == 0
        assert node.observed == list(range(900))
    assert chain[0].home == 7 % pool.threads


def test_nodes_of_workers_that_are_there_are_run_by_them_alone(impatient: None) -> None:
    """Also after the pool has been resized."""
    nodes = [Relay(channel_of(*range(200)), index % 4) for index in range(8)]
    pool = BoundPool(nodes, "worker-queue", [0])
    pool.resize([0] * 4)  # no thread has started before
    for thread in list(pool._running_threads.values()):
        thread.join(PATIENCE_S)
    assert [node.workers for node in nodes] == [{f"shoal-worker-{node.home}"} for node in nodes]


@pytest.mark.parametrize(
    ("polls_in_s", "wanted_s"),
    [
        pytest.param([], IDLE_WAIT_S, id="without sources it waits as long as it may"),
        pytest.param([-0.001], IDLE_WAIT_S, id="a source that may be polled already is in a turn, or blocked"),
        pytest.param([1.0], IDLE_WAIT_S, id="a poll that is far away"),
        pytest.param([1.0, 0.0001], 0.0001, id="until the first poll"),
        pytest.param([0.000001], SHORTEST_WAIT_S, id="no shorter than it takes to wake up"),
    ],
)
def test_a_worker_without_a_turn_sleeps_until_the_next_poll(
    polls_in_s: list[float], wanted_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("shoal.runtimes.local.scheduling.worker_pool.time.time", lambda: now_s)
    pool = scheduled([Relay(channel_of())], "state-based")
    pool._sources = [SimpleNamespace(next_poll_s=now_s + each) for each in polls_in_s]  # type: ignore[misc]
    assert pool._idle_wait_s() == pytest.approx(wanted_s)
