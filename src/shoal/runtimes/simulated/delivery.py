"""Delivery: when the results of a simulated run reach its sink, by which their latency counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Delivery:
    """How results leave a run.

    `period_s`: the sink gets what is there once per period, so that a result waits for some part of it, drawn at
    random. `measured_s`: waits that were measured, each as often as the others, in a row for every number of other busy
    workers; they are drawn in addition. Results of one step and part of a lane leave together.
    """

    period_s: float = 0.0
    seed: int = 0
    measured_s: tuple[tuple[float, ...], ...] = ()

    def latencies(self, results: NDArray[np.void], part_of: Ints, epoch: int) -> Floats:
        """The latency of results until the sink has them; `part_of`: the part of a lane that each task belongs to."""
        latency_s: Floats = results["latency_s"].copy()
        if not len(results) or not (self.period_s or self.measured_s):
            return latency_s
        pairs = np.stack([results["step"], part_of[results["task"]]])
        together = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        number = int(together.max()) + 1
        random = np.random.default_rng([self.seed, epoch])
        waits_s = random.uniform(0.0, self.period_s, number)
        if self.measured_s:
            others = np.zeros(number, np.int64)
            np.maximum.at(others, together, results["others"])
            values = np.array(self.measured_s)
            level = np.minimum(others, len(values) - 1)
            waits_s = waits_s + values[level, random.integers(0, values.shape[1], number)]
        return latency_s + waits_s[together]
