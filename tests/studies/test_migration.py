"""What the study on lazy migration claims of its mechanisms, in simulated time: orderings, which are exact.

Short runs are in the usual suite, longer ones are marked slow. `benchmarks/migration.py` prints all numbers;
docs/design/migration.md says where they differ from the study, and why.
"""

import pytest
from benchmarks.migration_trial import MECHANISMS, NOTHING, Outcome, Trial, outcome

JOIN = Trial("join", seconds=11)
SLIDES_MS = (200, 1400, 2800)


def moved(trial: Trial, mechanism: str) -> Outcome:
    """A run that has the results of a run without a migration."""
    found = outcome(trial, mechanism)
    assert found.digest == outcome(trial, NOTHING).digest
    return found


def delay_s(trial: Trial, mechanism: str, table: str) -> float:
    """The sum of the latencies of a table's results over that without a migration."""
    return moved(trial, mechanism).delay_s(table) - outcome(trial, NOTHING).delay_s(table)


def totals_s(slide_ms: int, mechanism: str) -> float:
    return delay_s(Trial("aggregate", slide_ms=slide_ms, seconds=10, updates=0.002), mechanism, "totals")


def test_a_lazy_join_is_active_about_four_times_sooner_than_one_that_moves_at_once() -> None:
    """The study has 3.9 times."""
    lazy, whole = (moved(JOIN, each).moves[0].active_s or 0 for each in ("lazy-latency", "all-at-once"))
    assert 3.5 < whole / lazy < 4.5


@pytest.mark.slow
def test_a_join_that_is_copied_first_is_active_last_but_never_stalls() -> None:
    (copied,), (whole,) = (moved(JOIN, each).moves for each in ("rhino", "all-at-once"))
    assert (copied.active_s or 0) > (whole.active_s or 0)
    assert (copied.frozen_s or 0) < 0.001 * (whole.frozen_s or 0)
    assert delay_s(JOIN, "rhino", "joined") < 1e-6 * delay_s(JOIN, "all-at-once", "joined")


@pytest.mark.slow
def test_a_lazy_join_takes_longer_in_all_than_one_that_moves_at_once() -> None:
    """The study has 1.1 to 1.65 times."""
    lazy, whole = (moved(JOIN, each).moves[0].seconds or 0 for each in ("lazy-latency", "all-at-once"))
    assert 1.1 < lazy / whole < 1.65


@pytest.mark.slow
@pytest.mark.parametrize("slide_ms", SLIDES_MS)
def test_windows_are_never_late_if_lazy_and_latest_if_moved_at_once(slide_ms: int) -> None:
    found = {each: totals_s(slide_ms, each) for each in MECHANISMS}
    assert found["lazy-latency"] == pytest.approx(0, abs=1e-6)
    assert max(found["rhino"], found["megaphone"]) < 0.1 * found["meces"]
    assert found["meces"] < 0.5 * found["all-at-once"]


@pytest.mark.slow
def test_windows_that_are_copied_first_are_not_later_than_fluid_ones_if_few_close_meanwhile() -> None:
    for slide_ms in SLIDES_MS[1:]:
        assert totals_s(slide_ms, "rhino") <= totals_s(slide_ms, "megaphone")


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["all-at-once", "meces", "megaphone"])
def test_the_longer_the_slide_the_less_are_windows_delayed(mechanism: str) -> None:
    delays = [totals_s(slide_ms, mechanism) for slide_ms in SLIDES_MS]
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < 0.3 * delays[0]
