"""Batching of a transfer: its fragments in batches, by key, by the time at which they are needed, or by utility.

With more keys, times or fragments than a transfer may have batches, several share a batch.
"""

from collections.abc import Iterator

import numpy as np

from shoal.mechanisms.shedding.selection import Selection
from shoal.mechanisms.transfer import Transfer
from shoal.model.control.fragment import Fragments, Ids, Ints


def by_key(transfer: Transfer) -> Iterator[Fragments]:
    """The fragments of one key after another, or of a few; nothing if the runtime moves whole instances.

    All fragments of a key are in the same batch. Keys are in the order in which they are first needed.
    """
    if transfer.fragments is not None and len(transfer.fragments):
        yield from _divided(transfer.fragments, transfer.fragments.key, transfer.most_batches)


def by_time(transfer: Transfer) -> Iterator[Fragments]:
    """The fragments that are needed at one time after another, of all keys, the soonest first."""
    if transfer.fragments is not None and len(transfer.fragments):
        yield from _divided(transfer.fragments, transfer.fragments.needed_us, transfer.most_batches)


def by_utility(transfer: Transfer, selection: Selection) -> Iterator[Fragments]:
    """Fragments in batches of about equal size, in the order of a selection: usually by utility per byte."""
    fragments = transfer.fragments
    if fragments is None or not len(fragments):
        return
    order = selection.choose(fragments.utility, fragments.state_bytes, 0).order
    for places in np.array_split(order, min(transfer.most_batches, order.size)):
        yield fragments.take(places)


def _divided(fragments: Fragments, values: Ids | Ints, most: int) -> Iterator[Fragments]:
    """The fragments of each value; the values with the soonest need first."""
    distinct, group = np.unique(values, return_inverse=True)
    first_us = np.full(distinct.size, np.iinfo(np.int64).max)
    np.minimum.at(first_us, group, fragments.needed_us)
    rank = np.empty(distinct.size, np.int64)
    rank[np.lexsort((distinct, first_us))] = np.arange(distinct.size)
    batches = min(most, distinct.size)
    batch = rank[group] * batches // distinct.size
    order = np.argsort(batch, kind="stable")
    for places in np.split(order, np.searchsorted(batch[order], np.arange(1, batches))):
        yield fragments.take(places)
