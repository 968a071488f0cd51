"""The policies `metis` and `dynamic-metis`."""

import ctypes
import sys
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import RUNNABLE, Situation, named, situation, situations, skewed_city

from shoal.errors import ConfigError
from shoal.model.control.topology import Topology
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.loads import Load, shared_out
from shoal.policies.binding.metis import DynamicMetis, Metis, parts, renamed

needs_metis = pytest.mark.skipif("metis" not in RUNNABLE, reason="pymetis is not installed")
FLAT = Topology.of(nodes=1, workers=3)
OLD = np.array([0, 0, 1, 2, 2, 2])
NEW = np.array([1, 1, 2, 0, 0, 0])


def test_the_study_s_example_is_renamed_by_its_rule() -> None:
    """New part 0 has 3 in common with old part 2, 1 has 2 with 0, 2 has 1 with 1: so nothing moves.

    The study prints the new parts as they were, by which everything moves, and equation 15 binds by them.
    """
    assert renamed(NEW, OLD, 3).tolist() == OLD.tolist()
    assert renamed(NEW, OLD, 3).tolist() != NEW.tolist()


def test_the_largest_overlap_is_named_first() -> None:
    # Part 0 would like name 0 best, but part 1 has more of it; part 0 then takes what is next best, name 1.
    new = np.array([1, 1, 1, 0, 0, 0])
    old = np.array([0, 0, 0, 0, 0, 1])
    assert renamed(new, old, 2).tolist() == [0, 0, 0, 1, 1, 1]


def test_parts_with_nothing_in_common_get_the_names_left_in_turn() -> None:
    new = np.array([0, 1, 2, 3])
    old = np.array([2, 2, 2, 2])
    assert renamed(new, old, 4).tolist() == [2, 0, 1, 3]


@st.composite
def pairs_of_parts(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    number, count = draw(st.integers(1, 5)), draw(st.integers(0, 12))
    part = st.lists(st.integers(0, number - 1), min_size=count, max_size=count)
    return draw(part), draw(part), number


@settings(deadline=None)
@given(pairs_of_parts())
def test_names_are_given_once_by_greatest_overlap(drawn: tuple[list[int], list[int], int]) -> None:
    new, old, number = drawn
    overlap = {(p, n): sum(a == p and b == n for a, b in zip(new, old, strict=True)) for p in range(number)
               for n in range(number)}  # fmt: skip
    name_of: dict[int, int] = {}
    while left := {pair: size for pair, size in overlap.items() if size}:
        part, name = min(left, key=lambda pair: (-left[pair], pair))
        name_of[part] = name
        overlap = {(p, n): size for (p, n), size in left.items() if p != part and n != name}
    names = renamed(np.array(new, dtype=np.int64), np.array(old, dtype=np.int64), number).tolist()
    assert all(names[place] == name_of[part] for place, part in enumerate(new) if part in name_of)
    given_ = dict(zip(new, names, strict=True))
    assert len(set(given_.values())) == len(given_)


@settings(deadline=None)
@given(pairs_of_parts(), st.randoms(use_true_random=False))
def test_the_same_parts_under_other_names_are_the_same(
    drawn: tuple[list[int], list[int], int], shuffle: Random
) -> None:
    old, _, number = drawn
    names = list(range(number))
    shuffle.shuffle(names)
    new = np.array([names[part] for part in old], dtype=np.int64)
    assert renamed(new, np.array(old, dtype=np.int64), number).tolist() == old


@pytest.mark.parametrize("policy", [Metis(), DynamicMetis()], ids=["metis", "dynamic-metis"])
def test_without_pymetis_the_error_says_what_to_install(
    policy: Metis | DynamicMetis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ConfigError, match=r"need the package pymetis, which is not installed; pip install 'shoal\["):
        skewed_city(1).proposal(policy)


@needs_metis
@settings(deadline=None)
@given(situations())
def test_a_cut_depends_on_loads_and_not_on_the_binding(asked: Situation) -> None:
    other = asked.binding.of(dict.fromkeys(asked.binding.worker_of, 0), asked.topology.workers)
    assert asked.proposal(Metis()) == asked.then(other).proposal(Metis())


@needs_metis
@settings(deadline=None)
@given(situations())
def test_asked_again_dynamic_metis_stays(asked: Situation) -> None:
    proposal = asked.proposal(DynamicMetis())
    assert asked.then(proposal).proposal(DynamicMetis()) == proposal


@needs_metis
@settings(deadline=None)
@given(situations())
def test_renaming_never_moves_more_than_the_plain_cut_s_best_name_would(asked: Situation) -> None:
    """The largest overlap of all is kept where it is."""
    new, old = parts(asked.loads, asked.topology.workers), asked.placed(asked.binding)
    if new.size:
        overlap = np.bincount(new * asked.topology.workers + old).max()
        assert asked.moves(asked.proposal(DynamicMetis())) <= new.size - overlap


@needs_metis
@pytest.mark.parametrize("seed", range(3))
def test_parts_take_about_the_same_time(seed: int) -> None:
    asked = skewed_city(seed)
    assert asked.peak(asked.loads.busy_s, asked.proposal(Metis())) <= 1.05 * shared_out(asked.loads.busy_s, 8)[1]


@needs_metis
def test_what_sends_much_stays_together() -> None:
    loads = {f"{name}{number}": (0, Load(busy_s=1.0)) for number in range(12) for name in "ab"}
    edges = {(f"a{number}", f"b{number}"): 1000.0 for number in range(12)}
    proposal = situation(loads, FLAT, edges).proposal(Metis()).worker_of
    assert all(proposal[InstanceId(f"a{number}")] == proposal[InstanceId(f"b{number}")] for number in range(12))


@needs_metis
def test_an_instance_as_heavy_as_a_share_has_a_worker_of_its_own_and_metis_is_silent(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for heavy in (30.0, 1000.0):
        loads = {named(n): (0, Load(busy_s=heavy if n in (4, 9) else 1.0)) for n in range(15)}
        proposal = situation(loads, Topology.of(1, 6)).proposal(Metis())
        workers = list(proposal.worker_of.values())
        assert all(workers.count(workers[place]) == 1 for place in (4, 9))
        assert len(set(workers)) == 6
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")


@needs_metis
def test_nothing_measured_is_dealt_out_evenly() -> None:
    loads = {named(n): (0, Load()) for n in range(30)}
    workers = [int(worker) for worker in situation(loads, FLAT).proposal(Metis()).worker_of.values()]
    assert all(abs(workers.count(worker) - 10) <= 1 for worker in range(3))
