"""State of every kernel can be left alone until it is due: until then it gives no result without input."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, filled
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import Event

from shoal.kernels.kernel import FOREVER_US

STREAMS = st.lists(EVENTS, min_size=1, max_size=25)


@pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
def test_state_gives_no_result_before_it_is_due(case: KernelCase) -> None:
    kernel = case.kernel

    @settings(deadline=None, max_examples=8)
    @given(STREAMS, st.integers(-60, 60))
    def holds(events: list[Event], watermark_us: int) -> None:
        state = filled(case, events)
        kernel.close_until(state, watermark_us)
        due = [kernel.due_us(number, table, state.watermark_us) for number, table in state.tables.items()]
        first_us = min((int(each.min()) for each in due if each.size), default=FOREVER_US)
        assert first_us > state.watermark_us
        assert not kernel.close_until(state, first_us - 1).length

    holds()
