"""The report of shed state equals what was lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance.kernel_case import EVENTS, INSTANCES, KernelCase, filled
from tests.conformance.kernels import CASES, NULL_CASES
from tests.conformance.oracles import Event
from tests.kernels.rows import LEFT, block, kernel

from shoal.errors import MechanismError
from shoal.mechanisms.shedding.report import NAMED_KEYS, Shed, shed_reports
from shoal.mechanisms.shedding.selection import SELECTIONS
from shoal.model.query.aggregate import count, mean, sum_
from shoal.model.query.window import tumbling

QUERIES = ("slow", "fast", "slow")


@pytest.mark.parametrize("case", [*CASES[::2], *NULL_CASES[::2]], ids=lambda case: case.id)
def test_reports_of_all_queries_add_up_to_what_was_lost(case: KernelCase) -> None:
    @settings(deadline=None, max_examples=3)
    @given(st.lists(EVENTS, min_size=1, max_size=20), st.floats(0, 1), st.sampled_from(sorted(SELECTIONS)))
    def holds(events: list[Event], share: float, selection: str) -> None:
        state = filled(case, events)
        fragments = case.kernel.fragments(state)
        capacity = int(share * fragments.state_bytes.sum())
        arrived = SELECTIONS[selection].choose(fragments.utility, fragments.state_bytes, capacity).mask
        lost = case.kernel.extract(state, fragments.ids[~arrived])
        reports = shed_reports(case.kernel, fragments, arrived, lost, QUERIES[:INSTANCES])
        assert sum(each.fragments for each in reports) == np.count_nonzero(~arrived)
        assert sum(each.state_bytes for each in reports) == fragments.state_bytes[~arrived].sum()
        assert sum(each.rows for each in reports) == sum(case.kernel.input_rows(n, table) for n, table in lost.items())
        assert {n for each in reports for n in each.instances} == set(fragments.instance[~arrived].tolist())
        for each in reports:
            assert {QUERIES[number] for number in each.instances} == {each.query}
            assert 1 <= len(each.named_keys) <= each.keys <= each.fragments
            assert 0 <= each.utility_kept <= 1

    holds()


def reported(rows: int, arrived: list[bool]) -> Shed:
    """The report of counts and sums per key in one window: row number n has key n and the value n."""
    made = kernel(LEFT.key_by("k").window(tumbling(1)).aggregate(rows=count(), total=sum_("n"), average=mean("x")))
    state = made.open()
    made.process(state, block([(0, f"key {n}", n) for n in range(rows)]))
    fragments = made.fragments(state)
    mask = np.array(arrived)
    lost = made.extract(state, fragments.ids[~mask])
    (report,) = shed_reports(made, fragments, mask, lost, ["speeds"])
    return report


def test_a_report_in_words_says_what_was_lost_and_how_far_off_results_are() -> None:
    report = reported(4, [True, False, True, False])
    assert report.text.startswith("query 'speeds' lost 2 of 4 fragments: 2 rows of 2 keys, ")
    assert "50.0% of the utility; at most 2 results are missing or different; " in report.text
    assert "values are off by at most: rows by 1, total by 3, average without bound, because the mean" in report.text


def test_a_report_names_some_keys_and_counts_all() -> None:
    report = reported(30, [False] * 30)
    assert report.keys == 30
    assert len(set(report.named_keys)) == NAMED_KEYS
    assert set(report.named_keys) <= {(f"key {n}",) for n in range(30)}


def test_an_instance_without_a_query_is_rejected() -> None:
    made = kernel(LEFT.key_by("k").window(tumbling(1)).aggregate(rows=count()))
    state = made.open()
    made.process(state, block([(0, "a")], instance=2))
    with pytest.raises(MechanismError, match="fragment of instance number 2 has no query; got 1 instances"):
        shed_reports(made, made.fragments(state), np.array([True]), {}, ["speeds"])
