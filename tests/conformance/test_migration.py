"""Every mechanism moves the state of every kernel without changing a result, however long its shipments take."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, blocks_of
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.migrations import Migrated, undisturbed
from tests.conformance.oracles import Event

from shoal.kernels.kernel import NEVER_US
from shoal.mechanisms.catalog import MECHANISMS

STREAMS = st.lists(EVENTS, min_size=1, max_size=25)
EXACT = [name for name in MECHANISMS if name != "drop"]


@pytest.mark.parametrize("case", [*CASES, *NULL_CASES], ids=lambda case: case.id)
def test_no_mechanism_changes_a_result(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=5)
    @given(STREAMS, st.sampled_from(EXACT), st.integers(0, 2**32))
    def holds(events: list[Event], mechanism: str, seed: int) -> None:
        if mechanism == "window-recreation" and not case.kernel.bounded:
            return
        draw = random.Random(seed)
        bound = sorted(case.bound(events), key=lambda event: event["ts"] + draw.randint(0, 20))
        parts = blocks_of(bound, draw)
        blocks: list[tuple[Sequence[Event], int]] = []
        for number, part in enumerate(parts):
            remaining = [event["ts"] for later in parts[number + 1 :] for event in later]
            blocks.append((part, min(remaining, default=blocks[-1][1] if blocks else NEVER_US)))
        migrated = Migrated(case, mechanism, draw, draw.randint(0, len(blocks) - 1))
        assert case.disagreement(migrated.results(blocks), undisturbed(case, blocks)) == ""
        assert migrated.relocation is not None
        assert migrated.relocation.finished

    holds()
