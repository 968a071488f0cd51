"""Segments: immutable files with the state of many instances; every part has a checksum.

Layout: magic, the parts' Arrow bytes, an index (JSON), the index's length and checksum, magic again.
"""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.errors import CheckpointError
from shoal.kernels.columns.parts import renumbered, table_from_arrow
from shoal.kernels.columns.table import Ints, Table, Tables
from shoal.model.query.graph import InstanceId

MAGIC = b"SHOAL2\r\n"
_TAIL = struct.Struct("<II8s")


@dataclass(frozen=True)
class SegmentPart:
    """One table of the state of one lane's instances; `content.instance` counts within `instances`."""

    instances: tuple[InstanceId, ...]
    table: int
    content: Table


def encode(parts: Sequence[SegmentPart]) -> bytes:
    """The file's bytes."""
    blobs, index, at = [], [], len(MAGIC)
    for part in parts:
        blob = _pack(part.content)
        entry = {"instances": part.instances, "table": part.table, "at": at, "size": len(blob)}
        index.append({**entry, "crc": zlib.crc32(blob)})
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(index, separators=(",", ":")).encode()
    return b"".join([MAGIC, *blobs, text, _TAIL.pack(len(text), zlib.crc32(text), MAGIC)])


def decode(content: bytes, where: str, *, validate: bool = False) -> list[SegmentPart]:
    """The parts of a file; damage raises an error with `where`, the address of the file.

    `validate`: look at all offsets and texts too. Checksums find damage; somebody who can write the file can also
    write checksums, and Arrow trusts offsets.
    """
    try:
        length, crc, magic = _TAIL.unpack(content[-_TAIL.size :])
        text = content[-_TAIL.size - length : -_TAIL.size]
        whole = content[: len(MAGIC)] == MAGIC == magic and zlib.crc32(text) == crc
        index = json.loads(text) if whole else None
    except (struct.error, ValueError, RecursionError):
        index = None
    if index is None:
        raise CheckpointError(f"state file {where} is damaged or incomplete")
    try:
        return [_part(content, entry, where, validate=validate) for entry in index]
    except (LookupError, TypeError, ValueError, OverflowError, StopIteration, pa.ArrowException) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"state file {where} is damaged: {reason}") from error


def _part(content: bytes, entry: Mapping[str, object], where: str, *, validate: bool) -> SegmentPart:
    at, size = int(str(entry["at"])), int(str(entry["size"]))
    blob = memoryview(content)[at : at + size]
    if zlib.crc32(blob) != entry["crc"]:
        raise CheckpointError(f"state file {where} is damaged: a checksum does not match")
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        batch = reader.read_next_batch()
        if validate:
            batch.validate(full=True)
        table = table_from_arrow(batch)
    return SegmentPart(tuple(entry["instances"]), int(str(entry["table"])), table)  # type: ignore[arg-type]


def _pack(content: Table) -> bytes:
    batch = content.to_arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def parts_of(instances: Sequence[InstanceId], tables: Tables, numbers: Ints) -> list[SegmentPart]:
    """The state of the numbered instances of a lane, a part for each table."""
    if not numbers.size:
        return []
    new_number = np.full(len(instances), -1, np.int64)
    new_number[numbers] = np.arange(numbers.size)
    named = tuple(instances[number] for number in numbers.tolist())
    return [SegmentPart(named, number, renumbered(table, new_number)) for number, table in tables.items()]


def chosen(part: SegmentPart, number_of: Mapping[InstanceId, int]) -> Table:
    """The rows of some instances, with the given instance numbers."""
    numbers = np.array([number_of.get(instance, -1) for instance in part.instances], np.int64)
    return renumbered(part.content, numbers)
