"""Whole jobs whose windows hold much state over a slow link: moves wait until a window has closed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.small_city import digest

from shoal.connectors.sources.generator import Generator
from shoal.control.journal import Advised, Decided, Entry, Kept
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
MACHINE = "hosts: [{name: box, count: 2, cores: 1}]\nstar: {bandwidth: 200kbit, latency: 1ms}\n"


@dataclass(frozen=True)
class Visits:
    """A visitor is hardly ever seen twice in a window; some shops have more of them than others."""

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        number = np.arange(start, stop, dtype=np.int64)
        shop = number * 7919 % 1024
        ts = pa.array(number * 1_000_000 // RATE, pa.timestamp("us"))
        return pa.record_batch({"ts": ts, "shop": shop, "visitor": number * 31 % 100_003})


def visits(directory: Path, mechanism: str) -> tuple[Run, list[Entry]]:
    (directory / "machine.yaml").write_text(MACHINE)
    columns = {"ts": "timestamp not null", "shop": "int64 not null", "visitor": "int64 not null"}
    stream = Stream("visits", columns, time="ts", lateness_s=0)
    each = stream.partition_by("shop", groups=8).key_by("visitor").window(tumbling(1)).aggregate(n=count())
    job = Job("visits", Graph.of([each.sink("visited")]), {"visits": Generator(Visits(), 5 * RATE, RATE)})
    run = start(
        job,
        on="simulated",
        topology=str(directory / "machine.yaml"),
        policy="dynamic-metis",
        mechanism=mechanism,
        conf={"epoch_s": "0.05", "source": "outside", "step_s": "0.05"},
        control=ControlSettings(trigger="periodic:2.6", window_s=0.1, rest_s=0.1, most_s=10.0, split=0),
        journal=str(directory / mechanism),
    )
    crowded = Binding.of(dict.fromkeys(job.graph.stateful_instances, 0), 2)
    run.wait(lambda run, event: run.rebind(crowded, mechanism="all-at-once") if event.epoch == 0 else None)
    return run, read_journal(str(directory / mechanism))


def longest_s(run: Run) -> float:
    """How long the last moves froze an instance at most."""
    return max(move.frozen_s or 0.0 for move in run.finished[-1].moves)


def test_moves_wait_for_a_window_to_close_and_no_result_changes(tmp_path: Path) -> None:
    waiting, entries = visits(tmp_path, "auto")
    first = next(entry for entry in entries if isinstance(entry, Kept) and "until windows have closed" in entry.reason)
    decided = next(entry for entry in entries if isinstance(entry, Decided))
    advised = next(entry for entry in entries if isinstance(entry, Advised))
    assert first.at_s < decided.at_s <= first.at_s + 1.1
    assert advised.moment.startswith("after a wait of")
    at_once, others = visits(tmp_path, "all-at-once")
    early = next(entry for entry in others if isinstance(entry, Decided))
    assert early.at_s < decided.at_s
    assert decided.moved_bytes < early.moved_bytes / 2
    assert longest_s(waiting) < longest_s(at_once) / 2
    assert digest(waiting) == digest(at_once)
