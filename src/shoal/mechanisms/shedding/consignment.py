"""Consignments: the fragments of several transfers over one link, in the order in which they are sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.mechanisms.shedding.selection import Selection
from shoal.model.control.fragment import Fragments

SLICES = 8
"""In so many parts the chosen fragments of several transfers are sent, and the rest: each message costs time."""


@dataclass(frozen=True, eq=False)
class Consignment:
    """Fragments of one transfer, by its place among the transfers, that are sent as one; the most useful first.

    `chosen`: they fit into the capacity of the link, together with all that are sent before.
    """

    place: int
    fragments: Fragments
    chosen: bool


def consigned(selection: Selection, several: Sequence[Fragments], capacity_bytes: int) -> Iterator[Consignment]:
    """Choose among the fragments of several transfers; yields the chosen ones first, then the others.

    Fragments of one transfer make two consignments at most. Those of several are sent in parts, so that the most useful
    ones of all transfers come first.
    """
    every = Fragments.concat(several)
    place_of = np.repeat(np.arange(len(several)), [len(each) for each in several])
    selected = selection.choose(every.utility, every.state_bytes, capacity_bytes)
    number = int(np.count_nonzero(selected.mask))
    for chosen, order in ((True, selected.order[:number]), (False, selected.order[number:])):
        for rows in _parts(order, 1 if len(several) == 1 else SLICES):
            for place in _places(place_of[rows]):
                yield Consignment(place, every.take(rows[place_of[rows] == place]), chosen)


def _parts(order: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    return np.array_split(order, min(most, order.size)) if order.size else []


def _places(places: NDArray[np.int64]) -> list[int]:
    """Every place once, by its first fragment."""
    found, first = np.unique(places, return_index=True)
    return found[np.argsort(first)].tolist()
