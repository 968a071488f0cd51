"""Selections: which fragments to send within a capacity, and in which order.

A selection maximises the total utility of fragments whose sizes fit into a capacity: the knapsack problem. All of
them are pure: equal input gives equal output, ties go to the earlier fragment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError, MechanismError
from shoal.kernels.compiled import compiled
from shoal.mechanisms.shedding.knapsack import best_of_levels, within_share

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEAST_LEVELS, MOST_LEVELS = 100, 10_000
OPERATIONS = 1e8
"""About how many operations an optimal choice may take: some tenths of a second."""
LEAST_THETA = 0.03
"""Below this, tables of the approximation could take more than 100 MB."""


@dataclass(frozen=True, eq=False)
class Selected:
    """The fragments that fit (`mask`), and all fragments in the order in which to send them (`order`).

    Chosen fragments come first. The others follow, for as long as the link lives.
    """

    mask: Mask
    order: Ints

    def arrived(self, state_bytes: Ints, sent_bytes: int) -> Mask:
        """Which fragments are complete at the other end after some bytes, if they are sent in this order.

        >>> GreedySelection().choose(np.array([1.0, 9.0]), np.array([10, 10]), 10).arrived(
        ...     np.array([10, 10]), 19
        ... ).tolist()
        [False, True]
        """
        arrived = np.zeros(self.mask.size, bool)
        arrived[self.order[np.cumsum(state_bytes[self.order]) <= sent_bytes]] = True
        return arrived


class Selection(Protocol):
    """A way to choose fragments."""

    @property
    def name(self) -> str:
        """Its name in the catalog."""

    def choose(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Selected:
        """Choose fragments whose sizes add up to at most the capacity.

        Called with a value per fragment. Raises `MechanismError` for utilities that are negative or not finite,
        negative sizes and a negative capacity. Fragments without bytes are always chosen.
        """


@dataclass(frozen=True)
class RandomSelection:
    """Fragments in random order, each sent if it still fits; the baseline."""

    seed: int = 0
    name: str = "random"

    def choose(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Selected:
        """Choose in an order that the seed determines."""
        _check(utility, state_bytes, capacity_bytes)
        order = np.random.default_rng(self.seed).permutation(utility.size)
        return _ordered(_fitting(order, state_bytes, capacity_bytes), order)


@dataclass(frozen=True)
class GreedySelection:
    """Fragments by utility per byte, each sent if it still fits.

    If the most useful fragment alone is worth more than all of these, it is chosen first. The utility is therefore at
    least half of the best possible; for fragments of equal size it is the best possible.
    """

    name: str = "greedy"

    def choose(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Selected:
        """Choose by utility per byte."""
        _check(utility, state_bytes, capacity_bytes)
        order = by_density(utility, state_bytes)
        return _ordered(_greedy(utility, state_bytes, capacity_bytes, order), order)


@dataclass(frozen=True)
class OptimalSelection:
    """The best choice for utilities rounded to whole numbers from 0 to `levels`, and then whatever else fits.

    If rounding has made it worse than the greedy choice, that one is taken. Without `levels`, there are 100 as in the
    paper, or more if fragments are few enough to compute the choice quickly.
    """

    levels: int | None = None
    name: str = "optimal"

    def __post_init__(self) -> None:
        """Reject a scale without steps, and one that takes too long if fragments are many."""
        if self.levels is not None and not 1 <= self.levels <= LEAST_LEVELS:
            raise ConfigError(f"levels of selection optimal must be from 1 to {LEAST_LEVELS}; got {self.levels}")

    def choose(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Selected:
        """Choose the fragments of the largest total utility."""
        _check(utility, state_bytes, capacity_bytes)
        order = by_density(utility, state_bytes)
        scaled = self.scaled(utility, state_bytes, capacity_bytes)
        found = _filled(
            best_of_levels(scaled, utility, state_bytes, capacity_bytes), order, state_bytes, capacity_bytes
        )
        greedy = _greedy(utility, state_bytes, capacity_bytes, order)
        return _ordered(greedy if utility[greedy].sum() > utility[found].sum() else found, order)

    def scaled(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Ints:
        """Utilities as whole numbers, relative to the most useful fragment that fits; 0 for those that do not fit."""
        fitting = np.where(state_bytes <= capacity_bytes, utility, 0.0)
        largest = fitting.max(initial=0.0)
        if not largest:
            return np.zeros(utility.size, np.int64)
        levels = self.levels or levels_for(int(np.count_nonzero(fitting)))
        return np.rint(fitting / largest * levels).astype(np.int64)


@dataclass(frozen=True)
class FptasSelection:
    """A choice of at least 1 - `theta` of the best possible utility, in a time that is polynomial in 1 / `theta`."""

    theta: float = 0.05
    name: str = "fptas"

    def __post_init__(self) -> None:
        """Reject a share that promises nothing, and one that takes too much memory."""
        if not LEAST_THETA <= self.theta < 1:
            raise ConfigError(f"theta of selection fptas must be at least {LEAST_THETA} and below 1; got {self.theta}")

    def choose(self, utility: Floats, state_bytes: Ints, capacity_bytes: int) -> Selected:
        """Choose fragments of nearly the largest total utility."""
        _check(utility, state_bytes, capacity_bytes)
        order = by_density(utility, state_bytes)
        greedy = _greedy(utility, state_bytes, capacity_bytes, order)
        found = within_share(self.theta, utility, state_bytes, capacity_bytes, order, float(utility[greedy].sum()))
        mask = _filled(found, order, state_bytes, capacity_bytes)
        return _ordered(mask if utility[mask].sum() > utility[greedy].sum() else greedy, order)


SELECTIONS: Mapping[str, Selection] = {
    each.name: each for each in (GreedySelection(), OptimalSelection(), FptasSelection(), RandomSelection())
}
"""All selections by name."""


def selection_named(name: str) -> Selection:
    """The selection with a name; an unknown name is rejected.

    >>> selection_named("greedy").name
    'greedy'
    """
    if name not in SELECTIONS:
        raise ConfigError(f"selection must be one of {', '.join(SELECTIONS)}; got {name!r}")
    return SELECTIONS[name]


def levels_for(fragments: int) -> int:
    """How many levels of utility an optimal choice distinguishes among a number of fragments.

    >>> levels_for(8), levels_for(1000), levels_for(8000), levels_for(1_000_000)
    (10000, 316, 111, 100)
    """
    if not fragments:
        return LEAST_LEVELS
    most = max(OPERATIONS / fragments**2, (OPERATIONS / fragments) ** 0.5)
    return int(min(max(most, LEAST_LEVELS), MOST_LEVELS))


def by_density(utility: Floats, state_bytes: Ints) -> Ints:
    """Fragments by utility per byte, the largest first, then the more useful; those without bytes come first."""
    density = np.full(utility.size, np.inf)
    np.divide(utility, state_bytes, out=density, where=state_bytes > 0)
    order = np.argsort(-density, kind="stable")
    ordered = density[order]
    if (ordered[1:] == ordered[:-1]).any():
        return np.lexsort((-utility, -density))
    return order


def _greedy(utility: Floats, state_bytes: Ints, capacity_bytes: int, order: Ints) -> Mask:
    mask = _fitting(order, state_bytes, capacity_bytes)
    alone = np.where(state_bytes <= capacity_bytes, utility, -1.0)
    if alone.size and alone[best := int(alone.argmax())] > utility[mask].sum():
        only = np.zeros(utility.size, bool)
        only[best] = True
        return _filled(only, order, state_bytes, capacity_bytes)
    return mask


def _fitting(order: Ints, state_bytes: Ints, capacity_bytes: int) -> Mask:
    return _filled(np.zeros(order.size, bool), order, state_bytes, capacity_bytes)


def _filled(mask: Mask, order: Ints, state_bytes: Ints, capacity_bytes: int) -> Mask:
    """A choice with further fragments, in the given order, each if it still fits."""
    filled = mask.copy()
    _fill(filled, order, state_bytes, capacity_bytes - int(state_bytes[mask].sum()))
    return filled


@compiled
def _fill(mask: Mask, order: Ints, state_bytes: Ints, left_bytes: int) -> None:
    for i in order:
        if not mask[i] and state_bytes[i] <= left_bytes:
            mask[i] = True
            left_bytes -= state_bytes[i]


def _ordered(mask: Mask, order: Ints) -> Selected:
    """The chosen fragments and then the others, each in the given order."""
    chosen = mask[order]
    return Selected(mask, np.concatenate([order[chosen], order[~chosen]]))


def _check(utility: Floats, state_bytes: Ints, capacity_bytes: int) -> None:
    if utility.size != state_bytes.size:
        raise MechanismError(
            f"fragments must have a utility and a size each; got {utility.size} utilities and {state_bytes.size} sizes"
        )
    wrong = np.flatnonzero(~(np.isfinite(utility) & (utility >= 0)))
    if wrong.size:
        raise MechanismError(
            f"utility of fragment number {wrong[0]} must be 0 or more and finite; got {utility[wrong[0]]}"
        )
    negative = np.flatnonzero(state_bytes < 0)
    if negative.size:
        raise MechanismError(
            f"size of fragment number {negative[0]} must be 0 bytes or more; got {state_bytes[negative[0]]}"
        )
    if capacity_bytes < 0:
        raise MechanismError(f"capacity of a transfer must be 0 bytes or more; got {capacity_bytes}")
