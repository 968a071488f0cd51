"""What a spatial policy remembers: a controller that goes on with it decides as one that was never interrupted."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spatial_case import spatial_case

from shoal.control.partitions.rebalancing import Rebalance, Rebalancing, RunNow
from shoal.control.settings import ControlSettings
from shoal.errors import CheckpointError
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.model.control.partitioning import DECLARED, instance_id
from shoal.model.control.snapshot import InstanceLoad, Snapshot
from shoal.model.query.graph import Graph
from shoal.model.spatial.arrivals import TileArrivals
from shoal.session.steering import MEMORY, MEMORY_RECORD, ControlMemory

GRAPH: Graph = spatial_case(0).job(partitions=3).graph
(OPERATOR,) = GRAPH.spatial_operators
TILES = DECLARED.tiles(OPERATOR)
BINDING = Binding.of({instance_id(OPERATOR.id, number): number for number in TILES}, 3)
NOW = RunNow(GRAPH, DECLARED, {}, ready=True)


def epoch(number: int, seed: int) -> EpochCommitted:
    """An epoch in which random points and ranges have come to all tiles."""
    draw, arrivals = np.random.default_rng([number, seed]), list[TileArrivals]()
    for tile in TILES.values():
        came = TileArrivals.none(tile)
        came.rows[:] = draw.integers(0, 50, came.rows.shape)
        came.columns[:] = draw.integers(0, 50, came.columns.shape)
        arrivals.append(came)
    loads = {each: InstanceLoad(10, float(draw.random()), 0, 0) for each in BINDING.worker_of}
    snapshot = Snapshot(number, BINDING, loads, {}, 1.0, {}, arrivals={OPERATOR.id: tuple(arrivals)})
    return EpochCommitted(
        epoch=number,
        rows=0,
        results=0,
        dead_letters=0,
        moves=0,
        state_bytes=0,
        state_bytes_moved=0,
        duration_s=1.0,
        latency_s=0.0,
        compute_s=0.0,
        migration_s=0.0,
        policy_s=0.0,
        snapshot=snapshot,
        at_s=float(number),
    )


def made(policy: str, cost: str) -> Rebalancing:
    control = ControlSettings.of({"round_s": "2", "profile_s": "5", "beta": "2", "cost": cost})
    found = Rebalancing.of(policy, GRAPH, control)
    assert found is not None
    return found


def decisions(rebalancing: Rebalancing, epochs: Sequence[EpochCommitted]) -> list[Rebalance | None]:
    """What is decided after each epoch; the runtime refuses it, so that partitions stay as they are."""
    found = []
    for each in epochs:
        found.append(rebalancing.take(each, NOW))
        rebalancing.refuse()
    return found


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(0, 99),
    st.sampled_from(["swarm", "history-grid"]),
    st.sampled_from(["product", "measured"]),
)
def test_a_run_that_goes_on_decides_as_one_that_never_stopped(stopped: int, seed: int, policy: str, cost: str) -> None:
    epochs = [epoch(number, seed) for number in range(24)]
    whole = decisions(made(policy, cost), epochs)
    first, second = made(policy, cost), made(policy, cost)
    begun = decisions(first, epochs[:stopped])
    remembered = first.remembered(stopped - 1, epochs[stopped - 1].at_s)
    assert remembered is not None
    second.resume(MEMORY_RECORD.decode(MEMORY_RECORD.encode(remembered), "a file"))
    assert begun + decisions(second, epochs[stopped:]) == whole
    assert any(whole) or policy == "history-grid"


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    memory = ControlMemory(str(tmp_path))
    assert memory.read() is None
    (tmp_path / MEMORY).write_bytes(b"00000000\n{}")
    with pytest.raises(CheckpointError, match="control is damaged: its checksum does not match"):
        memory.read()
