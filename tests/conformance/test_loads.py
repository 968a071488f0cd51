"""Loads mean the same on every runtime: what was processed, and what was accepted and not processed yet."""

from typing import Any

import numpy as np
import pytest
from tests.runtimes.local import witness
from tests.runtimes.local.controlled import Controlled, waiting_rows
from tests.small_city import EVENTS, city

from shoal.model.control.messages import EpochCommitted
from shoal.runtimes.local.dataflow.lane_node import LaneNode
from shoal.runtimes.local.dataflow.split import MovingSplit
from shoal.runtimes.local.memory.blocks import Sizes
from shoal.runtimes.local.settings import LocalSettings
from shoal.session.run import start

STATEFUL = 3
"""Operators with state that an event of the small city comes to."""
RUNTIMES: list[Any] = [
    pytest.param({"on": "spark"}, id="spark", marks=pytest.mark.spark),
    pytest.param({"on": "local", "local": LocalSettings(queues="worker-queue", block_rows=512)}, id="local"),
    pytest.param({"on": "reference"}, id="reference"),
]


@pytest.fixture(params=RUNTIMES)
def epochs(request: pytest.FixtureRequest) -> list[EpochCommitted]:
    """Everything that a run of the small city said."""
    options = dict(request.param)
    if options["on"] == "spark":
        options["spark"] = request.getfixturevalue("spark")
    found: list[EpochCommitted] = []
    start(city().job, workers=2, **options).wait(lambda _, event: found.append(event))
    return found


def test_every_event_is_processed_once_and_nothing_waits_in_the_end(epochs: list[EpochCommitted]) -> None:
    processed = sum(load.events for event in epochs for load in event.snapshot.loads.values())
    assert processed == STATEFUL * EVENTS
    for event in epochs:
        assert all(load.backlog >= 0 for load in event.snapshot.loads.values())
    assert {load.backlog for load in epochs[-1].snapshot.loads.values()} <= {0}


def test_of_a_consumer_that_stalls_what_was_sent_and_not_taken_is_the_backlog() -> None:
    controlled = Controlled(witness.graph(), witness.numbered(300), 2, Sizes(16, 2, 2))
    stalled = [part for part in controlled.parts if part.home == 1]
    controlled.drain(without=stalled, asked=3)
    backlog = loads_of(controlled)
    sent = sum(int(node.sent.sum()) for node in controlled.nodes if isinstance(node, MovingSplit))
    taken = sum(int(part.load.events.sum()) for part in controlled.parts)
    assert sum(backlog.values()) == sent - taken > 0
    for lane in controlled.divided_lanes.lanes:
        waiting = waiting_rows(lane)
        for number, instance in enumerate(lane.lane.instances):
            assert backlog[instance] == waiting.get(number, 0)
            assert not backlog[instance] or lane.ownership.owner[number] == 1
    controlled.drain(asked=1_000)
    assert not np.any(list(loads_of(controlled).values()))
    controlled.end()


def loads_of(controlled: Controlled) -> dict[str, int]:
    """The backlog of every instance, as a report has it."""
    held = {node: node.state_bytes for node in controlled.nodes if isinstance(node, LaneNode)}
    return {str(instance): load.backlog for instance, load in controlled.divided_lanes.loads(held).items()}
