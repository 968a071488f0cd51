"""The heap keeps freed memory while a run goes on, and only then."""

import ctypes

import pyarrow as pa
import pytest

from shoal.runtimes import heap


class Recorder:
    """A C library that records how it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.calls.append((pad,))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(heap, "_glibc", lambda: recorder)
    return recorder


def test_memory_is_kept_until_the_last_of_several_runs_ends(library: Recorder) -> None:
    with heap.kept_memory() as kept:
        assert kept
        during = list(library.calls)
        with heap.kept_memory():
            assert library.calls == during, "a second run changes nothing"
        assert library.calls == during, "nor does its end"
    after = library.calls[len(during) :]
    assert [parameter for parameter, _ in during] == [parameter for parameter, _ in after[:-1]]
    assert after[-1] == (0,), "free memory is returned"


def test_arrow_uses_the_same_heap_until_the_last_of_several_runs_ends(library: Recorder) -> None:
    before = pa.default_memory_pool().backend_name
    with heap.kept_memory():
        with heap.kept_memory():
            assert pa.default_memory_pool().backend_name == "system"
        assert pa.default_memory_pool().backend_name == "system"
    assert pa.default_memory_pool().backend_name == before != "system"
    assert library.calls[-1] == (0,)


def test_memory_is_returned_after_a_run_that_fails(library: Recorder) -> None:
    with pytest.raises(KeyError), heap.kept_memory():
        raise KeyError
    assert library.calls[-1] == (0,)


def test_nothing_is_done_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    with heap.kept_memory() as kept:
        assert not kept


def test_a_process_that_only_works_for_runs_keeps_its_memory(
    library: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap, "_runs", 0)
    heap.keep_memory()
    kept = list(library.calls)
    assert kept
    with heap.kept_memory():
        pass
    assert library.calls == kept
