import threading
from pathlib import Path

import pytest
from tests.runtimes.spark.state.test_segment import part, plain

from shoal.errors import CheckpointError
from shoal.runtimes.spark.state import store as store_module
from shoal.runtimes.spark.state.segment import SegmentPart
from shoal.runtimes.spark.state.store import StateStore, hot_directory


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(store_module, "SHARED_MEMORY", memory)
    return str(tmp_path / "checkpoint")


@pytest.fixture
def store(checkpoint: str) -> StateStore:
    return StateStore(checkpoint)


def files(directory: str) -> list[str]:
    return sorted(path.name for path in Path(directory).glob("*"))


def read_elsewhere(checkpoint: str, name: str) -> list[SegmentPart]:
    """Read as another process does, which has nothing in its cache."""
    return StateStore(checkpoint).read(name)


def test_a_segment_is_in_both_tiers_named_by_epoch_and_worker(store: StateStore, checkpoint: str) -> None:
    name, size = store.write(12, 3, [part()])
    assert name.startswith("0000000012-3-")
    assert files(f"{checkpoint}/state") == files(hot_directory(checkpoint)) == [name]
    assert Path(checkpoint, "state", name).stat().st_size == size
    assert plain(store.read(name)) == plain(read_elsewhere(checkpoint, name)) == plain([part()])


def test_two_attempts_of_one_task_do_not_overwrite_each_other(store: StateStore) -> None:
    first, _ = store.write(1, 0, [part(3)])
    second, _ = store.write(1, 0, [part(4)])
    assert first != second
    assert plain(store.read(first)) == plain([part(3)])


def test_old_segments_that_nothing_needs_do_not_stay_in_memory(store: StateStore, checkpoint: str) -> None:
    old, kept, new = (store.write(epoch, 0, [part(epoch)])[0] for epoch in (1, 2, 3))
    for path in [*Path(checkpoint, "state").iterdir(), *Path(hot_directory(checkpoint)).iterdir()]:
        path.unlink()
    store.forget({kept}, epoch=3)
    assert plain(store.read(kept)) == plain([part(2)])
    assert plain(store.read(new)) == plain([part(3)])
    with pytest.raises(CheckpointError):
        store.read(old)


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_damaged_hot_copy_is_passed_over(damage: str, store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    spoil(Path(hot_directory(checkpoint), name), damage)
    assert plain(read_elsewhere(checkpoint, name)) == plain([part()])


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_damaged_durable_file_is_an_error_that_names_it(damage: str, store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    Path(hot_directory(checkpoint), name).unlink()
    spoil(Path(checkpoint, "state", name), damage)
    with pytest.raises(CheckpointError, match=f"{checkpoint}/state/{name} is (missing|damaged)"):
        read_elsewhere(checkpoint, name)


def test_full_shared_memory_costs_only_the_hot_copy(checkpoint: str, tmp_path: Path) -> None:
    Path(hot_directory(checkpoint)).parent.mkdir(parents=True)
    Path(hot_directory(checkpoint)).write_text("no directory can be made here")
    name, _ = StateStore(checkpoint).write(0, 0, [part()])
    assert plain(read_elsewhere(checkpoint, name)) == plain([part()])


def test_deleting_removes_both_copies_and_does_not_mind_what_is_gone(store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    kept, _ = store.write(0, 1, [part()])
    store.delete([name, name, "0000000000-9-nobody.seg"])
    assert store.names() == files(hot_directory(checkpoint)) == [kept]


def test_orphans_and_half_written_files_are_swept(store: StateStore, checkpoint: str) -> None:
    kept, _ = store.write(5, 0, [part()])
    store.write(5, 0, [part()])
    for directory in (f"{checkpoint}/state", hot_directory(checkpoint)):
        Path(directory, "0000000005-1-half.seg.0123.tmp").write_bytes(b"SHOAL")
    store.keep_only([kept])
    assert files(f"{checkpoint}/state") == files(hot_directory(checkpoint)) == [kept]


def test_cooling_leaves_only_the_durable_tier(store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    store.cool()
    assert not Path(hot_directory(checkpoint)).exists()
    assert plain(read_elsewhere(checkpoint, name)) == plain([part()])


def test_the_cache_keeps_the_newest_within_its_bound(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _, size = store.write(0, 0, [part()])
    monkeypatch.setattr(store_module, "CACHE_BYTES", 3 * size)
    names = [store.write(epoch, 0, [part()])[0] for epoch in range(1, 6)]
    assert list(store._cache) == names[-3:]
    assert store._cached_bytes == 3 * size


def spoil(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def forget_hot(checkpoint: str) -> None:
    for path in Path(hot_directory(checkpoint)).iterdir():
        path.unlink()


def test_what_is_read_ahead_is_near_and_has_a_hot_copy(store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    forget_hot(checkpoint)
    elsewhere = StateStore(checkpoint)
    assert not elsewhere.is_near(name)
    elsewhere.read_ahead([name])
    assert elsewhere.is_near(name)
    assert plain(elsewhere.read(name)) == plain([part()])
    assert files(hot_directory(checkpoint)) == [name]
    assert elsewhere.is_near(name)


def test_what_is_being_read_ahead_is_waited_for(
    store: StateStore, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = store.write(0, 0, [part()])
    begun, may_go_on, reads = threading.Event(), threading.Event(), []
    elsewhere = StateStore(checkpoint)
    read_hot = elsewhere._read_hot

    def slow(wanted: str) -> tuple[list[SegmentPart], int] | None:
        reads.append(wanted)
        begun.set()
        assert may_go_on.wait(30)
        return read_hot(wanted)

    monkeypatch.setattr(elsewhere, "_read_hot", slow)
    elsewhere.read_ahead([name])
    assert begun.wait(30)
    elsewhere.read_ahead([name])
    threading.Timer(0.05, may_go_on.set).start()
    assert plain(elsewhere.read(name)) == plain([part()])
    assert reads == [name]


def test_a_failure_to_read_ahead_is_raised_when_the_segment_is_read(store: StateStore, checkpoint: str) -> None:
    name, _ = store.write(0, 0, [part()])
    forget_hot(checkpoint)
    Path(checkpoint, "state", name).unlink()
    elsewhere = StateStore(checkpoint)
    elsewhere.read_ahead([name])
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        elsewhere.read(name)
