"""Utilities that a run learns from its input decide what moves when there is no time for all of it."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.connectors.sources.generator import Generator
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted, MoveReport
from shoal.model.query.expression import col
from shoal.session.job import Job
from shoal.session.run import Run, start

S = 1_000_000
MACHINE = "hosts: [{name: a, cores: 1}, {name: b, cores: 1}]\nlinks: [{from: a, to: b, bandwidth: 1Gbit}]\n"
KEYS = 40
"""Keys that have begun a match when the move is asked for, and as many that lack only its last row."""
QUERY = (
    Stream("steps", {"ts": "timestamp", "k": "int64", "n": "int64"}, time="ts")
    .partition_by("k", groups=1)
    .match(
        "A B C",
        within_s=10,
        define={"A": col("n") == 1, "B": col("n") == 2, "C": col("n") == 3},
        measures={"ended": "last(ts)"},
    )
    .sink("orders")
)
Event = tuple[float, int, int]


@dataclass(frozen=True)
class Given:
    """Given events, by their number."""

    events: tuple[Event, ...]

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Some of the events."""
        times, keys, steps = zip(*self.events[start:stop], strict=True)
        ts = pa.array([round(at * S) for at in times], pa.timestamp("us"))
        return pa.RecordBatch.from_pydict({"ts": ts, "k": pa.array(keys), "n": pa.array(steps)})


def events(second: int, third: int) -> Given:
    """100 matches, of which one in `second` takes its second step and one in `third` of these its last; then two kinds.

    Of the keys at the end, the first ones have made one step, the others two. Events that fit nothing follow.
    """
    past: list[Event] = []
    for key in range(100):
        steps = 1 if key % second else 2 if key // second % third else 3
        past += [(key / 10 + step, key, step + 1) for step in range(steps)]
    early = [(70.0, 1_000 + key, 1) for key in range(KEYS)]
    late = [(70.0 + step / 10, 2_000 + key, step + 1) for step in range(2) for key in range(KEYS)]
    return Given((*sorted(past), *early, *late, *((71.0 + n / 100, 0, 9) for n in range(200))))


def moved(tmp_path: Path, given: Given, most_bytes: int | None = None) -> MoveReport:
    """Move the only instance while the last events come."""
    machine = tmp_path / "machine.yaml"
    machine.write_text(MACHINE)
    number = len(given.events)
    job = Job.of("orders", [QUERY], {"steps": Generator(given, number, number - 100.0)})
    conf = {"topology": str(machine), "source": "outside", "step_s": "0.02"}
    run = start(job, on="simulated", workers=2, policy="round-robin", mechanism="lazy-utility", conf=conf)
    (instance,) = job.graph.stateful_instances
    asked = list[str]()

    def act(run: Run, event: EpochCommitted) -> None:
        if event.at_s > 1.0 - 1e-6 and not asked:
            asked.append(run.rebind(Binding.of({instance: 1}, 2), most_bytes=most_bytes))

    run.wait(act)
    (report,) = [each for each in run.finished if each.rebind == asked[0]]
    return report.moves[0]


@pytest.mark.parametrize(
    ("second", "third", "lost"),
    [
        pytest.param(1, 50, {"orders": (KEYS, 2 * KEYS)}, id="if the last step is rare, all that have one step stay"),
        pytest.param(20, 1, {"orders": (3 * KEYS // 2, 2 * KEYS)}, id="if it is certain, those with two steps stay"),
    ],
)
def test_what_a_run_has_learned_of_its_matches_decides_which_of_them_stay(
    tmp_path: Path, second: int, third: int, lost: dict[str, tuple[int, int]]
) -> None:
    """There is room for a third of the rows: the matches of one step, or half of those of two."""
    given = events(second, third)
    whole = moved(tmp_path, given)
    assert whole.lost is None
    report = moved(tmp_path, given, most_bytes=whole.state_bytes // 3)
    assert report.lost is not None
    assert {each.query: (each.fragments, each.rows) for each in report.lost.queries} == lost
