"""Of every kernel: state that is lost changes no more results, and none by more, than the kernel says."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, order_of, processed
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import PORT, Event, Result

from shoal.kernels.aggregate.windowed import WINDOW_END
from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.error_bounds import ErrorBounds
from shoal.kernels.kernel import FOREVER_US

every_kernel = pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
STREAMS = st.lists(EVENTS, min_size=1, max_size=20)


def run(case: KernelCase, events: Sequence[Event], at: int, watermark_us: int, seed: int) -> tuple[list[Result], Any]:
    """The results of a run that loses some fragments after a number of events; none if the seed is 0."""
    state = case.kernel.open()
    lost: Tables = {}
    found: list[Result] = []
    for part in (events[:at], events[at:]):
        for port in range(case.ports):
            processed(case, state, [event for event in part if event[PORT] == port], port)
        if not lost:
            found += case.results(case.kernel.close_until(state, watermark_us))
            lost = lose(case, state, seed) if seed else {}
    return found + case.results(case.kernel.close_until(state, FOREVER_US)), lost


def lose(case: KernelCase, state: Any, seed: int) -> Tables:
    ids = case.kernel.fragments(state).ids
    chosen = random.Random(seed).sample(ids.tolist(), min(ids.size, seed % 4))
    lost: Tables = case.kernel.extract(state, np.array(chosen, np.uint64))
    return lost


@every_kernel
def test_no_more_results_are_lost_or_changed_than_the_bound_says(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=3)
    @given(STREAMS, st.integers(0, 20), st.integers(-60, 0), st.integers(1, 2**20))
    def holds(events: list[Event], at: int, watermark_us: int, seed: int) -> None:
        bound = [*case.bound(events[:at]), *(e for e in case.bound(events[at:]) if e["ts"] >= watermark_us)]
        got, lost = run(case, bound, at, watermark_us, seed)
        bounds: ErrorBounds = case.kernel.error_bounds(lost)
        if bounds.results.most is None:
            assert lost
            assert bounds.results.reason
            return
        wanted, _ = run(case, bound, at, watermark_us, 0)
        if not lost:
            assert bounds.results.most == 0
            assert case.disagreement(got, wanted) == ""
            return
        missing = Counter(map(repr, wanted)) - Counter(map(repr, got))
        assert missing.total() <= bounds.results.most
        if WINDOW_END in case.names:
            check_columns(case, wanted, got, bounds)

    holds()


def check_columns(case: KernelCase, wanted: Sequence[Result], got: Sequence[Result], bounds: ErrorBounds) -> None:
    """Compare the results of windows that are in both runs, column by column."""
    names = (INSTANCE, *case.names)
    keys = [at for at, name in enumerate(names) if name not in bounds.columns]
    values = {name: at for at, name in enumerate(names) if name in bounds.columns}
    by_key = {repr(order_of([row[at] for at in keys])): row for row in got}
    for row in wanted:
        other = by_key.get(repr(order_of([row[at] for at in keys])))
        if other is None:
            continue
        for name, at in values.items():
            most = bounds.columns[name].most
            if most is not None and row[at] is not None and other[at] is not None:
                slack = 1e-9 * max(abs(row[at]), abs(other[at]), most)
                assert abs(row[at] - other[at]) <= most + slack or np.isnan(row[at])
