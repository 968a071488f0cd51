import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.test_store import spoil

from shoal.errors import CheckpointError
from shoal.model.graph import Graph
from shoal.runtimes.spark.checkpoint import KEPT_MANIFESTS, Checkpoint, Manifest, Plan, StateRef
from shoal.workloads.traffic import queries

STATES = (StateRef("a.seg", 10, None, (0, 1)), StateRef("b.seg", 20, ("x/0", "y/0"), ()))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path))


def plan(epoch: int = 3) -> Plan:
    return Plan(epoch, "abc", 2, (0, 1, 1), {"cars": -5}, STATES, 1_000, 2, ("q",), ("r",), ("s",), ("cars",), "12ab")


def manifest(epoch: int = 3) -> Manifest:
    slices: dict[str, list[Mapping[str, Any]]] = {"cars": [{"place": "events 0..10", "rows": 10, "ended": True}]}
    return Manifest(
        epoch, "abc", 2, (0, 1, 1), {"cars": 7}, STATES, slices, ("q",), ("r",), ("s",), ("cars",), True, {"rows": 10}
    )


def test_plans_and_manifests_come_back_as_they_were(checkpoint: Checkpoint) -> None:
    checkpoint.write_plan(plan())
    checkpoint.write_manifest(manifest())
    assert checkpoint.plan(3) == plan()
    assert checkpoint.manifest(3) == manifest()
    assert checkpoint.has_plan(3)
    assert not checkpoint.has_plan(4)


def test_a_graph_comes_back_under_its_digest(checkpoint: Checkpoint) -> None:
    graph = Graph.of(queries(2))
    checkpoint.write_graph(graph)
    assert checkpoint.graph(graph.digest).digest == graph.digest


def test_the_last_epoch_is_the_highest_number_whatever_its_length(checkpoint: Checkpoint) -> None:
    assert checkpoint.last_epoch() is None
    for epoch in (9, 10, 100_000):
        checkpoint.write_manifest(manifest(epoch))
    assert checkpoint.last_epoch() == 100_000


def test_a_half_written_manifest_does_not_count(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.write_manifest(manifest(1))
    (tmp_path / "epochs" / "0000000002.0123.tmp").write_bytes(b"0000")
    assert checkpoint.last_epoch() == 1


def test_old_plans_and_manifests_are_forgotten(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for epoch in range(20):
        checkpoint.write_plan(plan(epoch))
        checkpoint.write_manifest(manifest(epoch))
        checkpoint.forget_before(epoch)
    for kind in ("plans", "epochs"):
        kept = sorted(int(path.name) for path in (tmp_path / kind).iterdir())
        assert kept == list(range(20 - KEPT_MANIFESTS, 20))


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty"])
@pytest.mark.parametrize("kind", ["plans", "epochs"])
def test_a_damaged_file_is_an_error_that_names_it(
    kind: str, damage: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.write_plan(plan())
    checkpoint.write_manifest(manifest())
    path = tmp_path / kind / "0000000003"
    spoil(path, damage) if damage != "empty" else path.write_bytes(b"")
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        checkpoint.plan(3) if kind == "plans" else checkpoint.manifest(3)


def test_every_damaged_byte_of_a_manifest_is_found(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.write_manifest(manifest())
    path = tmp_path / "epochs" / "0000000003"
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x04]) + content[at + 1 :])
        with pytest.raises(CheckpointError, match="is damaged"):
            checkpoint.manifest(3)


def test_a_file_of_another_format_says_so(checkpoint: Checkpoint, tmp_path: Path) -> None:
    text = json.dumps({"format": 99, "data": {}}).encode()
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "0000000000").write_bytes(b"%08x\n%s" % (zlib.crc32(text), text))
    with pytest.raises(CheckpointError, match="has format 99; this version reads format 3"):
        checkpoint.plan(0)


def test_a_second_run_on_the_same_checkpoint_is_refused(checkpoint: Checkpoint) -> None:
    checkpoint.lock()
    with pytest.raises(CheckpointError, match="is in use by another run"):
        Checkpoint(checkpoint.uri).lock()
    checkpoint.unlock()
    other = Checkpoint(checkpoint.uri)
    other.lock()
    other.unlock()


def test_sparks_position_must_be_the_one_an_epoch_was_done_with(checkpoint: Checkpoint, tmp_path: Path) -> None:
    offsets = tmp_path / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "3").write_text('v1\n{}\n{"position":100}')
    assert checkpoint.offsets(4) == ""
    done = Plan(3, "abc", 1, (), {}, (), 0, offsets=checkpoint.offsets(3))
    checkpoint.check_offsets(done)
    (offsets / "3").write_text('v1\n{}\n{"position":101}')
    with pytest.raises(CheckpointError, match=f"file {offsets}/3 is damaged"):
        checkpoint.check_offsets(done)
    (offsets / "3").unlink()
    with pytest.raises(CheckpointError, match=f"file {offsets}/3 is missing"):
        checkpoint.check_offsets(done)


def test_the_last_epoch_spark_has_done_is_a_number_not_a_text(checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert checkpoint.spark_epoch() == -1
    commits = tmp_path / "spark" / "commits"
    commits.mkdir(parents=True)
    for name in ("9", "10", ".10.crc", ".11.tmp"):
        (commits / name).write_text("v1\n{}")
    assert checkpoint.spark_epoch() == 10
