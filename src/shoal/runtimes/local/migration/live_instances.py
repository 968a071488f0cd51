"""Live instances: all instances of a run in one order, independent of their numbers in the lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.local.dataflow.load import Ints
from shoal.runtimes.local.migration.repartition import LivePartitioning


@dataclass(frozen=True, eq=False)
class LiveInstances:
    """The instances of a run in one order, and their positions among the concatenated numbers of all lanes.

    `numbers` are those of each lane, in the order of `live`. The load of `strays` counts for the instances at the
    positions `heirs`.
    """

    live: LivePartitioning
    numbers: tuple[Ints, ...]
    names: tuple[InstanceId, ...]
    order: Ints
    strays: Ints
    heirs: Ints

    @classmethod
    def arranged(cls, live: LivePartitioning, graph: Graph, sizes: Sequence[int]) -> "LiveInstances":
        """The instances in force; `sizes` is how many numbers each lane has."""
        starts = np.cumsum([0, *sizes]).tolist()[:-1]
        at = {name: start + n for start, of in zip(starts, live.numbers, strict=True) for name, n in of.items()}
        names = tuple(name for name in live.partitioning.instances(graph) if name in at)
        place_of = {name: place for place, name in enumerate(names)}
        strays = [
            (start + n, place_of[i]) for start, of in zip(starts, live.strays, strict=True) for n, i in of.items()
        ]
        pairs = np.array(strays, np.int64).reshape(-1, 2)
        numbers = tuple(np.array([*of.values()], np.int64) for of in live.numbers)
        order = np.array([at[name] for name in names], np.int64)
        return cls(live, numbers, names, order, pairs[:, 0], pairs[:, 1])

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """Turn a column over the numbers of all lanes into one over the instances."""
        found = column[self.order]
        if self.strays.size:
            np.add.at(found, self.heirs, column[self.strays])
        return found
