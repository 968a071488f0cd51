"""Whole jobs on hosts whose links differ: the twin prefers the near host to the emptiest one, and no result changes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.small_city import digest

from shoal.connectors.sources.generator import Generator
from shoal.control.effects.host_entries import HostsMeasured
from shoal.control.journal import Decided, Entry
from shoal.control.settings import ControlSettings
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph
from shoal.model.query.window import tumbling
from shoal.session.job import Job
from shoal.session.journal import read_journal
from shoal.session.run import Run, start

RATE = 4_000
GROUPS = 8
MACHINE = """
hosts: [{name: full, cores: 1}, {name: near, cores: 1}, {name: far, cores: 1}]
links:
- {from: full, to: near, bandwidth: 20Mbit, latency: 1ms}
- {from: full, to: far, bandwidth: 400kbit, latency: 1ms}
"""
NEAR, FAR = 1, 2


@dataclass(frozen=True)
class Visits:
    """Visitors that return after a while; all shops have about as many."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        number = np.arange(start, stop, dtype=np.int64)
        ts = pa.array(number * 1_000_000 // RATE, pa.timestamp("us"))
        return pa.record_batch({"ts": ts, "shop": number * 7919 % 1024, "visitor": number * 31 % 10_007})


def visits(directory: Path, mechanism: str) -> tuple[Run, list[Entry]]:
    """All instances but one are on the first host; the one is on the near host, and the far host has none."""
    (directory / "machine.yaml").write_text(MACHINE)
    columns = {"ts": "timestamp not null", "shop": "int64 not null", "visitor": "int64 not null"}
    stream = Stream("visits", columns, time="ts", lateness_s=0)
    each = stream.partition_by("shop", groups=GROUPS).key_by("visitor").window(tumbling(60)).aggregate(n=count())
    job = Job("visits", Graph.of([each.sink("visited")]), {"visits": Generator(Visits(), 5 * RATE, RATE)})
    run = start(
        job,
        on="simulated",
        topology=str(directory / "machine.yaml"),
        policy="dynamic-metis",
        mechanism=mechanism,
        conf={"epoch_s": "0.05", "source": "outside", "step_s": "0.05"},
        control=ControlSettings(trigger="periodic:1.6", window_s=0.1, rest_s=0.1, most_s=10.0, split=0),
        journal=str(directory / mechanism),
    )
    instances = job.graph.stateful_instances
    crowded = Binding.of({name: 0 if place else NEAR for place, name in enumerate(instances)}, 3)
    run.wait(lambda run, event: run.rebind(crowded, mechanism="all-at-once") if event.epoch == 0 else None)
    return run, read_journal(str(directory / mechanism))


def test_state_goes_to_the_near_host_and_no_result_changes(tmp_path: Path) -> None:
    by_twin, entries = visits(tmp_path, "auto")
    by_policy, others = visits(tmp_path, "all-at-once")
    chosen = next(entry for entry in entries if isinstance(entry, Decided))
    proposed = next(entry for entry in others if isinstance(entry, Decided))
    assert FAR in [each.target for each in proposed.moves]
    assert NEAR in [choice.options[0].worker for choice in chosen.hosts]
    measured = next(entry for entry in entries if isinstance(entry, HostsMeasured))
    assert measured.frozen_s == pytest.approx(measured.frozen_expected_s, rel=0.2)
    longest_s = max(move.frozen_s or 0.0 for move in by_policy.finished[1].moves)
    assert measured.frozen_expected_s < longest_s
    assert digest(by_twin) == digest(by_policy)
