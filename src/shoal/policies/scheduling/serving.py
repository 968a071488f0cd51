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


def highest_rate_first(results: Floats, work_s: Floats, own_s: Floats, workers: int) -> Ints:
    """The places of pieces of work by expected results and seconds: 0 is first, pieces without work may share one.

    The work of a piece includes what waits for it; `own_s` is the part without that, so that its sum is all there is.

    1. Rates are compared in classes: those above half of the highest rate, those above a quarter of it, and so on.
       Expectations are no better than that, and closings of windows hardly differ in their rate.
    2. Within a class the longest work comes first, so that the last pieces are short and workers end evenly (LPT).
    3. Work without results comes last, the longest of it first.
    4. A piece that would begin too late to end with the others, if all work were divided evenly among the workers,
       comes when it has to begin. So no long piece with few results is left for one worker at the end.

    >>> results, work_s = np.array([1.0, 8.0, 10.0, 0.0]), np.array([1.0, 1.0, 2.0, 5.0])
    >>> highest_rate_first(results, work_s, work_s, workers=1).tolist()
    [2, 1, 0, 3]
    >>> highest_rate_first(results, work_s, work_s, workers=3).tolist()
    [3, 2, 0, 1]
    """
    rate = results / np.maximum(work_s, LEAST_S)
    classes = np.full(len(rate), np.inf)
    classes[rate > 0] = np.floor(np.log2(rate.max(initial=0.0) / rate[rate > 0]))
    order = np.lexsort((-work_s, classes))
    begin_s = np.empty(len(order))
    begin_s[order] = (np.cumsum(own_s[order]) - own_s[order]) / workers
    latest_s = np.maximum(own_s.sum() / workers - work_s, 0.0)
    return _ranks(np.minimum(begin_s, latest_s), _ranks(classes, -work_s))


def _ranks(first: NDArray[np.generic], then: NDArray[np.generic]) -> Ints:
    """Ranks by one column, where that is equal by the other; what is equal in both has the same rank."""
    order = np.lexsort((then, first))
    one, behind = order[:-1], order[1:]
    ranks = np.zeros(len(order), np.int64)
    ranks[behind] = np.cumsum((first[behind] != first[one]) | (then[behind] != then[one]))
    return ranks
