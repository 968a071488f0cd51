"""Cost shares of simulated runs: what workers worked for moves, not how long instances were frozen."""

import pytest
from tests.small_city import city

from shoal.model.control.binding import Binding
from shoal.model.control.messages import EpochCommitted
from shoal.session.run import Run, start

HAND_OVER_S = 2e-3


def moved() -> tuple[Run, list[EpochCommitted]]:
    """A run in which all instances go to another worker, and wait for its link for long."""
    job, epochs = city(rate=20_000.0).job, list[EpochCommitted]()
    run = start(
        job,
        on="simulated",
        topology="star:2@1Mbit",
        policy="round-robin",
        conf={"epoch_s": "0.02", "hand_over_s": str(HAND_OVER_S), "source": "outside"},
        seed=1,
    )
    to = Binding.of(dict.fromkeys(job.graph.stateful_instances, 1), 2)

    def follow(run: Run, epoch: EpochCommitted) -> None:
        epochs.append(epoch)
        if epoch.epoch == 2:
            run.rebind(to, mechanism="all-at-once")

    run.wait(follow)
    return run, epochs


def test_migration_is_the_time_that_workers_worked_for_moves() -> None:
    run, epochs = moved()
    frozen_s = sum(move.frozen_s or 0.0 for each in run.finished for move in each.moves)
    migration_s = sum(each.migration_s for each in epochs)
    assert run.tally.moves > 0
    assert migration_s <= run.tally.moves * HAND_OVER_S * (1 + 1e-9)
    assert migration_s > 0.5 * run.tally.moves * HAND_OVER_S
    assert frozen_s > 2 * migration_s
    worked_s = sum(sum(each.snapshot.busy_s) for each in epochs)
    assert sum(each.compute_s for each in epochs) + migration_s == pytest.approx(worked_s, rel=1e-6)
