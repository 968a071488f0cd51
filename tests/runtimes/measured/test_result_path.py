"""Result paths: followed from the sink back to the source, and divided without a gap."""

import numpy as np
import pytest

from shoal.runtimes.measured.result_path import PARTS, Emission, PlaceTurns, ResultTimes, result_times

SOURCE, STEPS, LANE, SINK = range(4)
BEFORE = [[], [SOURCE], [STEPS], [LANE]]


def chain() -> list[PlaceTurns]:
    """A source, steps, a lane and a sink with one turn each, and turns that a result cannot have come from."""
    turns = [PlaceTurns(keeps=place >= LANE) for place in range(4)]
    turns[SOURCE].add(1.0, 1.5, 0.25)
    turns[STEPS].add(2.0, 3.0, 0.5)
    turns[LANE].add(3.0, 5.0, 2.0)
    turns[SINK].add(6.0, 7.0, 0.25)
    turns[SOURCE].add(2.5, 2.75, 0.25)
    turns[STEPS].add(4.0, 4.5, 0.5)
    return turns


def parts_of(found: ResultTimes) -> dict[str, float]:
    return dict(zip(PARTS, found.seconds[0].tolist(), strict=True))


def test_the_time_of_a_result_is_divided_among_the_turns_that_led_to_it_without_a_gap() -> None:
    found = result_times([Emission(SINK, 6.5, 10, 0.25, 9.0)], chain(), BEFORE)
    assert parts_of(found) == {
        "source": 0.75,
        "read_work": 0.75,
        "read_lock": 0.75,
        "turn": 1.5,
        "state_work": 2.25,
        "state_lock": 0.75,
        "sink": 2.0,
    }
    assert found.seconds.sum() == 9.0 - 0.25


def test_what_a_turn_does_after_the_delivery_counts_for_nothing() -> None:
    found = result_times([Emission(SINK, 6.25, 10, 0.25, 6.5)], chain(), BEFORE)
    assert parts_of(found)["sink"] == 0.0
    assert found.seconds.sum() == pytest.approx(6.25)


def test_of_several_writers_a_result_came_from_the_last_that_had_ended() -> None:
    turns = chain()
    turns.append(PlaceTurns(keeps=False))
    turns[4].add(2.25, 2.5, 0.25)
    turns[STEPS].ends[0] = 2.25
    found = result_times([Emission(SINK, 6.5, 1, 0.25, 9.0)], turns, [[], [SOURCE], [STEPS, 4], [LANE], []])
    assert parts_of(found)["turn"] == 0.5 + 1.0
    assert parts_of(found)["source"] == 2.0


def test_results_without_a_way_back_are_left_out() -> None:
    assert not result_times([Emission(SINK, 8.5, 1, 0.0, 9.0)], chain(), BEFORE).results.size
    lost = chain()
    lost[SOURCE] = PlaceTurns(keeps=False)
    found = result_times([Emission(SINK, 6.5, 1, 0.0, 9.0)], lost, BEFORE)
    assert (found.results.size, found.mean_s(), found.percentile_s(99)) == (0, {}, 0.0)


def test_means_and_percentiles_are_over_results_not_over_emissions() -> None:
    seconds = np.zeros((2, len(PARTS)))
    seconds[:, 0] = [1.0, 2.0]
    times = ResultTimes(seconds, np.array([10.0, 20.0]), np.array([97, 3]))
    assert times.mean_s()["source"] == pytest.approx(1.03)
    assert (times.percentile_s(50), times.percentile_s(97), times.percentile_s(99)) == (1.0, 1.0, 2.0)
    assert times.between(15.0, 20.0).mean_s()["source"] == 2.0
    assert times.between(20.0, 30.0).results.size == 0
