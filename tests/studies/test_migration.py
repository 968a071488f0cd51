"""What the study on lazy migration claims of its mechanisms, in simulated time: orderings, which are exact.

Tests in the usual suite have a tenth of the rows; those marked slow have all of them, or more runs.
`experiments/migration.yaml` measures all numbers; docs/design/migration.md says where they differ from the study, and
why.
"""

import math
from dataclasses import replace

import pytest

from measures.migration.move_run import MECHANISMS, NOTHING, Outcome, kept, outcome
from measures.migration.moving_query import BOTH, JOIN, MovingQuery, disconnected, slides, tenth, windows

SLIDES_MS = (200, 1400, 2800)
SHORT_SLIDES_MS = (100, 500, 900)
CLOCKED = tenth(replace(BOTH, recorded=True))
CHAINED = tenth(BOTH)


def moved(trial: MovingQuery, mechanism: str) -> Outcome:
    """A run that has the results of a run without a migration."""
    found = outcome(trial, mechanism)
    assert found.digest == outcome(trial, NOTHING).digest
    return found


def delay_s(trial: MovingQuery, mechanism: str, table: str) -> float:
    """The sum of the latencies of a table's results over that without a migration."""
    return moved(trial, mechanism).delay_s(table) - outcome(trial, NOTHING).delay_s(table)


def delays_s(trial: MovingQuery, table: str) -> dict[str, float]:
    return {each: delay_s(trial, each, table) for each in MECHANISMS}


def totals_s(slide_ms: int, mechanism: str) -> float:
    return delay_s(windows(slide_ms), mechanism, "totals")


# (a) a join alone


@pytest.mark.parametrize(
    "trial", [pytest.param(tenth(JOIN), id="tenth"), pytest.param(JOIN, id="whole", marks=pytest.mark.slow)]
)
def test_a_lazy_join_is_active_about_four_times_sooner_than_one_that_moves_at_once(trial: MovingQuery) -> None:
    """The study has 3.9 times."""
    lazy, whole = (moved(trial, each).moves[0].active_s or 0 for each in ("lazy-latency", "all-at-once"))
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


# (b) an aggregate alone


@pytest.mark.slow
@pytest.mark.parametrize("slide_ms", SLIDES_MS)
def test_windows_are_never_late_if_lazy_and_latest_if_moved_at_once(slide_ms: int) -> None:
    found = delays_s(windows(slide_ms), "totals")
    assert found["lazy-latency"] == pytest.approx(0, abs=1e-6)
    assert found["rhino"] <= found["megaphone"] < 0.1 * found["meces"]
    assert found["meces"] < 0.5 * found["all-at-once"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["all-at-once", "meces"])
def test_the_longer_the_slide_the_less_are_windows_delayed(mechanism: str) -> None:
    delays = [totals_s(slide_ms, mechanism) for slide_ms in SLIDES_MS]
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < 0.3 * delays[0]


# (c) a join, then an aggregate


@pytest.mark.slow
def test_results_of_a_join_wait_least_if_lazy_then_copied_and_most_if_all_of_the_query_stops() -> None:
    found = delays_s(CLOCKED, "joined")
    assert found["lazy-latency"] < found["rhino"] < 0.1 * found["megaphone"]
    assert found["megaphone"] == pytest.approx(found["meces"], rel=0.1)
    assert max(found["meces"], found["megaphone"]) < 0.7 * found["all-at-once"]


@pytest.mark.slow
def test_windows_that_close_by_the_clock_are_late_only_if_their_own_state_is() -> None:
    found = delays_s(CLOCKED, "totals")
    assert found["lazy-latency"] == found["rhino"] == pytest.approx(0, abs=1e-6)
    assert found["megaphone"] < 0.01 * found["meces"]
    assert found["meces"] < 0.9 * found["all-at-once"]


@pytest.mark.slow
def test_windows_that_wait_for_the_watermark_of_a_join_are_late_if_the_join_is() -> None:
    assert delay_s(CHAINED, "megaphone", "totals") > 10 + delay_s(CLOCKED, "megaphone", "totals")


# (d) short slides


@pytest.mark.parametrize("slide_ms", [pytest.param(each, marks=pytest.mark.slow) for each in SHORT_SLIDES_MS])
def test_windows_of_a_short_slide_wait_least_if_fluid_then_copied_then_lazy(slide_ms: int) -> None:
    found = delays_s(tenth(slides(slide_ms)), "totals")
    assert found["megaphone"] < found["rhino"] < found["lazy-latency"]
    assert found["lazy-latency"] < 0.2 * found["meces"] < 0.2 * found["all-at-once"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["all-at-once", "meces", "lazy-latency"])
def test_the_longer_a_short_slide_the_less_are_windows_behind_a_join_delayed(mechanism: str) -> None:
    delays = [delay_s(tenth(slides(each)), mechanism, "totals") for each in SHORT_SLIDES_MS]
    assert delays == sorted(delays, reverse=True)
    assert delays[-1] < 0.2 * delays[0]


# (e) a disconnection


def test_what_is_left_of_a_join_without_a_migration_is_nothing() -> None:
    sooner = replace(tenth(disconnected(0.02)), begin_s=4.0, gone_s=2.0, seconds=12.0)
    assert outcome(replace(sooner, gone_s=math.inf), NOTHING).joined_s.size
    assert kept(sooner, NOTHING) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("touched", [0.02, 0.4])
def test_a_join_that_moves_by_utility_keeps_all_results_after_a_disconnection(touched: float) -> None:
    assert kept(disconnected(touched), "lazy-utility") == 1.0


@pytest.mark.slow
def test_a_lazy_join_loses_results_in_a_disconnection_only_if_many_rows_are_touched() -> None:
    few, many = (kept(disconnected(touched), "lazy-latency") for touched in (0.02, 0.4))
    assert few == 1.0
    assert 0.1 < many < 0.9
