"""The order of equally old work by expected results and seconds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shoal.policies.scheduling.serving import highest_rate_first

AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
PIECES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=12)
"""Expected results and seconds of each piece."""


def places_of(pieces: list[tuple[float, float]]) -> list[int]:
    results, work_s = (np.array(column) for column in zip(*pieces, strict=True))
    return highest_rate_first(results, work_s).tolist()


@given(PIECES)
def test_places_have_no_gaps_and_equal_pieces_have_the_same(pieces: list[tuple[float, float]]) -> None:
    places = places_of(pieces)
    assert sorted(set(places)) == list(range(len(set(places))))
    for one, place in zip(pieces, places, strict=True):
        assert all(place == other for piece, other in zip(pieces, places, strict=True) if piece == one)


@given(PIECES, st.integers(0, 2**32 - 1))
def test_the_place_of_a_piece_does_not_depend_on_the_order_in_which_they_are_given(
    pieces: list[tuple[float, float]], seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(pieces)).tolist()
    shuffled = places_of([pieces[place] for place in order])
    assert shuffled == [places_of(pieces)[place] for place in order]


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


def test_no_pieces_have_no_places() -> None:
    assert highest_rate_first(np.zeros(0), np.zeros(0)).tolist() == []
