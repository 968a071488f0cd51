"""Machines: the usable cores and memory nodes that trees of /sys report."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtimes.local import witness
from tests.runtimes.local.nudged import Nudged

from shoal.errors import ConfigError
from shoal.runtimes.local.scheduling.cores import PINNINGS, Machine, cores_in


def machine(directory: Path, lists: Mapping[str, str], usable: set[int], monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with such a tree, on which this process may use such cores."""
    for node, cores in lists.items():
        (directory / node).mkdir()
        (directory / node / "cpulist").write_text(f"{cores}\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: usable, raising=False)
    return Machine.here(directory)


@pytest.mark.parametrize(
    ("lists", "usable", "cores_of"),
    [
        pytest.param(
            {"node0": "0-11", "node1": "12-23"},
            set(range(24)),
            (tuple(range(12)), tuple(range(12, 24))),
            id="two sockets of twelve cores",
        ),
        pytest.param(
            {"node0": "0-3,8", "node1": "4-7,10-11"},
            {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11},
            ((0, 1, 2, 3, 8), (4, 5, 6, 7, 10, 11)),
            id="lists with gaps",
        ),
        pytest.param({}, {0, 1, 2}, ((0, 1, 2),), id="a machine that reports no nodes"),
        pytest.param({"node0": "0-3"}, {0, 2, 3}, ((0, 2, 3),), id="a core that is offline or not for this process"),
        pytest.param({"node0": "0-1", "node1": "2-3"}, {2, 3}, ((2, 3),), id="a node of which nothing may be used"),
        pytest.param({"node0": "0-1", "node1": ""}, {0, 1}, ((0, 1),), id="a node with memory only"),
        pytest.param({"node0": "0-1"}, {0, 1, 5}, ((0, 1, 5),), id="a core that no node has"),
        pytest.param(
            {f"node{node}": str(node) for node in range(11)},
            set(range(11)),
            tuple((core,) for core in range(11)),
            id="eleven nodes, in the order of their numbers",
        ),
    ],
)
def test_cores_are_known_by_their_nodes(
    lists: Mapping[str, str],
    usable: set[int],
    cores_of: tuple[tuple[int, ...], ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = machine(tmp_path, lists, usable, monkeypatch)
    assert found.cores_of == cores_of
    assert found.cores == len(usable)


def test_a_system_that_does_not_report_which_cores_may_be_used_has_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert Machine.here(tmp_path).cores_of == ((0, 1, 2),)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_list_has_the_cores_that_were_written_into_it(cores: set[int]) -> None:
    parts, ordered = [], sorted(cores)
    while ordered:
        run = [ordered.pop(0)]
        while ordered and ordered[0] == run[-1] + 1:
            run.append(ordered.pop(0))
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    assert cores_in(",".join(parts) + "\n") == cores


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(1, 60))
def test_one_more_worker_changes_nothing_for_the_others(sizes: list[int], workers: int) -> None:
    numbers = iter(range(sum(sizes)))
    found = Machine(tuple(tuple(next(numbers) for _ in range(size)) for size in sizes))
    before, after = found.topology(workers), found.topology(workers + 1)
    assert after.node_of[:workers] == before.node_of
    for worker in range(workers):
        assert found.core_of(worker) in found.cores_of[before.node_of[worker]]
    used = [found.core_of(worker) for worker in range(min(workers, found.cores))]
    assert len(set(used)) == len(used)  # no core twice before each is used once


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be pinned here")
@pytest.mark.parametrize("scheduling", [{"queues": "worker-queue"}, {"queues": None}], ids=["bound", "scheduled"])
@pytest.mark.parametrize("pinning", PINNINGS)
def test_threads_of_workers_stay_where_they_are_pinned(pinning: str, scheduling: dict[str, Any]) -> None:
    found: dict[int, set[int]] = {}
    everywhere = os.sched_getaffinity(0)

    def observe(nudged: Nudged) -> None:
        found[int(threading.current_thread().name.rsplit("-", 1)[1])] = os.sched_getaffinity(0)

    Nudged(
        witness.graph(), witness.numbered(200), 2, observe, 0, {"pinning": pinning, **scheduling}
    ).run().assert_right()
    here = Machine.here()
    assert found
    for worker, cores in found.items():
        assert cores == (everywhere if pinning == "none" else here.cores_for(worker, pinning))
    assert os.sched_getaffinity(0) == everywhere  # the caller's thread is left alone


def test_a_system_that_cannot_pin_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    Machine(((0,),)).pin("none")(0)
    with pytest.raises(ConfigError, match="threads cannot be pinned on this system; leave pinning=core out"):
        Machine(((0,),)).pin("core")
