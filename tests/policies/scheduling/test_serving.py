"""The order of equally old work by expected results and seconds."""

from collections.abc import Sequence
from operator import itemgetter
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.policies.scheduling.serving import highest_rate_first

AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
PIECES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=12)
"""Expected results and seconds of each piece."""
WHOLE = st.tuples(st.integers(0, 64), st.integers(1, 64))
DIFFERENT = st.lists(WHOLE, min_size=1, max_size=12, unique_by=itemgetter(1))
"""Pieces of different lengths."""
WORKERS = st.integers(1, 40)


def places_of(pieces: Sequence[tuple[float, float]], workers: int = 1) -> list[int]:
    """The places of pieces that nothing waits for; one worker does all of them by the same time in any order."""
    results, work_s = (np.array(column) for column in zip(*pieces, strict=True))
    return highest_rate_first(results, work_s, work_s, workers).tolist()


@given(PIECES, WORKERS)
def test_places_have_no_gaps_and_pieces_of_which_nothing_is_known_share_one(
    pieces: list[tuple[float, float]], workers: int
) -> None:
    places = places_of(pieces, workers)
    assert sorted(set(places)) == list(range(len(set(places))))
    unknown = {place for piece, place in zip(pieces, places, strict=True) if piece == (0.0, 0.0)}
    assert len(unknown) <= 1


@given(DIFFERENT, WORKERS, st.randoms())
def test_the_place_of_a_piece_does_not_depend_on_the_order_in_which_they_are_given(
    pieces: list[tuple[int, int]], workers: int, random: Random
) -> None:
    order = list(range(len(pieces)))
    random.shuffle(order)
    shuffled = places_of([pieces[place] for place in order], workers)
    assert shuffled == [places_of(pieces, workers)[place] for place in order]


@given(PIECES)
def test_a_piece_with_more_than_twice_the_rate_never_comes_behind(pieces: list[tuple[float, float]]) -> None:
    places = places_of(pieces)
    rates = [results / max(work_s, 1e-12) for results, work_s in pieces]
    for rate, place in zip(rates, places, strict=True):
        assert all(place < other for slower, other in zip(rates, places, strict=True) if rate > 2.001 * slower)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12))
def test_pieces_of_one_rate_begin_with_the_longest(work_s: list[float]) -> None:
    places = places_of([(8.0 * each, each) for each in work_s])
    assert [each for _, each in sorted(zip(places, work_s, strict=True))] == sorted(work_s, reverse=True)


@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=12))
def test_without_any_results_the_longest_comes_first(work_s: list[float]) -> None:
    places = places_of([(0.0, each) for each in work_s])
    assert [each for _, each in sorted(zip(places, work_s, strict=True))] == sorted(work_s, reverse=True)


def test_a_long_piece_with_few_results_begins_in_time_to_end_with_the_others() -> None:
    short = [(1.0, 1.0)] * 30
    by_four, alone = (places_of([*short, (1.0, 8.0)], workers) for workers in (4, 1))
    assert by_four[-1] == 7, "all work divided by four ends at 9.5 s, and the seventh short one begins at 1.5 s"
    assert alone[-1] == 30, "one worker ends at the same time whatever comes first"


def test_what_waits_for_a_piece_is_part_of_its_length_and_not_of_the_work_to_be_divided() -> None:
    results, work_s, own_s = np.array([4.0, 4.0, 4.0]), np.array([6.0, 2.0, 2.0]), np.array([1.0, 2.0, 2.0])
    assert highest_rate_first(results, work_s, own_s, workers=2).tolist() == [1, 0, 2]


def test_no_pieces_have_no_places() -> None:
    assert highest_rate_first(np.zeros(0), np.zeros(0), np.zeros(0), workers=2).tolist() == []
