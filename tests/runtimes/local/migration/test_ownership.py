"""Ownership: every published value is complete, is immutable, and comes after the state it refers to."""

from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.runtimes.local.migration.ownership import Owners, Ownership
from shoal.runtimes.local.migration.part_messages import InputDrained

WORKERS = 3
INSTANCES = 6
GIVES = 2_000

changes = st.one_of(
    st.tuples(
        st.just("give"),
        st.integers(0, WORKERS - 1),
        st.dictionaries(st.integers(0, INSTANCES - 1), st.integers(0, WORKERS - 1), min_size=1),
    ),
    st.tuples(st.just("wake"), st.integers(0, WORKERS - 1), st.none()),
    st.tuples(st.just("sleep"), st.integers(0, WORKERS - 1), st.booleans()),
)


@given(st.lists(changes, max_size=20))
def test_every_change_is_a_new_value_and_no_old_one_changes(given_: list[tuple[str, int, object]]) -> None:
    ownership = Ownership(np.zeros(INSTANCES, np.int64), WORKERS)
    published, copies = [ownership.now], [plain(ownership.now)]
    owner, versions, asleep = [0] * INSTANCES, [0] * WORKERS, [False] * WORKERS
    for kind, worker, what in given_:
        if kind == "give":
            assert isinstance(what, dict)
            assert ownership.give(worker, what) == versions[worker] + 1
            owner = [what.get(instance, owner[instance]) for instance in range(INSTANCES)]
            versions[worker] += 1
        elif kind == "wake":
            assert ownership.wake(worker) == versions[worker] + 1
            versions[worker], asleep[worker] = versions[worker] + 1, False
        else:
            ownership.sleep(worker, asleep=bool(what))
            asleep[worker] = bool(what)
        published.append(ownership.now)
        copies.append((owner, versions.copy(), asleep.copy()))
    assert [plain(each) for each in published] == copies


def plain(owners: Owners) -> tuple[list[int], list[int], list[bool]]:
    return owners.owner.tolist(), list(owners.versions), list(owners.asleep)


def test_published_values_are_read_only() -> None:
    given_ = np.zeros(2, np.int64)
    ownership = Ownership(given_, 2)
    given_[:] = 7
    assert ownership.owner.tolist() == [0, 0]
    ownership.assign(np.array([1, 0]))
    for owner in (ownership.owner, Ownership(given_, 8).owner):
        with pytest.raises(ValueError, match="read-only"):
            owner[0] = 1


def test_a_thread_that_reads_a_new_owner_finds_what_was_sent_to_it_before() -> None:
    """Two workers give their instance away and take it back, each time after a message; two others read meanwhile."""
    ownership = Ownership(np.array([0, 1]), 3)
    ended, wrong = [0, 0], list[str]()

    def give(worker: int) -> None:
        for number in range(1, GIVES + 1):
            ownership.messages[2][worker].append(InputDrained(worker, number))
            ownership.give(worker, {worker: 2 if number % 2 else worker})
        ended[worker] = 1

    def read() -> None:
        last: tuple[int, ...] = (0, 0, 0)
        while not all(ended):
            owners = ownership.now
            for worker in (0, 1):
                version = owners.versions[worker]
                if (owners.owner[worker] == 2) != bool(version % 2):
                    wrong.append(f"owner {owners.owner[worker]} at version {version}")
                if len(ownership.messages[2][worker]) < version:
                    wrong.append(f"version {version} before its message")
            if owners.versions < last:
                wrong.append(f"versions {last} came before {owners.versions}")
            last = max(last, owners.versions)

    threads = [Thread(target=give, args=(worker,)) for worker in (0, 1)] + [Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert ownership.now.versions == (GIVES, GIVES, 0)
