"""Bindings: moves lead from one to another, and no worker is made up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import BindingError
from shoal.language.python.stream import Stream
from shoal.model.control.binding import Binding, Move, WorkerId
from shoal.model.query.aggregate import count
from shoal.model.query.graph import Graph, InstanceId
from shoal.model.query.window import tumbling

INSTANCES = [InstanceId(f"op/{i}") for i in range(5)]
BINDINGS = st.fixed_dictionaries({instance: st.integers(0, 3) for instance in INSTANCES}).map(
    lambda worker_of: Binding.of(worker_of, 4)
)


@settings(deadline=None, max_examples=50)
@given(BINDINGS, BINDINGS)
def test_the_difference_of_two_bindings_leads_from_one_to_the_other(one: Binding, other: Binding) -> None:
    moves = list(one.diff(other))
    assert one.after(moves) == other
    assert list(other.diff(other)) == []
    assert all(move.source != move.target for move in moves)


def test_a_difference_is_about_the_instances_both_know() -> None:
    one = Binding.of({InstanceId("a"): 0, InstanceId("b"): 0}, 2)
    other = Binding.of({InstanceId("b"): 1, InstanceId("c"): 1}, 2)
    assert list(one.diff(other)) == [Move(InstanceId("b"), WorkerId(0), WorkerId(1))]


def test_a_binding_does_not_change_when_moves_are_made() -> None:
    binding = Binding.of({InstanceId("a"): 0}, 2)
    binding.after([Move(InstanceId("a"), WorkerId(0), WorkerId(1))])
    assert binding.worker_of == {"a": 0}


@pytest.mark.parametrize(
    ("worker_of", "workers", "message"),
    [
        pytest.param({}, 0, "a binding needs at least one worker; got 0", id="no workers"),
        pytest.param({"a": 2}, 2, "instance 'a' is bound to worker 2; there are workers 0..1", id="worker too high"),
        pytest.param({"a": -1}, 2, "instance 'a' is bound to worker -1; there are workers 0..1", id="negative worker"),
    ],
)
def test_a_worker_that_does_not_exist_cannot_be_bound_to(
    worker_of: dict[InstanceId, int], workers: int, message: str
) -> None:
    with pytest.raises(BindingError) as caught:
        Binding.of(worker_of, workers)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("move", "message"),
    [
        pytest.param(
            Move(InstanceId("a"), WorkerId(1), WorkerId(0)),
            "cannot move instance 'a' from worker 1; it is bound to 0",
            id="from a worker it is not on",
        ),
        pytest.param(
            Move(InstanceId("z"), WorkerId(1), WorkerId(0)),
            "cannot move instance 'z' from worker 1; it is bound to no worker",
            id="an unknown instance",
        ),
        pytest.param(
            Move(InstanceId("a"), WorkerId(0), WorkerId(9)),
            "instance 'a' is bound to worker 9; there are workers 0..1",
            id="to a worker that does not exist",
        ),
    ],
)
def test_a_wrong_move_is_refused(move: Move, message: str) -> None:
    with pytest.raises(BindingError) as caught:
        Binding.of({InstanceId("a"): 0}, 2).after([move])
    assert str(caught.value) == message


def counting(*names: str) -> Graph:
    stream = Stream("cars", {"ts": "timestamp", "road": "int64"}, time="ts")
    windows = enumerate(names, start=1)
    return Graph.of(stream.window(tumbling(size)).aggregate(n=count()).sink(name) for size, name in windows)


def test_a_fitted_binding_keeps_what_is_known_forgets_what_is_gone_and_puts_the_new_where_least_is() -> None:
    graph = counting("a", "b", "c", "d")
    first, second, *new = graph.stateful_instances
    binding = Binding.of({first: 1, second: 1, InstanceId("gone/0"): 0}, 3)
    fitted = binding.fitted(graph.stateful_instances)
    assert fitted.worker_of == {first: 1, second: 1, new[0]: 0, new[1]: 2}
    assert fitted.fitted(graph.stateful_instances) == fitted
    assert fitted.fitted(counting().stateful_instances).worker_of == {}
