"""Fragments in columns."""

import numpy as np
import pytest

from shoal.model.control.fragment import NO_DEADLINE_US, Fragment, FragmentId, Fragments


def two() -> Fragments:
    ints, ids = np.array([3, 4]), np.array([1, 2**64 - 1], np.uint64)
    deadlines_us, utility = np.array([9, NO_DEADLINE_US]), np.array([0.5, 1.0])
    return Fragments(ids, ints, ints, ints, deadlines_us, utility, np.ones(2, bool), ids, ints)


def test_a_list_can_be_looked_at_one_by_one() -> None:
    assert list(two()) == [
        Fragment(FragmentId(1), 3, 3, 3, 9, 0.5, True, 1, 3),
        Fragment(FragmentId(2**64 - 1), 4, 4, 4, None, 1.0, True, 2**64 - 1, 4),
    ]


def test_lists_are_selected_from_and_put_together() -> None:
    parts = [two().where(np.array([False, True])), Fragments.none(), two().where(np.array([True, False]))]
    assert Fragments.concat(parts).ids.tolist() == [2**64 - 1, 1]
    assert not len(Fragments.concat([]))


def test_columns_of_different_lengths_are_rejected() -> None:
    ints = np.array([3, 4])
    ids = ints.astype(np.uint64)
    with pytest.raises(ValueError, match=r"columns of fragments must be of equal length; got .*'instance': 1"):
        Fragments(ids, ints, ints[:1], ints, ints, np.ones(2), np.ones(2, bool), ids, ints)
