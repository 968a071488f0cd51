"""The story: every kind of entry in words a person understands."""

from pathlib import Path
from typing import get_args

from shoal.control.effects.host_entries import HostChoice, HostOption, HostsMeasured
from shoal.control.journal import (
    Aborted,
    Advised,
    Begun,
    CandidateWorker,
    Decided,
    Divided,
    DivisionMeasured,
    Ended,
    Entry,
    Kept,
    Left,
    Lost,
    Mapped,
    Measured,
    MechanismCost,
    Migrated,
    Moving,
    Parked,
    Refused,
    Rejected,
    Scaled,
    SheddingBegun,
    SheddingEnded,
)
from shoal.control.partitions.rebalance_entries import Rebalanced, RebalanceMeasured
from shoal.control.story import story_lines
from shoal.model.control.messages import QueryLoss
from shoal.model.control.migration_metrics import MigrationMetrics

MOVES = tuple(
    Moving(f"{n:04x}/0", f"aggregate of avg_speed[{n}]", 0, 1, 2_000_000, 0.55, 1.02, 60.0, 0.0001, 1.0199)
    for n in range(5)
)
STAYED = Moving(
    "9999/0",
    "join of tolls, instance 3",
    0,
    1,
    9_000_000_000,
    0.95,
    1.02,
    10.0,
    0.9,
    0.102,
    "moving costs more than it gains",
    (
        CandidateWorker(0, "box-1", 0.95, 0.0, 0.0, 0.95),
        CandidateWorker(1, "box-2", 1.02, 0.9, 10.0, 0.102),
        CandidateWorker(4, "box-3", 1.0, 0.5, 10.0, 0.5),
        CandidateWorker(6, "box-4", 0.9, 0.5, 10.0, 0.45),
        CandidateWorker(8, "box-5", 0.8, 0.5, 10.0, 0.4),
    ),
)
HOSTS = (
    HostChoice(
        "aggregate of avg_speed[0]",
        0,
        2,
        5_000_000,
        (
            HostOption(1, "near", 1.0, 0.002, 0.998, "rhino", 0.2),
            HostOption(3, "later", 2.0, 0.002, 0.9, "rhino", 0.1, 4.5),
            HostOption(2, "far", 1.33, 0.942, 0.077, "all-at-once", 20.5),
        ),
    ),
    HostChoice(
        "aggregate of avg_speed[1]",
        0,
        2,
        5_000_000,
        (HostOption(0, "full", 0.8, 0.0, 0.8, "", 0.0), HostOption(2, "far", 1.33, 0.942, 0.077, "all-at-once", 20.5)),
    ),
)
STORY: list[Entry] = [
    Begun(1000.0, "traffic", "spark", "guarded", 4, 300, {"window_s": 2.0}),
    Decided(1002.0, 1, 3, "worker 0 had 1.80 times the mean load of the workers", "guarded", 1.8, 1.05, 0.4, 5, 1,
            10_000_000, (*MOVES, STAYED)),
    Measured(1004.0, 1, 5, 1.8, 1.05, 1.1, 0.4, 0.05, 1.0),
    Measured(1005.0, 2, 6, 1.8, 1.05, 1.79, 0.4, 0.0, 2.0),
    Advised(1005.2, "rhino", 5, 10_000_000, (
        MechanismCost("rhino", 1.25, 0.02, 0.8, 0.1, 2.5, 12_000_000),
        MechanismCost("all-at-once", 250.0, 2.0, 200.0, 48.0, 2.0, 10_000_000, 0.125, "events would wait longer"),
        MechanismCost("window-recreation", None, refused="its state depends on events of any age"))),
    Decided(1005.3, 2, 7, "worker 0 had 1.80 times the mean load of the workers", "greedy", 1.8, 1.2, 0.4, 1, 0,
            5_000_000, (), hosts=HOSTS),
    Kept(1005.35, 8, "worker 0 had 1.80 times the mean load of the workers", "greedy", "no move pays", 1.8,
         hosts=HOSTS[1:]),
    HostsMeasured(1005.4, "rhino", 1, 0.02, 0.03, 0.2, 0.25),
    HostsMeasured(1005.45, "rhino", 1, 0.02, 0.02, 0.2, None),
    Aborted(1005.5, 3, 12, 28, "superseded by a newer rebinding"),
    Migrated(1005.6, "decision 1", "megaphone", 12, 28,
             MigrationMetrics(0.5, 3_000_000, 0.02, 0.001, 0.25, 1.5, 0.015, 3, 0.1, 0.2, 1.0)),
    Migrated(1005.7, "request 1", "drop", 1, 0, MigrationMetrics(state_bytes=0, utility_kept=0.0),
             (QueryLoss("tolls", 4, 120, 3, 9_000, 1.0, 4.0, {"n": 120.0}), QueryLoss("jams", 1, 1, 1, 90, 1.0))),
    Migrated(1005.8, "request 2", "rhino", 2, 0, MigrationMetrics(1.0, 50, 0.0, None, 0.0, -2.0, -0.001)),
    Kept(1006.0, 7, "2 s have passed", "guarded", "no move pays", 1.1, 1, (STAYED,)),
    Kept(1009.0, 9, "2 s have passed", "guarded", "no move pays", 1.1, 3),
    Scaled(1010.0, 11, 4, 8, "workers were busy for 93% of their time", 120),
    Divided(1010.5, 12, "split", "9999/3", "join of tolls, instance 3", 4, 1.62),
    Divided(1010.5, 12, "merge", "0000/0", "aggregate of avg_speed[0]", 2, 0.03),
    DivisionMeasured(1010.8, 14, "split", "join of tolls, instance 3", 1.62, 0.41),
    Rebalanced(1010.81, 14, "swarm", "grid", 0, 0, ("77/0", "77/1"), "", 0.0, 0.0, 0.0, 0.0),
    Rebalanced(1010.82, 14, "history-grid", "history", 0, 0, ("77/2",), "", 91.0, 2.0, 30.5, 28.0),
    Rebalanced(1010.83, 14, "swarm", "split", 3, 1, ("points in fences",), "before row 12", 91.5, 2.25, 40.0, 38.0),
    Rebalanced(1010.84, 14, "swarm", "move", 3, 1, ("points in fences",), "", 91.5, 2.25, 50.0, 43.75),
    Rebalanced(1010.85, 14, "swarm", "merge", 0, 0, ("77/0", "77/4"), "", 0.0, 0.0, 0.0, 0.0),
    RebalanceMeasured(1010.86, 15, "split", 3, 1, 91.5, 2.25, 41.0, 36.0),
    Lost(1011.0, (2, 3), "executor 1 is gone", 75),
    Left(1011.2, 20, "host box-2 is expected to lose its link at 1030.0 s", ("box-2",), 12, 3_000_000, 0.8),
    Left(1011.4, 22, "host box-3 is expected to fail at 1012.0 s", ("box-3",), 3, 3_000_000, 0.5, 9,
         "their state takes longer than the time that is left"),
    Left(1011.6, 24, "host box-4 is expected to fail at 1012.0 s", ("box-4",), 0, 0, 0.0, 1,
         "no other host remains"),
    Refused(1012.0, "Rebind", "it cannot"),
    Rejected(1013.0, "commands/7.json", "command 7 is damaged"),
    Parked(1014.0, ("tolls",), "function 'toll' raised KeyError: 'bridge'", "road='bridge'"),
    Parked(1015.0, ("a", "b"), "aggregate 'Spread' raised ValueError: no"),
    SheddingBegun(1016.0, 30, "random:0.2", "latency was 6.2 s, over the limit of 5 s"),
    SheddingEnded(1019.0, 36, "the run ended", 12_345, 3.0),
    Ended(1020.0, 40, 6_000_000, 80, 12_345, {"compute": 0.99, "migration": 0.008, "policy": 0.002}),
]  # fmt: skip


