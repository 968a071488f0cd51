"""Serving: how workers serve queues that go by event time.

Windows close at the same time for many instances, so that a queue by event time says nothing of their order. What comes
first then decides how long results wait (most results per second of work first is the order with the smallest mean),
and what comes last decides how evenly workers end (long work last leaves one of them behind).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BY_AGE, RESULTS_FIRST = "by-age", "results-first"
SERVING: Mapping[str, str] = {
    BY_AGE: "the oldest first, equally old tasks as they come; a turn takes all that is ready",
    RESULTS_FIRST: "of equally old tasks most expected results per second first; a turn ends where results may come",
}
"""How queues are served, each in one line."""
LEAST_S = 1e-12


def highest_rate_first(results: Floats, work_s: Floats) -> Ints:
    """The places of pieces of work by expected results and seconds: 0 is first, what is equal has the same place.

    1. Rates are compared in classes: those above half of the highest rate, those above a quarter of it, and so on.
       Expectations are no better than that, and closings of windows hardly differ in their rate.
    2. Within a class the longest work comes first, so that the last pieces are short and workers end evenly (LPT).
    3. Work without results comes last, the longest of it first.

    >>> highest_rate_first(np.array([1.0, 8.0, 10.0, 0.0]), np.array([1.0, 1.0, 2.0, 5.0])).tolist()
    [2, 1, 0, 3]
    """
    rate = results / np.maximum(work_s, LEAST_S)
    classes = np.full(len(rate), np.inf)
    classes[rate > 0] = np.floor(np.log2(rate.max(initial=0.0) / rate[rate > 0]))
    order = np.lexsort((-work_s, classes))
    changes = (classes[order[1:]] > classes[order[:-1]]) | (work_s[order[1:]] < work_s[order[:-1]])
    places = np.zeros(len(order), np.int64)
    places[order[1:]] = np.cumsum(changes)
    return places
