"""Shared values are computed once for a block, those of a column once for all its forms."""

import numpy as np

from shoal.kernels.columns.shared_values import Shared


def test_a_value_is_computed_once_for_a_form() -> None:
    made: list[int] = []
    one = Shared(1, form=("a",))
    other = Shared(1, one.cache, ("b",))
    for shared in (one, one, other):
        shared.once(("v",), lambda: made.append(1))
    assert len(made) == 2


def test_a_value_of_a_column_is_computed_once_for_all_forms() -> None:
    made: list[int] = []
    one = Shared(1, form=("a",))
    other = Shared(1, one.cache, ("b",))
    column, copy = np.zeros(2), np.zeros(2)

    def make() -> int:
        made.append(len(made))
        return len(made)

    assert [shared.once_of(column, ("v",), make) for shared in (one, other)] == [1, 1]
    assert one.once_of(copy, ("v",), make) == 2
    assert one.once_of(column, ("w",), make) == 3
    assert one.once_of(column, ("v",), make) == 1
