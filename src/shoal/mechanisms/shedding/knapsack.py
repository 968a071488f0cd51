"""Dynamic programs for the knapsack problem: the smallest size of every total utility.

`best_of_levels` is exact for small whole utilities. Its table does not grow with the number of items:

1. Items that begin with the largest utility per byte are taken until the first that does not fit. This prefix is less
   than U, the largest utility, away from the optimum.
2. An optimum adds a set A of other items to the prefix, and removes a set R of its items. If parts of A and R have the
   same utility, both can be left out: items of R have at least the utility per byte of items of A, so that the part of
   R is not larger than the part of A.
3. Two lists of at least U whole numbers from 1 to U have parts of equal sum. So there is an optimum for which A or R
   has less than U items, and a utility below U * U. The other has then less than U * U as well, by 1.
4. It is therefore enough to know the smallest size of every utility below U * U to add, and the largest to remove.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
NEVER = 1 << 62
"""Size of a utility that no items have."""


def best_of_levels(level: Ints, utility: Floats, sizes: Ints, capacity: int) -> Mask:
    """The items of the largest total level within a capacity; items of level 0 are left out.

    Of items with equal level and size, those of larger `utility` are preferred.
    """
    useful = np.flatnonzero((level > 0) & (sizes <= capacity))
    order = useful[np.lexsort((-utility[useful], -level[useful] / np.maximum(sizes[useful], 1), sizes[useful] > 0))]
    ends = np.cumsum(sizes[order])
    taken = int(np.searchsorted(ends, capacity, side="right"))
    mask = np.zeros(level.size, bool)
    mask[order[:taken]] = True
    if taken == order.size:
        return mask
    prefix, others = order[:taken], order[taken:]
    width = int(level[useful].max()) ** 2
    slack = capacity - (int(ends[taken - 1]) if taken else 0)
    added = _Table(level[others], sizes[others], utility[others], width)
    removed = _Table(level[prefix], -sizes[prefix], -utility[prefix], width)
    gained, lost = _best_exchange(added.smallest, removed.smallest, slack)
    mask[others[added.items(gained)]] = True
    mask[prefix[removed.items(lost)]] = False
    return mask


def _best_exchange(added: Ints, removed: Ints, slack: int) -> tuple[int, int]:
    """The utilities to add and to remove that gain most and fit."""
    least = np.minimum.accumulate(added[::-1])[::-1]
    possible = np.flatnonzero(removed < NEVER)
    most = np.searchsorted(least, slack - removed[possible], side="right") - 1
    best = int(np.argmax(most - possible))
    return int(most[best]), int(possible[best])


def within_share(theta: float, utility: Floats, sizes: Ints, capacity: int, order: Ints, half: float) -> Mask:
    """Items whose total utility is at least 1 - theta of the best; `half`: a utility of at least half of it.

    The algorithm of Ibarra and Kim:

    1. With E = 2 * half, at least the best utility, an item is large if it is worth more than theta / 3 of E.
    2. Utilities of large items are rounded down to multiples of (theta / 3)^2 of E: by less than theta / 3 of each.
       A table gives the smallest size for every sum of these.
    3. Every entry of the table is completed with small items, by utility per byte, up to the first that does not fit:
       less than one small item is missing, at most 2 * theta / 3 of the best.
    4. The most useful combination is chosen.
    """
    mask = np.zeros(utility.size, bool)
    if not half:
        return mask
    utility = np.where(sizes <= capacity, utility, 0.0) / half  # so that the smallest numbers do not become 0
    limit, unit = 2 * theta / 3, 2 * (theta / 3) ** 2
    large = np.flatnonzero((utility > limit) & (sizes <= capacity))
    small = order[(utility[order] <= limit) & (sizes[order] <= capacity)]
    level = np.floor(utility[large] / unit).astype(np.int64)
    table = _Table(level, sizes[large], utility[large], int(9 / theta**2) + 2)
    possible = np.flatnonzero(table.smallest <= capacity)
    ends, worth = np.cumsum(sizes[small]), np.append(0.0, np.cumsum(utility[small]))
    number = np.searchsorted(ends, capacity - table.smallest[possible], side="right")
    best = int(np.argmax(possible * unit + worth[number]))
    mask[large[table.items(int(possible[best]))]] = True
    mask[small[: number[best]]] = True
    return mask


class _Table:
    """For every total level below a width, the smallest total size of items, and which items these are.

    Of the items of one level the smallest are best, so no more of them are considered than fit into the width.
    """

    def __init__(self, level: Ints, sizes: Ints, utility: Floats, width: int) -> None:
        width = min(width, int(level.sum()) + 1)
        order = np.lexsort((-utility, sizes, level))
        level = level[order]
        rank = np.arange(level.size) - np.searchsorted(level, level)
        kept = (rank + 1) * level < width
        self.order, self.level = order[kept], level[kept]
        self.smallest = np.full(width, NEVER, np.int64)
        self.smallest[0] = 0
        self.taken = np.zeros((self.order.size, width // 8 + 1), np.uint8)
        _add_items(self.level, sizes[self.order], self.smallest, self.taken)

    def items(self, total: int) -> Ints:
        """The items of which the smallest size of a total level consists."""
        found = []
        for item in range(self.order.size - 1, -1, -1):
            if self.taken[item, total >> 3] >> (total & 7) & 1:
                found.append(item)
                total -= int(self.level[item])
        return self.order[found]


@compiled
def _add_items(level: Ints, sizes: Ints, smallest: Ints, taken: NDArray[np.uint8]) -> None:
    """Add items one by one: a total level is reached without the item, or with it from a lower one."""
    reached = 0
    for item in range(level.size):
        step, size = level[item], sizes[item]
        reached = min(reached + step, smallest.size - 1)
        for total in range(reached, step - 1, -1):
            before = smallest[total - step]
            if before < NEVER and before + size < smallest[total]:
                smallest[total] = before + size
                taken[item, total >> 3] |= np.uint8(1 << (total & 7))
