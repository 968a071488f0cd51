"""Scaling: how many workers, and where instances go."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import Situation, situations

from shoal.errors import BindingError, ConfigError
from shoal.model.control.binding import Binding
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Load, Loads
from shoal.policies.scaling import Utilisation, resized


@settings(max_examples=200, deadline=None)
@given(situations(), st.integers(1, 9))
def test_every_instance_has_a_worker_that_exists(case: Situation, workers: int) -> None:
    after = resized(case.loads, case.binding, workers)
    assert after.workers == workers
    assert after.worker_of.keys() == case.binding.worker_of.keys()


@settings(max_examples=200, deadline=None)
@given(situations(), st.integers(1, 9))
def test_only_what_must_or_helps_is_moved(case: Situation, workers: int) -> None:
    """Fewer workers: only the instances of those that leave. More: only to those that are new."""
    for move in case.binding.diff(resized(case.loads, case.binding, workers)):
        if workers < case.binding.workers:
            assert move.source >= workers
        else:
            assert move.target >= case.binding.workers


@settings(max_examples=100, deadline=None)
@given(situations())
def test_the_same_number_changes_nothing(case: Situation) -> None:
    assert resized(case.loads, case.binding, case.binding.workers) == case.binding


def test_new_workers_get_their_share() -> None:
    names = [InstanceId(f"{n}/0") for n in range(12)]
    loads = Loads.of({name: Load(1.0, 0.0, 1.0) for name in names})
    after = resized(loads, Binding.of({name: n % 2 for n, name in enumerate(names)}, 2), 4)
    assert Counter(after.worker_of.values()) == {0: 3, 1: 3, 2: 3, 3: 3}


def test_without_loads_numbers_are_balanced() -> None:
    names = [InstanceId(f"{n}/0") for n in range(8)]
    after = resized(Loads.of({}), Binding.of(dict.fromkeys(names, 0), 1), 4)
    assert Counter(after.worker_of.values()) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_instances_of_workers_that_leave_are_spread_by_their_work() -> None:
    loads = Loads.of({InstanceId(f"{n}/0"): Load(float(work), 0.0, 1.0) for n, work in enumerate([5, 1, 4, 3])})
    binding = Binding.of({InstanceId("0/0"): 0, InstanceId("1/0"): 1, InstanceId("2/0"): 2, InstanceId("3/0"): 2}, 3)
    after = resized(loads, binding, 2)
    assert list(after.worker_of.values()) == [0, 1, 1, 0]


@given(st.floats(0, 2), st.integers(1, 50))
def test_wanted_stays_within_its_bounds_and_rests(busy: float, workers: int) -> None:
    scaling = Utilisation(2, 20)
    wanted = scaling.wanted(busy, workers)
    assert 2 <= wanted <= 20
    if scaling.low <= busy <= scaling.high and 2 <= workers <= 20:
        assert wanted == workers


@given(st.floats(0.1, 20), st.integers(1, 20))
def test_a_steady_load_settles_at_once(work: float, workers: int) -> None:
    """After one change, the same work gives no other number."""
    scaling = Utilisation(1, 64)
    first = scaling.wanted(min(1.0, work / workers), workers)
    again = [first]
    for _ in range(8):
        again.append(scaling.wanted(min(1.0, work / again[-1]), again[-1]))
    assert again[-1] == again[-2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "the bounds of the number of workers are given as LEAST:MOST; got '3'"),
        ("a:b", "the bounds of the number of workers are given as LEAST:MOST; got 'a:b'"),
        ("4:2", "the number of workers needs bounds from 1 up; got 4 to 2"),
        ("0:2", "the number of workers needs bounds from 1 up; got 0 to 2"),
    ],
)
def test_bounds_that_make_no_sense_are_a_clear_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Utilisation.of(text)
    assert str(caught.value) == message


def test_no_workers_are_a_clear_error() -> None:
    with pytest.raises(BindingError, match=r"^a binding needs at least one worker; got 0$"):
        resized(Loads.of({}), Binding.of({}, 1), 0)
    with pytest.raises(ConfigError, match=r"^utilisation needs bounds above 0, the lower first; got 0.9 and 0.5$"):
        Utilisation(1, 2, 0.9, 0.5)
