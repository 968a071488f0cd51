"""A copy and a difference make the later state; what has expired need not be listed."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, processed
from tests.conformance.kernels import CASES
from tests.conformance.oracles import PORT, Event

from shoal.kernels.columns.table import INSTANCE, Tables
from shoal.kernels.kernel import State
from shoal.runtimes.migration.departure import Departure
from shoal.runtimes.migration.state_copy import Difference, digests

STREAMS = st.lists(EVENTS, min_size=1, max_size=20)


def advanced(case: KernelCase, state: State, events: list[Event]) -> None:
    """Process events, then move the watermark to the newest."""
    for port in range(case.ports):
        processed(case, state, [event for event in events if event[PORT] == port], port)
    case.kernel.close_until(state, max(event["ts"] for event in events))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(CASES), STREAMS, st.integers(0, 2**32))
def test_a_target_finds_what_has_expired_without_being_told(case: KernelCase, events: list[Event], seed: int) -> None:
    kernel, cut = case.kernel, random.Random(seed).randint(1, len(events))
    bound = sorted(case.bound(events), key=lambda event: event["ts"])
    state = kernel.open()
    advanced(case, state, bound[:cut])
    source = Departure(kernel, state)
    copy = source.copy()
    if bound[cut:]:
        advanced(case, state, bound[cut:])
    now = source.whole()
    difference = source.difference()
    expired = copy.fragments.ids[copy.fragments.deadline_us <= now.watermark_us]
    if difference.expired:
        assert set(difference.removed[: difference.expired].tolist()) == set(expired.tolist())
    assert difference.expired == 0 or not np.isin(expired, now.fragments.ids).any()
    later = difference.applied(kernel, copy)
    assert _content(case, later.tables) == _content(case, now.tables)


def _content(case: KernelCase, tables: Tables) -> dict[int, int]:
    """The digest of every fragment."""
    listed = case.kernel.fragments(State(dict(tables)))
    return dict(zip(listed.ids.tolist(), digests(case.kernel, tables, listed).tolist(), strict=True))


def test_windows_that_have_closed_since_a_copy_add_no_bytes_to_the_difference() -> None:
    case = next(each for each in CASES if each.id.startswith("tumbling"))
    event: Event = {
        "ts": 0, "road": 1, "far": -1, "kind": "car", "toll": True, "day": 0, "observed": 0, "n": 1, "speed": 1.0,
        INSTANCE: 0, PORT: 0,
    }  # fmt: skip
    state = case.kernel.open()
    processed(case, state, case.bound([event]), 0)
    source = Departure(case.kernel, state)
    assert len(source.copy().fragments)
    case.kernel.close_until(state, 10**9)
    difference: Difference = source.difference()
    assert difference.removed.size == difference.expired > 0
    assert difference.nbytes == 0
