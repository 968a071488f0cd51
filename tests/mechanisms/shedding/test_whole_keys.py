"""With whole keys, what is computed from the state that is left is right."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, KernelCase, filled
from tests.conformance.kernels import CASES
from tests.conformance.oracles import PORT, Event

from shoal.kernels.columns.table import INSTANCE
from shoal.kernels.kernel import FOREVER_US
from shoal.mechanisms.shedding.selection import SELECTIONS
from shoal.mechanisms.shedding.whole_keys import selected


@pytest.mark.parametrize("case", CASES[1::2], ids=lambda case: case.id)
def test_whole_keys_have_the_results_of_an_undisturbed_run(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=3)
    @given(st.lists(EVENTS, min_size=1, max_size=20), st.floats(0, 1), st.sampled_from(sorted(SELECTIONS)))
    def holds(events: list[Event], share: float, name: str) -> None:
        whole, state = filled(case, events), filled(case, events)
        fragments = case.kernel.fragments(state)
        capacity = int(share * fragments.total_bytes)
        choice = selected(SELECTIONS[name], fragments, capacity, whole_keys=True)
        kept_keys, lost_keys = (set(fragments.key[mask].tolist()) for mask in (choice.mask, ~choice.mask))
        assert not kept_keys & lost_keys
        assert fragments.state_bytes[choice.mask].sum() <= capacity
        assert sorted(choice.order.tolist()) == list(range(len(fragments)))
        assert choice.mask[choice.order[: int(choice.mask.sum())]].all()
        case.kernel.extract(state, fragments.ids[~choice.mask])
        wanted, got = (case.results(case.kernel.close_until(each, FOREVER_US)) for each in (whole, state))
        assert not Counter(map(repr, got)) - Counter(map(repr, wanted))

    holds()


def test_fragments_of_a_key_are_sent_one_after_another() -> None:
    case = next(case for case in CASES if case.id == "hopping sum of floats per text")
    draw = np.random.default_rng(2)
    events = [
        {"ts": int(at), "kind": str(kind), "speed": 1.0, "n": 1, "road": 0, "far": -1, "toll": True, "day": 0}
        | {"observed": 0, INSTANCE: 0, PORT: 0}
        for at, kind in zip(draw.integers(-60, 60, 40), draw.choice(["car", "truck"], 40), strict=True)
    ]
    fragments = case.kernel.fragments(filled(case, events))
    ordered = fragments.key[selected(SELECTIONS["greedy"], fragments, 300, whole_keys=True).order]
    assert len(fragments) > 4
    assert np.count_nonzero(np.diff(ordered.astype(object)) != 0) == 1
