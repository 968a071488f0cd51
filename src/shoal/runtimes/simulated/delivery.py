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
    random. `by_part`: a worker runs all of its instances of a lane as one node, so that their results of a step leave
    when the last of them is done.
    """

    period_s: float = 0.0
    by_part: bool = False
    seed: int = 0

    def latencies(self, results: NDArray[np.void], part_of: Ints, epoch: int) -> Floats:
        """The latency of results until the sink has them; `part_of`: the part of a lane that each task belongs to."""
        latency_s: Floats = results["latency_s"].copy()
        if not len(results) or not (self.by_part or self.period_s):
            return latency_s
        pairs = np.stack([results["step"], part_of[results["task"]]])
        together = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
        number = int(together.max()) + 1
        if self.by_part:
            last_s = np.zeros(number)
            np.maximum.at(last_s, together, latency_s)
            latency_s = last_s[together]
        waits_s = np.random.default_rng([self.seed, epoch]).uniform(0.0, self.period_s, number)
        return latency_s + waits_s[together]
