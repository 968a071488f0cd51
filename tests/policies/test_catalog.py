"""What every dynamic binding policy promises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.binding.random_loads import RUNNABLE, Situation, situations, skewed_city

from shoal.errors import BindingError
from shoal.model.control.binding import Binding, WorkerId
from shoal.model.query.graph import InstanceId
from shoal.policies.binding.static import STATIC
from shoal.policies.catalog import ASKED_ONCE, DYNAMIC, QUEUED, SPATIAL_POLICIES, SUMMARIES

policies = st.sampled_from(RUNNABLE)


@settings(deadline=None)
@given(situations(), policies)
def test_every_policy_binds_the_same_instances_to_workers_that_exist(asked: Situation, name: str) -> None:
    proposal = asked.proposal(DYNAMIC[name])
    assert list(proposal.worker_of) == list(asked.binding.worker_of)
    assert proposal.workers == asked.binding.workers


@settings(deadline=None)
@given(situations(), policies)
def test_the_same_values_give_the_same_answer(asked: Situation, name: str) -> None:
    before = dict(asked.binding.worker_of)
    assert asked.proposal(DYNAMIC[name]) == asked.proposal(DYNAMIC[name])
    assert asked.binding.worker_of == before


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_moves_lead_to_the_answer(name: str) -> None:
    asked = skewed_city(1)
    proposal = asked.proposal(DYNAMIC[name])
    moves = list(asked.binding.diff(proposal))
    assert moves
    assert asked.binding.after(moves) == proposal


@pytest.mark.parametrize("name", RUNNABLE)
def test_an_instance_without_a_load_stays(name: str) -> None:
    asked = skewed_city(1)
    unknown = InstanceId("unknown/0")
    binding = Binding({**asked.binding.worker_of, unknown: WorkerId(3)}, asked.binding.workers)
    assert asked.then(binding).proposal(DYNAMIC[name]).worker_of[unknown] == 3


@pytest.mark.parametrize("name", RUNNABLE)
def test_a_binding_for_other_workers_is_a_clear_error(name: str) -> None:
    asked = skewed_city(1)
    with pytest.raises(BindingError, match=r"^the binding is for 9 workers; the topology has 8$"):
        asked.then(Binding(asked.binding.worker_of, 9)).proposal(DYNAMIC[name])


def test_every_policy_has_a_summary_of_one_line() -> None:
    assert list(SUMMARIES) == [*STATIC, *DYNAMIC, *SPATIAL_POLICIES, *QUEUED]
    assert set(DYNAMIC) > ASKED_ONCE
    for summary in SUMMARIES.values():
        assert len(summary) <= 105
        assert not summary.endswith(".")
        assert "\n" not in summary
