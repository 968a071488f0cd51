"""Workers and executors: who gets which, who keeps his, and who is missed."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import ANY

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from shoal.errors import RunError
from shoal.model.control.messages import WorkersLost
from shoal.runtimes.spark.cluster import executor_placement as placement_module
from shoal.runtimes.spark.cluster.anchor import Anchors, partition_keys, spark_hash
from shoal.runtimes.spark.cluster.executor_placement import PREFERENCE, ManyNodes, OneNode, claimed, executor_placement
from shoal.runtimes.spark.cluster.executors import Executor, Executors, Roster, dealt
from shoal.runtimes.spark.state.checkpoint import EpochPlan
from shoal.runtimes.spark.tasks import wire
from shoal.runtimes.spark.tasks.stage import Stage


def executors(*slots: int) -> Executors:
    return Executors(tuple(Executor(str(number), "host", each) for number, each in enumerate(slots)))


@pytest.mark.parametrize(
    ("slots", "workers", "nodes"),
    [
        pytest.param((2,), 4, (0, 0, 0, 0), id="one executor has them all"),
        pytest.param((1, 1), 4, (0, 0, 1, 1), id="equal executors have equally many"),
        pytest.param((4, 2), 6, (0, 0, 0, 0, 1, 1), id="more slots, more workers"),
        pytest.param((4, 2), 3, (0, 0, 1), id="fewer workers than slots"),
        pytest.param((1, 1, 1), 2, (0, 1), id="an executor without workers is no node"),
        pytest.param((), 3, (0, 0, 0), id="no executor yet"),
    ],
)
def test_workers_are_dealt_by_slots(slots: tuple[int, ...], workers: int, nodes: tuple[int, ...]) -> None:
    assert executors(*slots).dealt(workers).node_of == nodes


def test_in_local_mode_there_is_one_node(spark: SparkSession) -> None:
    assert isinstance(executor_placement(spark), OneNode)
    assert Roster(spark).ids() == ("driver",)
    assert [executor.slots for executor in Roster(spark).read().alive] == [2]
    assert dealt(spark, 5).node_of == (0,) * 5


def test_a_numbers_hash_is_that_of_spark(spark: SparkSession) -> None:
    number = f.col("id").cast("int")
    rows = spark.range(0, 2_000, 7).select(number.alias("number"), f.hash(number).alias("hash")).collect()
    assert [spark_hash(row["number"]) for row in rows] == [row["hash"] for row in rows]


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 37])
def test_every_partition_has_a_key_of_its_own(workers: int) -> None:
    keys = partition_keys(workers)
    assert [spark_hash(key) % workers for key in keys] == list(range(workers))


def test_rows_come_to_the_partitions_of_their_workers(spark: SparkSession) -> None:
    """In local mode anchors change nothing, but everything that uses them works."""
    workers, partition_of = 5, [3, 0, 4, 1, 2]
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    anchors = Anchors.made(session, workers, slots=2)
    assert len(anchors.executor_of) == workers
    rows = session.range(0, 50, 1, 3).selectExpr(
        f"cast(id % {workers} as int) worker", "cast(id as int) lane", "cast('x' as binary) payload"
    )
    placed = anchors.exchanged(rows, partition_of).withColumn("partition", f.spark_partition_id())
    found = {(row["worker"], row["partition"]) for row in placed.collect()}
    assert set(placed.columns) == {*wire.SCHEMA.names, "anchor", "partition"}
    assert placed.count() == 50
    assert found == set(enumerate(partition_of))
    anchors.remove()


def test_rows_that_come_to_the_wrong_worker_are_an_error() -> None:
    plan = EpochPlan(epoch=0, graph="graph", workers=2, binding=(), watermarks_us={}, states=(), now_us=0)
    stage = Stage(cast(Any, None), plan, 1, cast(Any, None))
    strays = wire.rows([(1, wire.HEADER, b"{}"), (0, wire.HEADER, b"{}")])
    stage.program = cast(Any, type("Program", (), {"depth": 1}))
    with pytest.raises(RunError, match="worker 1 received rows of another worker"):
        stage._receive(strays)


@pytest.mark.parametrize(
    ("executor_of", "nearness", "worker_of"),
    [
        pytest.param("aabb", {}, (0, 1, 2, 3), id="nothing known: in order, neighbours adjacent"),
        pytest.param("abab", {}, (0, 2, 1, 3), id="nothing known: neighbours adjacent on scattered partitions"),
        pytest.param("ab", {(0, "b"): 1.0, (1, "a"): 1.0}, (1, 0), id="everybody to his state"),
        pytest.param("abab", {(w, "a"): float(w) for w in range(4)}, (3, 0, 2, 1), id="who has most stays"),
        pytest.param("ab", {(0, "gone"): 9.0, (1, "a"): 1.0}, (1, 0), id="state on an executor that is gone"),
        pytest.param("ab", {(5, "a"): 9.0, (0, "b"): 1.0}, (1, 0), id="state of a worker that is no more"),
    ],
)
def test_workers_claim_partitions_where_their_state_lies(
    executor_of: str, nearness: dict[tuple[int, str], float], worker_of: tuple[int, ...]
) -> None:
    assert claimed(executor_of, nearness) == worker_of


class Cluster:
    """Executors that join and leave, and a session that makes anchors where it is asked to."""

    def __init__(self, preference: str = "false") -> None:
        self.there: tuple[str, ...] = ("0", "1")
        self.preference = preference
        self.dropped: list[tuple[str, ...]] = []
        self.made: list[FakeAnchors] = []

    @property
    def sparkContext(self) -> "Cluster":  # noqa: N802  (Spark's name)
        return self

    def getConf(self) -> dict[str, str]:  # noqa: N802  (Spark's name)
        return {PREFERENCE: self.preference}

    def ids(self) -> tuple[str, ...]:
        return self.there

    def read(self) -> Executors:
        return Executors(tuple(Executor(each, "host", 1) for each in self.there))

    def why_gone(self, executor: str) -> str:
        return f"number {executor} was killed"

    def placement(self) -> ManyNodes:
        return ManyNodes(cast(SparkSession, self), cast(Roster, self))

    def make(self, workers: int) -> "FakeAnchors":
        executors = (
            self.dropped.pop(0) if self.dropped else tuple(self.there[w % len(self.there)] for w in range(workers))
        )
        self.made.append(FakeAnchors(executors))
        return self.made[-1]


@dataclass
class FakeAnchors:
    """Anchors without a session."""

    executor_of: tuple[str, ...]
    removed: bool = False

    def remove(self) -> None:
        self.removed = True

    def exchanged(self, rows: DataFrame, partition_of: list[int]) -> Any:
        return ("anchored", partition_of)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    class Made:
        @staticmethod
        def made(spark: SparkSession, workers: int, slots: int) -> FakeAnchors:
            assert slots == sum(executor.slots for executor in cluster.read().alive)
            return cluster.make(workers)

    monkeypatch.setattr(placement_module, "Anchors", Made)
    return cluster


def nothing() -> dict[tuple[int, int], float]:
    return {}


def test_anchors_are_made_once_and_again_when_workers_or_executors_change(cluster: Cluster) -> None:
    placed = cluster.placement()
    for workers, there, made in [(4, "01", 1), (4, "01", 1), (8, "01", 2), (8, "012", 3), (8, "012", 3), (3, "02", 4)]:
        cluster.there = tuple(there)
        placed.settle(workers, nothing)
        assert len(cluster.made) == made
        assert [anchors.removed for anchors in cluster.made] == [True] * (made - 1) + [False]
        assert sorted(placed.worker_of or ()) == list(range(workers))


def test_on_one_executor_no_worker_is_anchored(cluster: Cluster) -> None:
    placed = cluster.placement()
    placed.settle(4, nothing)
    cluster.there = ("1",)
    placed.settle(4, nothing)
    assert placed.worker_of is None
    assert [anchors.removed for anchors in cluster.made] == [True]


def test_a_session_that_follows_its_input_is_not_anchored(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster("true")
    placed = cluster.placement()
    placed.settle(4, nothing)
    assert placed.worker_of is None
    assert f"start Spark with {PREFERENCE}=false" in caplog.text


def test_uneven_anchors_are_made_again_and_the_best_are_kept(cluster: Cluster) -> None:
    cluster.dropped = [("0", "0", "0", "0"), ("0", "1", "0", "0"), ("1", "1", "1", "1")]
    placed = cluster.placement()
    placed.settle(4, nothing)
    assert [anchors.removed for anchors in cluster.made] == [True, False, True]
    cluster.dropped = [("0", "0", "1"), ("0", "0", "0")]
    placed.settle(3, nothing)
    assert len(cluster.made) == 4
    assert Counter(cluster.made[3].executor_of) == {"0": 2, "1": 1}


def test_a_worker_stays_where_its_state_lies_when_there_are_more_of_them(cluster: Cluster) -> None:
    placed = cluster.placement()
    placed.settle(2, nothing)
    placed.observe({0: "1", 1: "0"})
    cluster.dropped = [("0", "1", "1", "0")]
    placed.settle(4, lambda: {(0, 0): 5.0, (1, 1): 5.0, (2, 0): 3.0, (3, 1): 3.0})
    assert placed.worker_of == (1, 0, 2, 3)
    exchanged: Any = placed.exchanged(cast(DataFrame, None), 4)
    assert exchanged == ("anchored", [1, 0, 2, 3])


def test_the_topology_is_what_was_seen(cluster: Cluster) -> None:
    placed = cluster.placement()
    placed.settle(3, nothing)
    placed.observe({0: "1", 1: "0", 2: "1"})
    assert placed.topology(3).node_of == (1, 0, 1)
    placed.observe({0: "1", 1: "1", 2: "1"})
    assert placed.topology(3).node_of == (0, 0, 0)


def test_workers_of_an_executor_that_goes_are_lost_once(cluster: Cluster) -> None:
    placed = cluster.placement()
    placed.settle(4, nothing)
    placed.observe({0: "0", 1: "1", 2: "0", 3: "1"})
    assert placed.lost() == []
    cluster.there = ("1", "2")
    placed.settle(4, nothing)
    assert placed.lost() == [WorkersLost((0, 2), "executor 0 is gone: number 0 was killed", at_s=ANY)]
    placed.observe({0: "2", 1: "1", 2: "2", 3: "1"})
    assert placed.lost() == []


def test_workers_lost_in_the_middle_of_an_epoch_are_told_by_where_they_were_before(cluster: Cluster) -> None:
    """Spark has run their tasks again elsewhere, so the epoch itself shows nothing."""
    placed = cluster.placement()
    placed.settle(2, nothing)
    placed.observe({0: "0", 1: "1"})
    cluster.there = ("1",)
    placed.observe({0: "1", 1: "1"})
    assert placed.lost() == [WorkersLost((0,), "executor 0 is gone: number 0 was killed", at_s=ANY)]


def test_an_executor_that_spark_never_named_is_not_missed(cluster: Cluster) -> None:
    """Where a task cannot tell its executor's id, it tells the host."""
    placed = cluster.placement()
    placed.settle(2, nothing)
    placed.observe({0: "some-host", 1: "some-host"})
    placed.settle(2, nothing)
    assert placed.lost() == []
    assert placed.topology(2).nodes == 1


def test_at_the_end_no_anchor_is_left(cluster: Cluster) -> None:
    placed = cluster.placement()
    placed.settle(2, nothing)
    placed.close()
    placed.close()
    assert [anchors.removed for anchors in cluster.made] == [True]
    assert placed.worker_of is None
