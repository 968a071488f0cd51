"""What the delay model of simulated runs assumes of `match_ranges`: seconds per point, comparison, match and change.

The workload `geo-pubsub` runs on the reference runtime, on one core, with few and many subscriptions, small and large.
Every advance of the kernel is timed, and counted as a simulated run counts it (`Kernel.effort`). To the medians of all
cases, costs that are not negative are fitted by relative errors. The constants are in
`runtimes/simulated/delay/state_dependent.py`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from measures.spatial.indexes import range_rows
from measures.spatial.matching import changes, on_one_core, rectangles
from shoal.experiments.experiment import TrialOutcome
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.spatial.range_match import RangeMatchKernel
from shoal.runtimes.simulated.delay.state_dependent import WEIGHT_S
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

ASSUMED = {
    "point": "match_ranges",
    "comparison": "met range",
    "match": "matched range",
    "range_begun": "new range",
    "range_ended": "ended range",
}
"""The weights of the delay model."""
CASES = [
    # subscriptions, side, points, points of an epoch
    (2_000, 0.0016, 1_000_000, 100_000),
    (20_000, 0.0016, 1_000_000, 100_000),
    (20_000, 0.004, 500_000, 50_000),
    (100_000, 0.0004, 1_000_000, 100_000),
    (100_000, 0.0016, 500_000, 50_000),
    (400_000, 0.0008, 500_000, 50_000),
    (400_000, 0.0016, 200_000, 20_000),
]
Measured = list[tuple[float, ...]]


def fit(scale: int = 1, ranges: int = 500_000, block: int = 10_000) -> TrialOutcome:
    """Fitted costs beside those assumed; `scale` divides the subscriptions and points of all cases."""
    on_one_core()
    measured(CASES[-1], 20 * scale)  # compiles
    costs, errors = fitted(np.array([measured(case, scale) for case in CASES]))
    found = dict(zip(ASSUMED, (costs * 1e9).tolist(), strict=False)) | _of_changes(ranges, block)
    metrics = {f"{name}_ns.measured": value for name, value in found.items()}
    metrics |= {f"{name}_ns.assumed": WEIGHT_S[weight] * 1e9 for name, weight in ASSUMED.items()}
    metrics |= {"measured_over_modelled.min": float(errors.min()), "measured_over_modelled.max": float(errors.max())}
    return TrialOutcome(metrics)


@contextmanager
def timed_advances(found: Measured) -> Iterator[None]:
    """Time every advance of the kernel, and count what it did."""
    advance = RangeMatchKernel.advance

    def timed(self: RangeMatchKernel, state: Tables, fresh: Tables, before: int, after: int) -> tuple[Tables, Block]:
        began_s = time.perf_counter()
        result = advance(self, state, fresh, before, after)
        took_s = time.perf_counter() - began_s
        effort = self.effort(state, fresh, result[0], after, 1)
        if effort.looked_up.any() and not effort.begun.any():
            counts = effort.looked_up.sum(), effort.compared.sum(), result[1].length
            found.append((*map(float, counts), took_s))
        return result

    RangeMatchKernel.advance = timed  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        RangeMatchKernel.advance = advance  # type: ignore[method-assign]


def measured(case: tuple[int, float, int, int], scale: int = 1) -> np.ndarray:
    """The medians of the advances of a run in which no ranges change; the first matches of a process compile."""
    subscriptions, side, points, block = case
    settings = {"queries": "matches", "scenario": "none", "partitions": 1, "subscriptions": subscriptions // scale}
    settings |= {"side": side, "churn": 0, "hot_subscriptions": 0}
    texts = {name: str(value) for name, value in settings.items()}
    job = workload("geo-pubsub").ready(0, Amount(points // scale, None, block // scale), texts).job
    found: Measured = []
    with timed_advances(found):
        start(job, on="reference", workers=1).wait()
    return np.median(found, axis=0)


def fitted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Costs that are not negative, by relative least squares, and measured over modelled time of every case."""
    weighted = rows[:, :-1] / rows[:, -1:]
    chosen = np.ones(weighted.shape[1], bool)
    while True:
        costs = np.zeros(weighted.shape[1])
        costs[chosen] = np.linalg.lstsq(weighted[:, chosen], np.ones(len(rows)), rcond=None)[0]
        if (costs >= 0).all():
            return costs, 1 / np.maximum(weighted @ costs, 1e-12)
        chosen &= costs > 0


def _of_changes(ranges: int, block: int) -> dict[str, float]:
    """Nanoseconds per row of a range that begins or ends: a range has one for each cell that it overlaps."""
    box = rectangles(np.random.default_rng(1), ranges)
    rows_each = len(range_rows(box)) / len(box)
    found = changes(block, 20, ranges).metrics
    rates = {"range_begun": found["inserts_per_s"], "range_ended": found["deletes_per_s"]}
    return {name: 1e9 / rate / rows_each for name, rate in rates.items()}
