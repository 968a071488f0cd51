"""Rectangles that are cut while a simulated run goes on: results stay right, and sources are read all the time."""

import random

import numpy as np
import pytest
from tests.small_city import result_tables

from shoal.model.control.messages import EpochCommitted, Repartition
from shoal.model.control.partitioning import Cut, Merge, Partitioning, instance_id
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.simulated.cut_tasks import only_cuts
from shoal.session.digest import differences
from shoal.session.run import Run, start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

SETTINGS = {"queries": "matches", "subscriptions": "400", "churn": "200", "hot_subscriptions": "50", "per_s": "4000"}
CONF = {"source": "outside", "alignment": "event-time", "epoch_s": "0.002", "step_s": "0.001", "block_rows": "100"}
CONF |= {"buffer_rows": "1000", "work_factor": "20"}
MACHINES = [pytest.param("cores:4", id="one host"), pytest.param("star:4@1Gbit,0.1ms", id="a network")]


def random_cuts(graph: Graph, partitioning: Partitioning, draw: random.Random) -> Repartition:
    """Some cuts, one after another, whose new parts go to any workers, as do some that are there."""
    (operator,), cuts, worker_of = graph.spatial_operators, list[Cut](), dict[InstanceId, int]()
    for _ in range(draw.randint(1, 3)):
        before = partitioning.tiles(operator)
        number, tile = draw.choice([each for each in before.items() if each[1].rows > 1 and each[1].columns > 1])
        axis = draw.choice(["row", "column"])
        at = draw.randrange(*((tile.top + 1, tile.bottom) if axis == "row" else (tile.left + 1, tile.right)))
        cuts.append(Cut(instance_id(operator.id, number), axis, at, keeps_last=draw.random() < 0.5))  # type: ignore[arg-type]
        partitioning = partitioning.after(cuts[-1], graph)
        for new in partitioning.tiles(operator).keys() - before.keys():
            worker_of[instance_id(operator.id, new)] = draw.randrange(4)
        worker_of[instance_id(operator.id, draw.choice(sorted(before)))] = draw.randrange(4)
    return Repartition(tuple(cuts), worker_of)


def cut_run(topology: str, seed: int) -> tuple[Run, list[EpochCommitted]]:
    """A run whose rectangles are cut again and again; its results are right."""
    ready, draw = workload("geo-pubsub").ready(0, Amount(12_000, None, 100), SETTINGS), random.Random(seed)
    epochs = list[EpochCommitted]()

    def cut(run: Run, epoch: EpochCommitted) -> None:
        epochs.append(epoch)
        if len(epochs) % 2 and len(epoch.snapshot.binding.worker_of) < 60:
            run.runtime.apply(random_cuts(run.graph, epoch.snapshot.partitioning, draw))

    run = start(ready.job, on="simulated", topology=topology, policy="round-robin", conf=CONF)
    run.wait(cut)
    assert differences(result_tables(run), ready.expected(run.consumed)) == []
    return run, epochs


@pytest.mark.parametrize("topology", MACHINES)
def test_cuts_under_way_change_no_result_and_stop_no_source(topology: str) -> None:
    _, epochs = cut_run(topology, 1)
    instances = [len(epoch.snapshot.binding.worker_of) for epoch in epochs]
    assert instances[-1] > instances[0] + 5
    assert sum(epoch.moves for epoch in epochs) > 5
    reading = np.flatnonzero([epoch.rows for epoch in epochs])[1:]  # the first takes in all subscriptions
    assert reading[-1] - reading[0] + 1 == len(reading)


@pytest.mark.parametrize("topology", MACHINES)
def test_a_run_with_cuts_can_be_repeated(topology: str) -> None:
    assert [*map(repr, cut_run(topology, 2)[1])] == [*map(repr, cut_run(topology, 2)[1])]


def test_only_cuts_go_without_a_stop() -> None:
    one, other = InstanceId("m#0"), InstanceId("m#1")
    assert only_cuts(Repartition((Cut(one, "row", 3),), {one: 1}))
    assert not only_cuts(Repartition((Cut(one, "row", 3), Merge((one, other))), {}))
