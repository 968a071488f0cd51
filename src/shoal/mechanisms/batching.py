"""Batching of a transfer: the ids of its fragments in batches, by key, by when they are needed, or by utility.

With more keys, times or fragments than a transfer may have batches, several share a batch.
"""

from collections.abc import Iterator

import numpy as np

from shoal.mechanisms.shedding.selection import Selection
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.fragment import Fragments, Ids, Ints


def by_key(transfer: Transfer) -> Iterator[Ids]:
    """The fragments of one key after another, or of a few; nothing if the runtime moves whole instances.

    All fragments of a key are in the same batch. Keys are in the order in which they are first needed.
    """
    if transfer.fragments is not None and len(transfer.fragments):
        for places in _divided(transfer.fragments, transfer.fragments.key, transfer.most_batches):
            yield transfer.fragments.ids[places]


def by_time(transfer: Transfer) -> Iterator[tuple[int, Ids]]:
    """The watermark at which some fragments are first needed, and their ids, of all keys, the soonest first."""
    if transfer.fragments is not None and len(transfer.fragments):
        for places in _divided(transfer.fragments, transfer.fragments.needed_us, transfer.most_batches):
            yield int(transfer.fragments.needed_us[places].min()), transfer.fragments.ids[places]


def by_utility(transfer: Transfer, selection: Selection) -> Iterator[Ids]:
    """Fragments in batches of about equal size, in the order of a selection: usually by utility per byte."""
    fragments = transfer.fragments
    if fragments is None or not len(fragments):
        return
    order = selection.choose(fragments.utility, fragments.state_bytes, 0).order
    batches = min(transfer.most_batches, order.size)
    each, more = divmod(order.size, batches)
    sizes = each + (np.arange(batches) < more)
    for places in parts_of(order, np.cumsum(sizes)[:-1]):
        yield fragments.ids[places]


def _divided(fragments: Fragments, values: Ids | Ints, most: int) -> Iterator[Ints]:
    """The places of the fragments of each value; the values with the soonest need first."""
    distinct, group = np.unique(values, return_inverse=True)
    first_us = np.full(distinct.size, np.iinfo(np.int64).max)
    np.minimum.at(first_us, group, fragments.needed_us)
    rank = np.empty(distinct.size, np.int64)
    rank[np.lexsort((distinct, first_us))] = np.arange(distinct.size)
    batches = min(most, distinct.size)
    batch = rank[group] * batches // distinct.size
    order = np.argsort(batch, kind="stable")
    yield from parts_of(order, np.searchsorted(batch[order], np.arange(1, batches)))


def parts_of(places: Ints, ends: Ints) -> Iterator[Ints]:
    """The parts of an array that end before some positions, and the rest; as `np.split`, which takes far longer.

    >>> [part.tolist() for part in parts_of(np.arange(5), np.array([2, 4]))]
    [[0, 1], [2, 3], [4]]
    """
    begin = 0
    for end in (*ends.tolist(), len(places)):
        yield places[begin:end]
        begin = end
