"""What the delay model of simulated runs assumes of `match_ranges`: seconds per point, comparison, match and change.

    python benchmarks/spatial_costs.py [--quick] [--keep]

The workload `geo-pubsub` runs on the reference runtime, on one core, with few and many subscriptions, small and large.
Every advance of the kernel is timed, and counted as a simulated run counts it (`Kernel.effort`). To the medians of all
cases, costs that are not negative are fitted by relative errors. What a range costs that begins or ends is measured as
in spatial_matching.py. The constants are in `runtimes/simulated/delay/state_dependent.py`.
"""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import record
from spatial_engines import range_rows
from spatial_matching import changes, rectangles
from table import markdown, plain

from shoal.experiments.machine import described, sentence
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import Tables
from shoal.kernels.spatial.range_match import RangeMatchKernel
from shoal.runtimes.simulated.delay.state_dependent import WEIGHT_S
from shoal.session.run import start
from shoal.workloads.catalog import workload
from shoal.workloads.workload import Amount

NAMES = ("point", "comparison", "match", "range begun", "range ended")
ASSUMED = dict(zip(NAMES, ("match_ranges", "met range", "matched range", "new range", "ended range"), strict=True))
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


@contextmanager
def timed_advances(found: Measured) -> Iterator[None]:
    """Time every case of the kernel, and count what it did."""
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

    RangeMatchKernel.advance = timed  # type: ignore[method-assign]
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


def of_changes(ranges: int, block: int, blocks: int) -> dict[str, float]:
    """Nanoseconds per row of a range that begins or ends: a range has one for each cell that it overlaps."""
    box = rectangles(np.random.default_rng(1), ranges)
    rows_each = len(range_rows(box)) / len(box)
    found = changes(box, block, blocks, 3)
    names = {"range begun": "inserts", "range ended": "deletes"}
    return {name: 1e3 / found[rate]["median"] / rows_each for name, rate in names.items()}


def table_of(data: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [[name, f"{data['costs_ns'][name]:,.3g}", f"{data['assumed_ns'][name]:,.3g}"] for name in NAMES]
    return ["per", "measured, ns", "assumed, ns"], rows


def sections(data: dict[str, Any]) -> list[str]:
    """What docs/benchmarks.md has of it."""
    low, high = data["error"]
    text = f"Of {data['cases']} cases, measured over modelled time of an advance is {low:.2f} to {high:.2f}."
    return [text, markdown(*table_of(data))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    record.add_options(parser, quick="a tenth of the subscriptions and points")
    options = parser.parse_args()
    machine = described()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(sentence(machine), flush=True)
    scale = 10 if options.quick else 1
    measured(CASES[-1], 20)  # compiles
    costs, errors = fitted(np.array([measured(case, scale) for case in CASES]))
    of_points = dict(zip(NAMES, (costs * 1e9).tolist(), strict=False))
    data = {
        "cases": len(CASES),
        "costs_ns": of_points | of_changes(500_000 // scale, 10_000 // scale, 20),
        "assumed_ns": {name: WEIGHT_S[weight] * 1e9 for name, weight in ASSUMED.items()},
        "error": [errors.min(), errors.max()],
    }
    print(plain(*table_of(data)))
    print(sections(data)[0])
    print(f"written to {record.written('spatial_costs', data, machine, options)}")


if __name__ == "__main__":
    main()
