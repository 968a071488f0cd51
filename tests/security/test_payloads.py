"""Attacks by files of a checkpoint that are well-formed, checksums included, and mean harm."""

import json
import pickle
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtimes.spark.state.test_segment import part
from tests.security.test_job_files import Bomb

from shoal.errors import CheckpointError
from shoal.runtimes.spark.driver.restore import restored
from shoal.runtimes.spark.rebinding.mailbox import REQUESTS
from shoal.runtimes.spark.state import store as stores
from shoal.runtimes.spark.state.checkpoint import GRAPHS, MANIFESTS, PLANS, Checkpoint, Manifest, StateRef
from shoal.runtimes.spark.state.segment import MAGIC, decode, encode
from shoal.runtimes.spark.state.store import StateStore
from shoal.runtimes.spark.tasks import wire
from shoal.storage.directory import Directory
from shoal.storage.record import Record, sealed


def arrow_bomb(mark: Path) -> bytes:
    """A stream of Arrow with a type whose metadata is a pickle; old versions of pyarrow unpickled it."""
    metadata = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Bomb(mark))}
    field = pa.field("x", pa.int64(), metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([field])) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], schema=pa.schema([field])))
    return sink.getvalue().to_pybytes()


def segment(blob: bytes, index: Any = None) -> bytes:
    """A segment as `encode` writes it, with right checksums, around any bytes and any index."""
    entry = {"instances": ["a/0"], "table": 0, "at": len(MAGIC), "size": len(blob), "crc": zlib.crc32(blob)}
    text = json.dumps([entry] if index is None else index).encode()
    return b"".join([MAGIC, blob, text, struct.pack("<II8s", len(text), zlib.crc32(text), MAGIC)])


def test_a_pickle_in_the_metadata_of_an_arrow_type_does_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(CheckpointError, match="is damaged"):
        decode(segment(arrow_bomb(mark)), "file")
    wire.unpack(arrow_bomb(mark))
    assert not mark.exists()


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(GRAPHS, id="graph"),
        pytest.param(PLANS, id="plan"),
        pytest.param(MANIFESTS, id="manifest"),
        pytest.param(REQUESTS, id="command"),
    ],
)
def test_a_pickle_in_the_place_of_a_record_does_not_run(record: Record[Any], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(CheckpointError, match="is damaged"):
        record.decode(sealed(pickle.dumps(Bomb(mark))), "file")
    assert not mark.exists()


def test_a_pickle_in_the_place_of_a_segment_does_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for content in (pickle.dumps(Bomb(mark)), segment(pickle.dumps(Bomb(mark)))):
        with pytest.raises(CheckpointError, match="is damaged"):
            decode(content, "file")
    assert not mark.exists()


def test_offsets_of_texts_that_point_outside_are_found_before_they_are_used() -> None:
    """Checksums are right, since the attacker has computed them; Arrow itself would read past the end."""
    texts = pa.array(["key 0", "key 1", "key 2", "key 3"])
    offsets = struct.pack("<5i", 0, 5, 10, 15, 20)
    wrong = struct.pack("<5i", 0, 5, 1 << 30, 15, 20)
    assert texts.buffers()[1].to_pybytes()[: len(offsets)] == offsets
    content = encode([part()])
    assert offsets in content
    blob = content[len(MAGIC) :].split(b'[{"instances"')[0].replace(offsets, wrong)
    index = json.loads(b'[{"instances"' + content.split(b'[{"instances"')[1][: -struct.calcsize("<II8s")])
    index[0]["crc"] = zlib.crc32(blob)
    with pytest.raises(CheckpointError, match="is damaged"):
        decode(segment(blob, index), "file", validate=True)


_NUMBERS = st.integers() | st.sampled_from([-1, 1 << 31, 1 << 63, 1 << 200]) | st.none() | st.text(max_size=3)


@given(
    index=st.none()
    | _NUMBERS
    | st.lists(st.dictionaries(st.sampled_from(["instances", "table", "at", "size", "crc"]), _NUMBERS))
)
def test_any_index_of_a_segment_is_an_error_with_the_name_of_the_file_or_harmless(index: Any) -> None:
    try:
        assert decode(segment(b"", [index] if index is None else index), "the file", validate=True) == []
    except CheckpointError as error:
        assert "the file" in str(error)  # noqa: PT017  (an empty list of parts is right, too)


@pytest.mark.parametrize("name", ["../../victim.seg", "/etc/passwd", "0000000001-0-x/../../../victim.seg"])
def test_a_manifest_cannot_make_a_run_read_or_delete_files_elsewhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SHARED_MEMORY", tmp_path / "memory")
    (tmp_path / "memory").mkdir()
    victim = tmp_path / "victim.seg"
    victim.write_bytes(encode([part()]))
    checkpoint = Checkpoint(str(tmp_path / "run"))
    ref = StateRef(name, 1, None, (0,))
    manifest = Manifest(epoch=0, graph="../victim", workers=1, binding=(0,), watermarks_us={}, states=(ref,))
    Directory(checkpoint.uri).write("epochs/0000000000", MANIFESTS.encode(manifest))
    store = StateStore(checkpoint.uri)
    with pytest.raises(CheckpointError, match="must stay below directory"):
        restored(checkpoint, store)
    for attempt in (lambda: store.read(name), lambda: store.delete([name])):
        with pytest.raises(CheckpointError, match="must stay below directory"):
            attempt()
    assert victim.exists()


@pytest.mark.parametrize("field", ["epoch", "workers"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000, "1e30"])
def test_numbers_without_bounds_are_refused_with_the_file(field: str, number: str) -> None:
    plain = Manifest(epoch=0, graph="g", workers=1, binding=(0,), watermarks_us={}, states=())
    text = MANIFESTS.codec.encode(replace(plain, **{field: 77})).decode()  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="checkpoint file the-file is damaged"):
        MANIFESTS.decode(sealed(text.replace(f'"{field}":77', f'"{field}":{number}').encode()), "the-file")


def test_a_record_nested_without_bounds_is_refused() -> None:
    for text in (b"[" * 100_000, b'{"format":4,"kind":"stored-graph","operators":' + b'{"a":' * 100_000):
        with pytest.raises(CheckpointError, match="is damaged"):
            GRAPHS.decode(sealed(text), "the-file")


def test_a_lock_or_a_file_of_the_checkpoint_that_is_a_link_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    """Files are replaced as a whole, so a link is replaced and what it names stays."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run" / "plans").mkdir(parents=True)
    (tmp_path / "run" / "plans" / "0000000001").symlink_to(victim)
    Directory(str(tmp_path / "run")).write("plans/0000000001", b"new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "run" / "plans" / "0000000001").read_text() == "new"
