"""The policy `greedy` against its algorithm, line by line.

The studies' listings differ in the letter only: the first sorts `op_w`, which it does not have, and takes pairs out of
a list it put loads into; the text says that pairs of operator and load are sorted by load. There is no worked example.
"""

from hypothesis import given, settings
from tests.policies.binding.random_loads import Situation, situation, situations

from shoal.model.control.topology import Topology
from shoal.policies.binding.greedy import Greedy
from shoal.policies.binding.loads import Load

FLAT = Topology.of(nodes=1, workers=3)


def transcribed(asked: Situation) -> list[int]:
    """Algorithm 1 of both studies."""
    op_comp, tuple_count = asked.loads.cost_s.tolist(), asked.loads.backlog.tolist()
    old_op_to_thread = asked.placed(asked.binding).tolist()
    threads = range(asked.topology.workers)
    new_op_to_thread = list(old_op_to_thread)
    op_wl = [(op_comp[i] * tuple_count[i], i) for i in range(len(op_comp))]
    wl = [sum(load for load, i in op_wl if old_op_to_thread[i] == thread) for thread in threads]
    avg_wl = sum(wl) / len(wl)
    op_wl.sort()
    while op_wl:
        workload, i = op_wl.pop(0)
        j = old_op_to_thread[i]
        if wl[j] > avg_wl:
            k = min(threads, key=lambda thread: (wl[thread], thread))
            new_op_to_thread[i] = k
            wl[k] += workload
            wl[j] -= workload
    return new_op_to_thread


@settings(deadline=None)
@given(situations())
def test_it_is_the_studies_algorithm(asked: Situation) -> None:
    assert asked.placed(asked.proposal(Greedy())).tolist() == transcribed(asked)


def test_the_lightest_leave_until_their_worker_is_not_above_average() -> None:
    loads = {name: (0, Load(cost_s=1.0, backlog=n)) for name, n in (("a", 6), ("b", 1), ("c", 3), ("d", 2))}
    asked = situation(loads, FLAT)
    # Average 4 of 12. b (1) goes to 1, d (2) to 2, c (3) to 1: worker 0 is left with 6, still too much, so a goes too.
    assert asked.placed(asked.proposal(Greedy())).tolist() == [2, 1, 1, 2]


def test_where_loads_are_even_nothing_moves() -> None:
    asked = situation({str(worker): (worker, Load(cost_s=2.0, backlog=4)) for worker in range(3)}, FLAT)
    assert asked.proposal(Greedy()) == asked.binding


def test_an_instance_without_a_backlog_moves_as_well() -> None:
    asked = situation({"idle": (0, Load(cost_s=1.0)), "busy": (0, Load(cost_s=1.0, backlog=1))}, FLAT)
    assert asked.placed(asked.proposal(Greedy())).tolist() == [1, 1]


def test_it_may_raise_the_peak() -> None:
    two = Topology.of(nodes=1, workers=2)
    asked = situation({"a": (0, Load(cost_s=1.0, backlog=5)), "b": (1, Load(cost_s=1.0, backlog=4))}, two)
    proposal = asked.proposal(Greedy())
    assert asked.peak(asked.loads.waiting_s, asked.binding) == 5
    assert asked.peak(asked.loads.waiting_s, proposal) == 9


def test_it_does_not_see_arrivals() -> None:
    asked = situation({name: (0, Load(cost_s=0.4, rate_per_s=2.0)) for name in "abc"}, FLAT)
    assert asked.proposal(Greedy()) == asked.binding
