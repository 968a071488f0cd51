"""Time per event of a pattern of two events, by event and number of queries (paper II of study 002, figures 3 and 5).

Kernels process pairs of events, one event at a time: the first begins a match, the second completes it.
"""

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shoal.compiler.build import kernel_of
from shoal.errors import RunError
from shoal.experiments.experiment import TrialOutcome
from shoal.kernels.columns.block import Block
from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import Kernel
from shoal.language.python.stream import Stream
from shoal.model.query.expression import col
from shoal.model.query.schema import TIME, not_null

EVENT = {"at": "timestamp", "area": "int64", "kind": "int64", "value": "int64"}
WARM_UP = 50
EVENT_BYTES, LINK_BYTES_PER_S = 8 * len(EVENT) + 54, 54e6 / 8
PAIR_US = 1_000_000


def pairs(queries: int, pairs: int = 500) -> TrialOutcome:
    """Percentiles of the time of the first and the second event, and what sending an event at 54 Mbit/s takes."""
    times_us = _times_us([_pattern(query) for query in range(queries)], pairs)
    metrics = {"sending_us": 1e6 * EVENT_BYTES / LINK_BYTES_PER_S}
    for place, name in enumerate(("first_event_us", "second_event_us")):
        low, middle, high = np.percentile(times_us[:, place], (5, 50, 95)).tolist()
        metrics |= {f"{name}.p5": low, f"{name}.p50": middle, f"{name}.p95": high}
    return TrialOutcome(metrics)


def _pattern(query: int) -> Kernel:
    """A high value of one kind and then one of another in the same area, as the study's query that detects fire."""
    events = Stream("events", not_null(EVENT), time="at").partition_by("area", groups=1)
    flow = events.match(
        "A B",
        within_s=10,
        define={"A": (col("kind") == 0) & (col("value") > query), "B": (col("kind") == 1) & (col("value") > query)},
        measures={"began": "first(A.at)", "value": "last(B.value)"},
    )
    return kernel_of(flow.operators[-1], None, "", by_instance=True)


def _times_us(kernels: list[Kernel], pairs: int) -> NDArray[np.float64]:
    """The microseconds that all kernels take for the first and the second event of each pair."""
    states = [kernel.open() for kernel in kernels]
    found = np.zeros((pairs + WARM_UP, 2))
    for pair in range(pairs + WARM_UP):
        for place, event in enumerate(_events(pair)):
            begin_ns, results = time.perf_counter_ns(), 0
            for kernel, state in zip(kernels, states, strict=True):
                kernel.process(state, event)
                results += kernel.close_until(state, int(event.columns[TIME][0]) + 1).length
            found[pair, place] = (time.perf_counter_ns() - begin_ns) / 1000
            if results != place * len(kernels):
                raise RunError(f"event {place + 1} of a pair must give {place * len(kernels)} results; got {results}")
    return found[WARM_UP:]


def _events(pair: int) -> Iterator[Block]:
    """The two events of a pair."""
    for kind in range(2):
        at_us = np.array([PAIR_US * (20 * pair + kind)])
        columns = {"at": at_us, TIME: at_us, INSTANCE: np.zeros(1, np.int64), "area": np.ones(1, np.int64)}
        yield Block({**columns, "kind": np.array([kind]), "value": np.array([100])}, 1)
