"""Load columns: they say what a mapping of loads says, and add up to the same."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shoal.model.control.load_columns import LoadColumns
from shoal.model.control.snapshot import InstanceLoad
from shoal.model.query.graph import InstanceId

NAMES = tuple(InstanceId(f"op/{number}") for number in range(6))
AMOUNTS = st.integers(0, 1000)
LOADS = st.builds(InstanceLoad, AMOUNTS, AMOUNTS.map(lambda n: n / 8), AMOUNTS, AMOUNTS, AMOUNTS)
SEVERAL = st.lists(st.dictionaries(st.sampled_from(NAMES), LOADS), min_size=1, max_size=5)


def one_by_one(several: list[dict[InstanceId, InstanceLoad]]) -> dict[InstanceId, InstanceLoad]:
    """The same, an instance at a time."""
    found: dict[InstanceId, InstanceLoad] = {}
    for loads in several:
        for name, load in loads.items():
            before = found.get(name, InstanceLoad(0, 0.0, 0, 0))
            found[name] = replace(
                load,
                events=before.events + load.events,
                cost_s=before.cost_s + load.cost_s,
                results=before.results + load.results,
            )
    return {name: load if name in several[-1] else replace(load, backlog=0) for name, load in found.items()}


@given(st.dictionaries(st.sampled_from(NAMES), LOADS))
def test_columns_are_a_mapping_of_what_they_were_made_of(loads: Mapping[InstanceId, InstanceLoad]) -> None:
    columns = LoadColumns.of(tuple(loads), loads)
    assert columns == loads
    assert list(columns) == list(loads)
    assert len(columns) == len(loads)


@given(st.dictionaries(st.sampled_from(NAMES), LOADS))
def test_an_instance_that_is_not_known_did_nothing(loads: Mapping[InstanceId, InstanceLoad]) -> None:
    columns = LoadColumns.of(NAMES, loads)
    assert columns == {name: loads.get(name, InstanceLoad(0, 0.0, 0, 0)) for name in NAMES}
    assert LoadColumns.of(NAMES, columns) is columns


@given(SEVERAL)
def test_loads_of_any_instances_add_up(several: list[dict[InstanceId, InstanceLoad]]) -> None:
    assert LoadColumns.merged(several) == one_by_one(several)


@given(SEVERAL)
def test_columns_of_the_same_instances_add_up_to_the_same(several: list[dict[InstanceId, InstanceLoad]]) -> None:
    columns = [LoadColumns.of(NAMES, loads) for loads in several]
    assert LoadColumns.merged(columns) == one_by_one([dict(one) for one in columns])