def test_the_story_of_a_run() -> None:
    """As kept beside this file, to be read as well."""
    assert list(story_lines(STORY)) == (Path(__file__).parent / "story.txt").read_text().splitlines()


def test_a_simulated_run_has_no_date() -> None:
    begun = Begun(0.0, "traffic", "simulated", "guarded", 24, 300, simulated_time=True)
    ended = Ended(3.1, 31, 300_000, 27, 11_400, {"compute": 1.0})
    first, last = story_lines([begun, ended])
    assert first.startswith("simulated time from 0 s: traffic began on simulated with policy guarded")
    assert last.startswith("     3.10 s  ended")


def test_every_move_is_told_when_asked() -> None:
    lines = list(story_lines(STORY, every_move=True))
    assert sum("from worker 0 to 1" in line for line in lines) == 5
    assert not any("more" in line and "and" in line and "stayed" not in line for line in lines[:7])


def test_every_kind_of_entry_is_in_this_story() -> None:
    assert {type(entry) for entry in STORY} == set(get_args(Entry)) - {Mapped}


def test_a_map_is_for_the_map_and_not_for_the_story() -> None:
    drawn = Mapped(1.0, 1, "op", ("q",), (0.0, 0.0, 1.0, 1.0), (1, 1), "plane", 1.0, ())
    assert list(story_lines([drawn])) == []
