import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes.spark.state.test_store import spoil

from shoal.errors import CheckpointError, ConfigError
from shoal.language.python.stream import Stream
from shoal.model.control.partitioning import SLOTS, Partitioning
from shoal.model.query.expression import col
from shoal.model.query.graph import Graph, InstanceId
from shoal.runtimes.spark.state.checkpoint import (
    KEPT_MANIFESTS,
    Checkpoint,
    EpochPlan,
    Goal,
    Manifest,
    StateRef,
    program,
)
from shoal.runtimes.spark.tasks.reports import SliceRead
from shoal.storage.record import sealed, unsealed
from shoal.workloads.traffic.queries import queries

GONE = "gone"
STATES = (StateRef("a.seg", 10, None, (0, 1)), StateRef("b.seg", 20, ("x/0", "y/0"), ()))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(str(tmp_path))


def standing(epoch: int) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "graph": "abc",
        "workers": 2,
        "binding": (0, 1, 1),
        "watermarks_us": {"cars": -5},
        "states": STATES,
        "declared": ("q",),
        "added": ("r",),
        "removed": ("s",),
        "offsets": "12ab",
        "coming": (1, 1, 1),
        "coming_workers": 2,
        "goal": Goal("request 1", "rhino", 3, (1, 1, 2)),
        "partitioning": Partitioning(2, ((InstanceId("x/0"), (0, 1) * (SLOTS // 2)),)),
    }


def plan(epoch: int = 3) -> EpochPlan:
    return EpochPlan(**standing(epoch), now_us=1_000, moves=2, arrived=(1,), divided=("x/0",))


def manifest(epoch: int = 3) -> Manifest:
    slices = {"cars": (SliceRead("events 0..10", 10, ended=True), SliceRead("events 10..", 0, False, 7))}
    return Manifest(**standing(epoch), slices=slices, final=True, totals={"rows": 10}, streams=("cars",))


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


def test_a_graph_is_compiled_once_however_it_is_asked_for(checkpoint: Checkpoint) -> None:
    graph = Graph.of(queries(2))
    checkpoint.write_graph(graph)
    found = program(checkpoint.uri, graph.digest)
    assert program(checkpoint.uri, graph.digest, Partitioning()) is found
    assert program(checkpoint.uri, graph.digest, told="") is found


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


def test_a_manifest_keeps_what_its_epoch_was_planned_with() -> None:
    done = Manifest.of(
        plan(),
        watermarks_us={"cars": 7},
        states=STATES[:1],
        ended=("cars",),
        goal=None,
        shedding={},
        slices={},
        totals={"rows": 10},
        streams=("cars",),
        final=False,
    )
    changed = {"watermarks_us": {"cars": 7}, "states": STATES[:1], "ended": ("cars",), "goal": None}
    assert done == Manifest(**{**standing(3), **changed}, totals={"rows": 10}, streams=("cars",))


@pytest.mark.parametrize("text", ['{"format":99}', '{"format":2,"data":{"epoch":0}}'], ids=["later", "of 0.1"])
def test_a_file_of_another_format_says_so(text: str, checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "0000000000").write_bytes(sealed(text.encode()))
    with pytest.raises(CheckpointError, match=r"plans/0000000000 has format \d+; this version reads format 4$"):
        checkpoint.plan(0)


def rewritten(path: Path, **changes: Any) -> None:
    """Change fields of a file and seal it again, as no damage on a disk would."""
    data = json.loads(unsealed(path.read_bytes()))
    kept = {name: value for name, value in {**data, **changes}.items() if value is not GONE}
    path.write_bytes(sealed(json.dumps(kept).encode()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": "3"}, "field epoch must be int; got str"),
        ({"graph": GONE}, "field graph is missing"),
        ({"binding": [0, 1.5]}, "field binding[1] must be int; got float"),
        ({"watermarks_us": {"cars": None}}, "field watermarks_us[...] must be int; got null"),
        ({"states": [{"segment": "a.seg", "instances": None, "workers": []}]}, "field states[0].bytes is missing"),
        ({"kind": "manifest"}, "field kind must be plan; got 'manifest'"),
        ({"kind": GONE}, "field kind must be plan; got none"),
    ],
    ids=str,
)
def test_a_wrong_field_of_a_whole_plan_is_named(
    changes: dict[str, Any], message: str, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.write_plan(plan())
    path = tmp_path / "plans" / "0000000003"
    rewritten(path, **changes)
    with pytest.raises(CheckpointError, match=re.escape(f"checkpoint file {path} is damaged: {message}; restore it")):
        checkpoint.plan(3)


def test_a_graph_with_inconsistent_parts_is_an_error_that_names_its_file(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    graph = Graph.of(queries(2))
    checkpoint.write_graph(graph)
    path = tmp_path / "graphs" / graph.digest
    rewritten(path, queries={"q": ["0123456789ab"]})
    with pytest.raises(CheckpointError, match=re.escape(f"{path} is damaged: query 'q' names operator 0123456789ab")):
        checkpoint.graph(graph.digest)
    rewritten(path, operators={"a": {"kind": "comet", "parameters": {}, "inputs": []}})
    with pytest.raises(CheckpointError, match=re.escape(f"{path} is damaged: field operators[...].kind: ")):
        checkpoint.graph(graph.digest)


def test_a_graph_with_numbers_that_json_does_not_have_comes_back(checkpoint: Checkpoint) -> None:
    cars = Stream("cars", {"time": "timestamp", "speed": "float64"}, time="time")
    graph = Graph.of([cars.filter(col("speed") < math.inf).sink("fast")])
    checkpoint.write_graph(graph)
    assert checkpoint.graph(graph.digest) == graph


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
    done = replace(plan(), offsets=checkpoint.offsets(3))
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


def test_a_directory_of_something_else_is_no_checkpoint(tmp_path: Path) -> None:
    Checkpoint(str(tmp_path)).check_usable()
    (tmp_path / ".hidden").touch()
    Checkpoint(str(tmp_path)).check_usable()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"holds files of something else, for example notes.txt"):
        Checkpoint(str(tmp_path)).check_usable()
    (tmp_path / "epochs").mkdir()
    Checkpoint(str(tmp_path)).check_usable()
    with pytest.raises(ConfigError, match=r"must be a directory, and .*notes.txt is a file"):
        Checkpoint(str(tmp_path / "notes.txt/kept")).check_usable()


def test_stray_files_beside_those_of_a_checkpoint_are_left_alone(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    for epoch in range(6):
        checkpoint.write_manifest(Manifest(epoch=epoch, graph="", workers=1, binding=(), watermarks_us={}, states=()))
    (tmp_path / "epochs/notes.txt").touch()
    (tmp_path / "epochs/0000000009 (copy)").touch()
    assert checkpoint.last_epoch() == 5
    checkpoint.forget_before(5)
    assert sorted(path.name for path in (tmp_path / "epochs").iterdir()) == [
        "0000000003", "0000000004", "0000000005", "0000000009 (copy)", "notes.txt",
    ]  # fmt: skip
