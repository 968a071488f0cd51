"""Loads: the input, cost and results of the instances of a part of a lane.

The time of a turn is divided among the instances that were active in it. With one instance it is exact. With several,
each gets a share by its rows (received, merged and emitted) and by its comparisons: rows received times the rows they
were merged with. Windows cost by rows, joins and patterns by comparisons. The cost of one row and of one comparison is
estimated by least squares over the turns of the part.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.kernels.columns.table import Tables
from shoal.kernels.compiled import compiled
from shoal.runtimes.local.dataflow.place_counts import PlaceCounts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
KEPT = 0.99
"""Decay per turn: estimates cover about the last hundred turns."""
SMALLEST = 1e-9
"""Below this, rows and comparisons are too correlated to be separated."""


class Prices:
    """The cost of a row and of a comparison, learned from turns; never negative."""

    def __init__(self) -> None:
        """Before the first turn, only rows cost something."""
        self.row_s = 1.0
        self.comparison_s = 0.0
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)

    def learn(self, rows: float, comparisons: float, cost_s: float) -> None:
        """Update the estimates with one turn."""
        turn = np.array([rows, comparisons])
        self._squares = KEPT * self._squares + np.outer(turn, turn)
        self._products = KEPT * self._products + turn * cost_s
        (of_rows, mixed), (_, of_comparisons) = self._squares
        left = of_rows * of_comparisons - mixed * mixed
        if left > SMALLEST * of_rows * of_comparisons:
            row_s = (self._products[0] * of_comparisons - self._products[1] * mixed) / left
            comparison_s = (self._products[1] * of_rows - self._products[0] * mixed) / left
            if row_s >= 0 and comparison_s >= 0:
                self.row_s, self.comparison_s = float(row_s), float(comparison_s)
                return
            if row_s < 0 <= comparison_s:
                self.row_s, self.comparison_s = 0.0, float(self._products[1] / of_comparisons)
                return
        if of_rows > 0:
            self.row_s, self.comparison_s = float(self._products[0] / of_rows), 0.0


class LaneLoad:
    """Counters of one part; the worker that runs the part writes them, any thread may read.

    `events`, `results` and `cost_s` are sums per instance since the start, `rows` the present rows of its state.
    `relabelled` is how many more rows it received than splits had labelled with it, because instances were split or
    merged while the rows were in flight.
    """

    def __init__(self, instances: int, places: PlaceCounts | None = None) -> None:
        """All counters are 0; `places` counts rows by place, if they have one."""
        self.size = instances
        self.places = places
        self.events = np.zeros(instances, np.int64)
        self.relabelled = np.zeros(instances, np.int64)
        self.results = np.zeros(instances, np.int64)
        self.cost_s = np.zeros(instances)
        self.rows = np.zeros(instances, np.int64)
        self.prices = Prices()
        self._taken = np.zeros(instances, np.int64)
        self._emitted = np.zeros(instances, np.int64)
        self._touched = np.zeros(instances, np.int64)
        self._comparisons = np.zeros(instances)
        self._worked = False
        count(self.events[:0], self._taken)  # loads the compiled code

    def take(self, instances: Ints) -> None:
        """Count rows received, by instance."""
        self._worked = True
        count(instances, self._taken)

    def relabel(self, before: Ints, after: Ints) -> None:
        """Count rows whose labels have changed on arrival."""
        self.relabelled += np.bincount(after, minlength=self.size) - np.bincount(before, minlength=self.size)

    def merge(self, fresh: Ints, kept: Ints, results: Ints) -> None:
        """Count a merge of `fresh` rows per instance into `kept` ones, with the instances of the results."""
        self._worked = True
        touched = fresh + kept
        self._touched += touched
        self._comparisons += fresh.astype(np.float64) * touched
        if results.size:
            count(results, self._emitted)

    def charge(self, cost_s: float) -> None:
        """Divide the time of a turn among the instances; called at the end of every turn."""
        if not self._worked:
            return
        rows = self._taken + self._touched + self._emitted
        self.prices.learn(float(rows.sum()), float(self._comparisons.sum()), cost_s)
        weight = self.prices.row_s * rows + self.prices.comparison_s * self._comparisons
        if not weight.any():
            weight = rows.astype(np.float64)
        total = float(weight.sum())
        if total > 0:
            self.cost_s += weight * (cost_s / total)
        self.flush()

    def flush(self) -> None:
        """Add the counts of the turn to the totals, without its cost."""
        self.events += self._taken
        self.results += self._emitted
        for counters in (self._taken, self._emitted, self._touched, self._comparisons):
            counters[:] = 0
        self._worked = False


def per_instance(tables: Tables, counts: Ints) -> Ints:
    """Add the rows of some tables to counts per instance."""
    for table in tables.values():
        count(table.instance, counts)
    return counts


@compiled
def count(instances: Ints, counts: Ints) -> None:
    """Count the rows of every instance."""
    for i in range(instances.size):
        counts[instances[i]] += 1
