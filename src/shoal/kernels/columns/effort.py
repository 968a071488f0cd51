"""Effort: what an advance took beside its rows and results, for those who say what it costs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Effort:
    """For every instance: rows that were looked up in state, rows of state that these were compared with, rows of state
    that began, and rows of state that ended.

    >>> one = Effort(np.array([2]), np.array([5]), np.array([1]), np.array([0]))
    >>> Effort.joined([one, Effort.none(1)]).compared.tolist()
    [5, 0]
    """

    looked_up: Numbers
    compared: Numbers
    begun: Numbers
    ended: Numbers

    @classmethod
    def none(cls, instances: int) -> "Effort":
        """No effort of so many instances."""
        return cls(*(np.zeros(instances, np.int64) for _ in range(4)))

    @classmethod
    def joined(cls, parts: Iterable["Effort"]) -> "Effort":
        """The efforts of instances one after another."""
        return cls(*(np.concatenate(column) for column in zip(*(each.columns for each in parts), strict=True)))

    @property
    def columns(self) -> tuple[Numbers, ...]:
        """Rows looked up, comparisons, rows begun and rows ended."""
        return self.looked_up, self.compared, self.begun, self.ended
