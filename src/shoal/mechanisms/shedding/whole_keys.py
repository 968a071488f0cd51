"""Selections of fragments as kernels list them, of single ones or of all that a key has."""

import numpy as np

from shoal.mechanisms.shedding.selection import Selected, Selection
from shoal.model.control.fragment import Fragments


def selected(selection: Selection, fragments: Fragments, capacity_bytes: int, *, whole_keys: bool = False) -> Selected:
    """Choose fragments that fit into a capacity, and the order in which to send them.

    With `whole_keys`, a key has either all its fragments chosen or none, and they follow each other. All results of the
    keys that are chosen are then right, since results depend on the fragments of their own key only. It can cost
    utility.
    """
    if not whole_keys:
        return selection.choose(fragments.utility, fragments.state_bytes, capacity_bytes)
    keys, of_key = np.unique(fragments.key, return_inverse=True)
    utility = np.bincount(of_key, fragments.utility, minlength=keys.size).astype(np.float64)
    sizes = np.bincount(of_key, fragments.state_bytes, minlength=keys.size).astype(np.int64)
    chosen = selection.choose(utility, sizes, capacity_bytes)
    place = np.empty(keys.size, np.int64)
    place[chosen.order] = np.arange(keys.size)
    return Selected(chosen.mask[of_key], np.argsort(place[of_key], kind="stable"))
